"""Models of the audit."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from pipeweave.api.contract.exports import ExportCursor
from pipeweave.api.contract.query_parameters import Moment, PageQuery, Query
from pipeweave.orchestrator.reading import audit_list

Text = Annotated[str, Field(min_length=1, max_length=500)]


def _verb(value: Any) -> Any:
    if isinstance(value, str) and not _VERB.match(value):
        raise ValueError("must be an operation id such as tasks.pause, or a command such as `token create`")
    return value


_VERB = re.compile(r"[a-z_]{1,60}([. ][a-z_-]{1,60}){1,3}\Z")
Verb = Annotated[str, Field(max_length=300), AfterValidator(_verb)]


class _Chosen(Query):
    actor: Text | None = Field(None, description="The name of the token; of a command, `user@host`.")
    verb: Verb | None = Field(
        None, description="The operation id, e.g. `tasks.pause`, or the command, e.g. `token create`."
    )
    object: Text | None = Field(None, description="The id of the object, as the request had it.")
    since: Moment | None = Field(None, description="At this time or later.")
    until: Moment | None = Field(None, description="Before this time.")

    def filter(self) -> audit_list.AuditFilter:
        """The filter in the form that the orchestrator takes."""
        return audit_list.AuditFilter(self.actor, self.verb, self.object, self.since, self.until)


class AuditQuery(_Chosen, PageQuery):
    """Which rows of the audit to list."""


class AuditExportQuery(_Chosen):
    """Which rows of the audit to export, and where it goes on."""

    after: ExportCursor | None = Field(
        None, description="The last `cursor` of an export that broke off, with the same filters."
    )
