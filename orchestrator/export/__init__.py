"""Exports: hands out the rows of many runs, and the audit, as lines of JSON, page by page.

Called by `api`. This room must never write to PostgreSQL, and never hold a connection while a page is sent.
"""

from pipeweave.orchestrator.export.audit_rows import AuditExport
from pipeweave.orchestrator.export.chosen import ChosenRuns
from pipeweave.orchestrator.export.exporting import KINDS, Export, ExportPart
from pipeweave.orchestrator.export.logs import Stores
from pipeweave.orchestrator.export.position import Position

__all__ = ["KINDS", "AuditExport", "ChosenRuns", "Export", "ExportPart", "Position", "Stores"]
