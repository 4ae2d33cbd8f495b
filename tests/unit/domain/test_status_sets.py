"""Sets of statuses are named in states.py, and SQL takes them from there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from support.pages import ROOT

from pipeweave.orchestrator.domain import states
from pipeweave.orchestrator.domain.states import RunStatus, TaskStatus

STATUSES = {status.value for status in (*RunStatus, *TaskStatus)}
LIST = re.compile(r"\(\s*'\w+'(?:\s*,\s*'\w+')+\s*\)")
COMPARED = re.compile(r"\b[trohpm]\.status\s*(?:=|<>)\s*'(\w+)'")


def texts() -> Iterator[tuple[Path, str]]:
    """Every text of the orchestrator that is no docstring."""
    for path in sorted((ROOT / "orchestrator").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(), str(path))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


def test_no_statement_lists_statuses_by_hand() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match}"
        for path, text in texts()
        for match in LIST.findall(text)
        if set(re.findall(r"\w+", match)) <= STATUSES
    ]
    assert not found, "take the set from states.py: sql_in(ACTIVE_RUN)"


def test_a_status_in_a_statement_is_one_that_there_is() -> None:
    unknown = {
        f"{path.relative_to(ROOT)}: {status}"
        for path, text in texts()
        for status in COMPARED.findall(text)
        if status not in STATUSES
    }
    assert not unknown


def test_a_set_is_written_in_the_order_of_the_declaration() -> None:
    assert states.sql_in(states.ACTIVE_RUN) == "('pending', 'running', 'error_handling')"
    assert states.sql_in(states.LIVE_TASK) == "('queued', 'running', 'waiting')"


def test_the_sets_of_run_statuses_divide_the_open_runs() -> None:
    assert set(RunStatus) == states.OPEN_RUN | states.FINAL_RUN
    assert states.ADVANCING_RUN < states.ACTIVE_RUN < states.OPEN_RUN
    assert states.ADVANCING_RUN == states.ADMITTED_RUN & states.ACTIVE_RUN
    assert {RunStatus.PAUSED} == states.OPEN_RUN - states.ACTIVE_RUN
    assert {RunStatus.PENDING} == states.OPEN_RUN - states.ADMITTED_RUN


def test_the_sets_of_task_statuses_lie_on_the_right_side_of_the_end() -> None:
    assert states.UNSTARTED_TASK | states.RELEASED_TASK | states.LIVE_TASK == states.OPEN_TASK
    assert states.ENDED_TASK < states.FINAL_TASK
    assert states.ENDED_TASK - {TaskStatus.COMPLETED} == states.FAILED_TASK
