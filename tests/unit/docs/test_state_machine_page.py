"""docs/state-machine.md draws the machine and the rules that the code has."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.pages import text_of

from pipeweave.orchestrator.domain import replay
from pipeweave.orchestrator.domain.states import REOPEN_RUN, REOPEN_TASK, RUN_MOVES, TASK_MOVES
from pipeweave.spec.rules import Decision, Predecessor, decide_step


@pytest.mark.parametrize(
    ("heading", "moves"), [("Run", RUN_MOVES), ("Task run", TASK_MOVES)], ids=["run", "task run"]
)
def test_the_picture_of_the_state_machine_is_the_state_machine(
    heading: str, moves: dict[str, set[str]]
) -> None:
    section = re.split(r"^## ", text_of("docs/state-machine.md"), flags=re.MULTILINE)
    picture = next(part for part in section if part.startswith(heading + "\n"))
    arrows = set(re.findall(r"^ +(\S+) --> (\S+)$", picture, re.MULTILINE))
    expected = {(str(before), str(after)) for before, allowed in moves.items() for after in allowed}
    expected |= {(str(before), "[*]") for before, allowed in moves.items() if not allowed}
    assert arrows == expected | {("[*]", "pending")}
    assert set(re.findall(r"^\| (\w+) \| (?!meaning)", picture, re.MULTILINE)) == {
        str(each) for each in moves
    }


def test_the_table_of_what_is_reopened_is_the_code() -> None:
    rows = re.findall(
        r"^\| (run|task run) \| (\w+) \| (\w+) \| .+ \|$", text_of("docs/state-machine.md"), re.M
    )
    tables: dict[str, Any] = {"run": REOPEN_RUN, "task run": REOPEN_TASK}
    expected = [
        (what, str(before), str(after))
        for what, moves in tables.items()
        for before, allowed in moves.items()
        for after in allowed
    ]
    assert sorted(rows) == sorted(expected)


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
def test_the_table_of_when_a_step_runs_is_the_rule(mode: str) -> None:
    """Each row of the table is made into predecessors and decided."""
    rows = re.findall(
        r"^\| (one|none) (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text_of("docs/state-machine.md"), re.M
    )
    assert len(rows) == 5
    column = ["fail-fast", "continue", "partial-merge"].index(mode)
    for one, rest, *words in rows:
        taken = Predecessor("completed", None if "an edge is taken" in rest else [])
        others = {"has not finished": Predecessor("running")} if "finished" in rest else {}
        failed = {"failed": Predecessor("failed")} if one == "one" and not others else {}
        decision = decide_step(mode, {"a": taken, **others, **failed}, "join")
        if words[column] != "the run has failed":
            expected = {"waits": Decision.WAIT, "skipped": Decision.SKIP}.get(words[column], Decision.RUN)
            assert decision is expected, rest


def test_the_table_of_events_has_every_type() -> None:
    cells = re.findall(r"^\| (`(?:run|task_runs?)\..+?) \| .+ \|$", text_of("docs/state-machine.md"), re.M)
    listed = [each for cell in cells for each in re.findall(r"`(.+?)`", cell)]
    # Nothing enters this status yet.
    assert sorted(listed) == sorted(replay.TYPES - {"run.error_handling"})
