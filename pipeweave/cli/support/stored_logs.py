"""Print the stored log of a task run, and follow it while it grows, from attempt to attempt."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import is_terminal, text

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

# Between two looks at a log that is followed (s).
POLL_INTERVAL_S = 0.5
_COLOURS = {"warn": "yellow", "warning": "yellow", "error": "red", "debug": "bright_black"}
# Members of a line that stand elsewhere in a printed line, or are the same in each.
_NOT_SHOWN = {"timestamp", "level", "message", "runId"}


def show(
    client: Client, task_run_id: str, *, attempt: int | None, count: int, follow: bool, as_json: bool
) -> None:
    """Print the last lines of a stored log.

    Args:
        attempt: its attempt; None for the present one.
        count: how many lines, before those that are followed.
        follow: go on until the attempt has ended; without `attempt`, until the last of them has.
    """
    goes_on = attempt is None
    page = client.task_run_logs(task_run_id, attempt=attempt, tail=max(count, 1))
    print_lines(page["logs"] if count else [], as_json=as_json)
    if not page["logs"] and not follow and not as_json:
        click.echo(f"Attempt {page['attempt']} of {task_run_id} has logged nothing.", err=True)
    while follow:
        if page["isComplete"] and not (goes_on and _has_next(client, task_run_id, page)):
            return
        is_behind = bool(page["logs"])
        if not is_behind:
            time.sleep(POLL_INTERVAL_S)
        page = client.task_run_logs(task_run_id, attempt=page["attempt"], offset=page["nextOffset"])
        print_lines(page["logs"], as_json=as_json)


def _has_next(client: Client, task_run_id: str, page: Document) -> bool:
    """Whether another attempt follows the one whose log is complete; the next look is at its beginning."""
    if client.task_run(task_run_id)["attempt"] <= page["attempt"]:
        return False
    page.update(attempt=page["attempt"] + 1, nextOffset=0)
    return True


def print_lines(lines: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print lines of stored logs, for people or as JSON lines."""
    import orjson

    for line in lines:
        click.echo(orjson.dumps(line).decode() if as_json else _for_people(line))
        sys.stdout.flush()


def _for_people(line: Mapping[str, Any]) -> str:
    level = f"{text(line.get('level')):<7}"
    if is_terminal() and (colour := _COLOURS.get(str(line.get("level")))):
        level = click.style(level, fg=colour)
    said = [text(line.get("message"))]
    said += [f"{name}={text(value)}" for name, value in line.items() if name not in _NOT_SHOWN]
    return f"{_time(line.get('timestamp'))} {level} {' '.join(said)}"


def _time(stamp: Any) -> str:
    try:
        moment = datetime.fromisoformat(str(stamp)).astimezone()
    except ValueError:
        return " " * 12
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03}"
