"""Say why an open run does not go on, as `pipeweave why` says it of a task run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeweave.cli.support.rendering import text
from pipeweave.cli.support.run_errors import place
from pipeweave.errors import Conflict
from pipeweave.spec import WITH_ITEMS

if TYPE_CHECKING:
    from pipeweave.client import Client, Run

# Task runs that wait, those first that nothing of their own run holds back.
_ORDER = ("waiting", "queued", "ready", "pending")
# A retry that is due within this time is no reason to say anything (s).
SOON_S = 2.0


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a run does not go on.

    Args:
        key: the kind of reason; it stays equal while only the numbers of its text change.
        line: what to print.
    """

    key: tuple[str, ...]
    line: str


def why_waiting(client: Client, run: Run) -> WaitingReason | None:
    """Why a run does not go on; None if a task run of it runs, or all ended."""
    task_run = first_waiting(run)
    if task_run is None:
        return None
    answer = client.why(task_run["id"])
    reasons = answer["reasons"]
    if not reasons or answer["status"] not in _ORDER or _is_about_to_start(reasons):
        return None
    key = (task_run["id"], *(each["code"] for each in reasons))
    return WaitingReason(key, f"{place(task_run)} waits: {'; '.join(text(each['text']) for each in reasons)}")


def first_open(run: Run) -> str | None:
    """The id of the task run that explains best why a run does not go on, or what it does.

    Returns:
        None when the run is open without an open task run: it is paused, or about to end.

    Raises:
        Conflict: the run has ended.
    """
    shown = _shown(run)
    task_run = first_waiting(run) or next((each for each in shown if each["status"] == "running"), None)
    if task_run is None and run.is_final:
        raise Conflict(
            f"run {run.id} has ended ({run.status}) and waits for nothing",
            hint=f"`pipeweave status {run.id}` shows its steps and errors",
        )
    return None if task_run is None else str(task_run["id"])


def _is_about_to_start(reasons: Sequence[Mapping[str, Any]]) -> bool:
    return [each["code"] for each in reasons] == ["retry_due"] and reasons[0]["inS"] < SOON_S


def first_waiting(run: Run) -> Mapping[str, Any] | None:
    """The task run to ask about; None if one runs, or none is open."""
    shown = _shown(run)
    if any(each["status"] == "running" for each in shown):
        return None
    waiting = [each for each in shown if each["status"] in _ORDER]
    return min(waiting, key=_rank, default=None)


def _shown(run: Run) -> Sequence[Mapping[str, Any]]:
    """Its task runs but maps: a map waits for its items, and they say why."""
    return [each for each in run.document.get("taskRuns") or () if each["kind"] not in WITH_ITEMS]


def _rank(task_run: Mapping[str, Any]) -> tuple[int, bool]:
    return _ORDER.index(task_run["status"]), task_run.get("dueAt") is None
