"""What can be asked of the processes of a stack: to restart, stop, start or remove them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class ProcessVerb(StrEnum):
    """What happens to the processes of a request."""

    RESTART = "restart"
    STOP = "stop"
    START = "start"
    REMOVE = "remove"

    @property
    def done(self) -> str:
        """The verb when it is done: `restarted`."""
        return {ProcessVerb.STOP: "stopped", ProcessVerb.REMOVE: "removed"}.get(self, f"{self.value}ed")


@dataclass(slots=True)
class ProcessRequest:
    """A request about processes.

    Args:
        names: of the processes, in the order in which it is done.
        answer: called with the name of each process, and None or what went wrong.
        verb: what is done. A worker that is started and not there is added; one that is removed is forgotten.
    """

    names: Sequence[str]
    answer: Callable[[str, str | None], None] = field(default=lambda name, problem: None)
    verb: ProcessVerb = ProcessVerb.RESTART
