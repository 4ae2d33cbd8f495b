"""Whatever changes a status writes an event: in the same statement, or by the function that sends it."""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module

from sql_pages import composed, statements

_CHANGES = re.compile(r"UPDATE (task_)?runs\b[^;]*?\bSET\b(?:(?!\bWHERE\b)[^;])*?\bstatus =", re.S)
# Rows are made as their events say; who asks for it appends the event of the repair.
REPAIRS = ("state.repairing.", "state.restoring.")
_CREATES = re.compile(r"INSERT INTO (task_)?runs\b")


def test_whatever_changes_a_status_writes_its_event() -> None:
    found = statements.modules()
    silent = [
        each
        for each in statements.constants(found) + composed.composed(found)
        if (_CHANGES.search(each.sql) or _CREATES.search(each.sql)) and "INSERT INTO events" not in each.sql
    ]
    assert silent, "some statements leave it to their function"
    for each in silent:
        # A statement that a verb composes, and hands to `move`, has the name of the verb.
        verbs = [each.name] if each.senders == ("state.task_transitions.move",) else each.senders
        assert all(map(_appends, verbs)) or each.name.startswith(REPAIRS), each.name
    assert "run.repaired" in inspect.getsource(import_module("pipeweave.orchestrator.diagnosis.repairing"))


def _appends(name: str) -> bool:
    """Whether a function appends events, by itself or by one of its module that it calls or is called by.

    One that makes an event hands it to its caller: the end of a run goes behind the events of its task runs.
    """
    module_name, _, function = name.rpartition(".")
    module = import_module(f"pipeweave.orchestrator.{module_name}")
    calls = {
        each.name: _called(each)
        for each in ast.parse(inspect.getsource(module)).body
        if isinstance(each, ast.FunctionDef)
    }
    near = (
        {function} | calls.get(function, set()) | {name for name, each in calls.items() if function in each}
    )
    return any({"append", "Event"} & calls.get(each, set()) for each in near)


def _called(function: ast.FunctionDef) -> set[str]:
    nodes = ast.walk(function)
    return {each.func.id for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)}
