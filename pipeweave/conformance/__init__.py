"""The conformance kit: play the orchestrator against anybody's HTTP worker, and say what it does not keep.

`pipeweave worker check` calls it. It needs no deployment: it serves an orchestrator of its own, with a folder
as storage. It imports the base modules, `authoring`, `schema` and `storage`. It must never import the
orchestrator: whoever writes a worker has the light package only.
"""

from __future__ import annotations

from pipeweave.conformance.check import ContractCheck, ContractFinding
from pipeweave.conformance.kit import Kit
from pipeweave.conformance.options import SessionOptions, Trial
from pipeweave.conformance.verdicts import ContractLevel, ContractVerdict

__all__ = [
    "ContractCheck",
    "ContractFinding",
    "ContractLevel",
    "ContractVerdict",
    "Kit",
    "SessionOptions",
    "Trial",
]
