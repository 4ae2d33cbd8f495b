"""Print the stored logs of all task runs of a run as one log, and follow it while the run goes on.

The log of a run of ordinary size is one answer of the API, and so are the last lines of a larger one. Of a
run that is followed, the log of each attempt is asked for.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import stored_logs
from pipeweave.errors import NotFound

if TYPE_CHECKING:
    from pipeweave.client import Client, Document, Run

# Of a run with at most so many task runs, all logs are asked for at once; each is an object in storage.
MOST_AT_ONCE = 2_000
# So many attempts, the newest, are followed; each is an object in storage.
MOST_ATTEMPTS = 200
# What an export says of each line beside what was logged; the step has what people want of it.
_IDS = {"taskRunId", "stepId", "mapIndex", "attempt", "tenant", "pipelineId", "pipelineVersion", "traceId"}
# Between two looks at a run that is followed (s).
POLL_INTERVAL_S = 0.5
_PAGE = 500
_MOST_ON_A_PAGE = 1_000
# The most lines that the API gives from the end of one log.
_MOST_TAIL = 10_000


@dataclass(slots=True)
class _AttemptLog:
    """The log of one attempt.

    Args:
        step: the step, with its index in a map and its attempt, if there are several.
        offset: what was read.
        is_complete: whether all of it was read.
    """

    task_run_id: str
    attempt: int
    step: str
    offset: int = 0
    is_complete: bool = False


def show(client: Client, run_id: str, *, count: int, follow: bool, as_json: bool) -> None:
    """Print the last lines of a run.

    Args:
        count: how many lines, before those that are followed.
        follow: go on until the run has ended, and its logs are complete.
    """
    run = client.run(run_id)
    if not follow:
        is_large = sum(run.document.get("counts", {}).values()) > MOST_AT_ONCE
        lines: Iterable[Document] = (
            _last_lines(client, run, count, with_ids=as_json)
            if is_large
            else _all_lines(client, run, with_ids=as_json)
        )
        shown = _print_last(lines, count, as_json=as_json)
        if not shown and not as_json:
            click.echo(f"The tasks of {run_id} have logged nothing.", err=True)
        return
    is_over = run.is_final
    attempts = _Attempts(client, run_id)
    logs = attempts.begun()
    lines = _lines(client, logs, tail=max(1, min(count, _MOST_TAIL)))
    _print_last(lines, count, as_json=as_json)
    while not (is_over and all(each.is_complete for each in logs)):
        is_over = is_over or client.run(run_id).is_final
        logs = [each for each in logs if not each.is_complete] + attempts.begun()
        fresh = sorted(_lines(client, logs), key=_moment)
        stored_logs.print_lines(fresh, as_json=as_json)
        if not fresh:
            time.sleep(POLL_INTERVAL_S)


def _print_last(lines: Iterable[Document], count: int, *, as_json: bool) -> bool:
    """Print the last lines by their times, and return whether there were any; only so many are held."""
    numbered = enumerate(lines, 1)
    last = sorted(heapq.nlargest(max(count, 1), ((_moment(each), number, each) for number, each in numbered)))
    stored_logs.print_lines((line for _, _, line in last[-count:] if count), as_json=as_json)
    return bool(last)


def _all_lines(client: Client, run: Run, *, with_ids: bool) -> Iterator[Document]:
    """The lines of all attempts of a run, by as few requests as they fit into."""
    for line in client.export("logs", run=run.id, standalone=run.pipeline_id is None):
        step = _step(line["stepId"], line.get("mapIndex"), line["attempt"])
        kept = line if with_ids else {name: value for name, value in line.items() if name not in _IDS}
        yield {"step": step, **kept}


def _last_lines(client: Client, run: Run, count: int, *, with_ids: bool) -> list[Document]:
    """The last lines of a run of any size, of those attempts whose logs the API reads."""
    lines: list[Document] = []
    cursor = None
    while len(lines) < max(count, 1):
        limit = min(max(count, 1) - len(lines), _MOST_ON_A_PAGE)
        try:
            page = client.run_logs(run.id, limit=limit, cursor=cursor)
        except NotFound:
            # The run was found: it is an API of an earlier version, which has no log of a whole run.
            logs = _Attempts(client, run.id).begun()
            return list(_lines(client, logs, tail=max(1, min(count, _MOST_TAIL))))
        # The pages go backwards, each with its oldest line first.
        lines[:0] = [_line_of_page(each, with_ids=with_ids) for each in page["logs"]]
        if cursor is None and page["attemptsRead"] < page["attempts"]:
            said = f"Of {page['attempts']:,} attempts, the logs of the {page['attemptsRead']:,} that failed"
            click.echo(f"{said} or began last are shown.", err=True)
        if (cursor := page["nextCursor"]) is None:
            break
    return lines


def _line_of_page(each: Document, *, with_ids: bool) -> Document:
    step = _step(each["stepId"], each["mapIndex"], each["attempt"])
    kept = {name: value for name, value in each.items() if with_ids and name in _IDS}
    return {"step": step, "timestamp": each["time"], **kept, **each["line"]}


def _step(step_id: str, map_index: int | None, attempt: int) -> str:
    item = "" if map_index is None else f"[{map_index}]"
    return f"{step_id}{item}" + (f" attempt {attempt}" if attempt > 1 else "")


class _Attempts:
    """The attempts of a run that have begun, as its events tell."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._run_id = run_id
        self._cursor: str | None = None
        self._seen: set[tuple[str, int]] = set()

    def begun(self) -> list[_AttemptLog]:
        """Those that have begun since it was asked; the newest MOST_ATTEMPTS of them."""
        fresh = []
        for event in self._events():
            key = event["taskRunId"], event["attempt"]
            if key not in self._seen:
                self._seen.add(key)
                fresh.append(key)
        if len(fresh) > MOST_ATTEMPTS:
            click.echo(f"Of {len(fresh):,} attempts, the newest {MOST_ATTEMPTS} are shown.", err=True)
        return [_AttemptLog(*each, step=self._step_of(*each)) for each in fresh[-MOST_ATTEMPTS:]]

    def _events(self) -> Iterator[Document]:
        """The events from the last page on that was read; some of them again."""
        while True:
            page = self._client.events_page(
                self._run_id, type="task_run.started", limit=_PAGE, cursor=self._cursor
            )
            yield from page.items
            if page.next_cursor is None:
                return
            self._cursor = page.next_cursor

    def _step_of(self, task_run_id: str, attempt: int) -> str:
        task_run = self._client.task_run(task_run_id)
        return _step(task_run["stepId"], task_run.get("mapIndex"), attempt)


def _lines(client: Client, logs: list[_AttemptLog], tail: int | None = None) -> Iterator[Document]:
    """The lines that were not read yet; with `tail`, only so many last ones of each log."""
    for each in logs:
        while not each.is_complete:
            offset = each.offset if tail is None else None
            page = client.task_run_logs(each.task_run_id, attempt=each.attempt, offset=offset, tail=tail)
            yield from ({"step": each.step, **line} for line in page["logs"])
            each.offset, each.is_complete = page["nextOffset"], page["isComplete"]
            if tail is not None or not page["logs"]:
                break


def _moment(line: Any) -> str:
    return str(line.get("timestamp") or "")
