"""Say what ended a run: its own error, and the errors of its task runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from pipeweave.cli.support.rendering import is_terminal, text
from pipeweave.spec import WITH_ITEMS

SHOWN_FAILURES = 5
# The run's error says no more than its failed steps say.
_OF_A_STEP = "STEP_FAILED"
# A run that ends cancels its open task runs with these codes: the run's own error says why.
_BY_THE_END = frozenset({"RUN_FAILED", "CANCELLED", "RUN_TIMEOUT", "RUN_IDLE_TIMEOUT"})


def run_error(document: Mapping[str, Any]) -> str | None:
    """What ended the run, with its code; None if it did not end badly, or only because a step failed."""
    code = document.get("errorCode")
    if code is None or code == _OF_A_STEP:
        return None
    return said(code, document.get("error"))


def show_failures(document: Mapping[str, Any]) -> None:
    """Print the first errors of task runs: below the table on a terminal, on standard error elsewhere."""
    failures = list(_failures(document))
    lines = failures[:SHOWN_FAILURES]
    if len(failures) > SHOWN_FAILURES:
        lines.append(f"and {len(failures) - SHOWN_FAILURES:,} more")
    if unseen := _failed_but_not_listed(document, failures):
        lines.append(f"{_of_all(document, unseen)}; `pipeweave dlq list` shows them")
    for line in lines:
        shown = f"  {line}"
        click.echo(click.style(shown, fg="red") if is_terminal() else shown, err=not is_terminal())


def _failed_but_not_listed(document: Mapping[str, Any], listed: list[str]) -> int:
    """How many task runs failed, if a run is so large that the answer lists none of them."""
    if listed or document.get("taskRunsCursor") is None:
        return 0
    return sum(int(each["failed"]) for each in document.get("steps") or ())


def _of_all(document: Mapping[str, Any], unseen: int) -> str:
    """Why so many failed; while the run goes on, only how many."""
    error = document.get("error")
    if document.get("errorCode") == _OF_A_STEP and isinstance(error, dict):
        return text(error.get("message"))
    return f"{unseen:,} task run{'' if unseen == 1 else 's'} failed"


def said(code: Any, error: Any) -> str:
    """`CODE: message` of an error."""
    message = error.get("message") if isinstance(error, dict) else error
    by = error.get("by") if isinstance(error, dict) else None
    who = f" (by the token {by!r})" if by else ""
    return text(f"{code}: {message}{who}" if message else code)


def place(task_run: Mapping[str, Any]) -> str:
    """The step of a task run, with the index of an item of a map: `charge[3]`."""
    index = task_run.get("mapIndex")
    return str(task_run["stepId"]) if index is None else f"{task_run['stepId']}[{index}]"


def _failures(document: Mapping[str, Any]) -> Iterator[str]:
    for each in document.get("taskRuns") or ():
        code = each.get("errorCode")
        failed = each["status"] in ("failed", "timeout")
        cancelled = each["status"] == "cancelled" and code not in _BY_THE_END
        # A map fails because of its items, which are listed themselves.
        if (failed or cancelled) and each.get("kind") not in WITH_ITEMS:
            yield f"{place(each)} {each['status']}: {said(code, each.get('error'))}"
            yield from _of_handler(each)
    yield from _of_ending(document.get("error"))


def _of_handler(task_run: Mapping[str, Any]) -> Iterator[str]:
    error = task_run.get("error")
    if isinstance(error, dict) and error.get("handlerError"):
        handler = error["handlerError"]
        yield f"what was to take care of {place(task_run)}: {said(handler.get('code'), handler)}"


def _of_ending(error: Any) -> Iterator[str]:
    """What did not succeed after the last step: the steps that were not taken back, and `finally`."""
    if not isinstance(error, dict):
        return
    for each in error.get("compensationErrors", ()):
        yield f"{each['step']} was not taken back: {said(each.get('code'), each)}"
    if last := error.get("finallyError"):
        yield f"finally: {said(last.get('code'), last)}"
