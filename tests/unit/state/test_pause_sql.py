"""The test whether a task is paused stands in one place."""

from __future__ import annotations

import ast

from support.pages import ROOT

# The verbs that write and list pauses, and the audit of them, are not tests whether a task is paused.
MAY_NAME_THE_TABLE = {
    "orchestrator/state/pause_sql.py",
    "orchestrator/queueing/pauses.py",
    "orchestrator/queueing/audited_objects.py",
}


def test_only_one_module_tells_statements_what_is_paused() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "orchestrator").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " pauses AS " in node.value
    }
    assert found <= MAY_NAME_THE_TABLE, "take the test from state/pause_sql.py"
