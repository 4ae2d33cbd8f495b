"""`pipeweave ledger`: the sums with their shares, and the steps that took the longest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, new_id, run_id_of, show

RUN_ID = show(RUN, run_id_of(new_id()))


def a_sum(kind: str, label: str, ms: float) -> dict[str, Any]:
    return {"kind": kind, "label": label, "taskId": None, "limit": None, "ms": ms, "steps": 1}


def a_step(id: str, ms: float, text: str, index: int | None = None) -> dict[str, Any]:
    row = {"stepId": id, "taskId": "t", "status": "completed", "ms": ms, "mapIndex": index}
    return {**row, "kinds": {"work": ms}, "text": text}


LEDGER = {
    "runId": RUN_ID,
    "status": "completed",
    "isOpen": False,
    "totalMs": 41_200.0,
    "sums": [
        a_sum("taskLimit", "waiting for a slot of resize (limit 4)", 21_400.0),
        a_sum("work", "work", 19_798.0),
        a_sum("queue", "queue", 2.0),
    ],
    "steps": [a_step("list", 1_200.0, "1.2 s work"), a_step("resize", 40_000.0, "21.4 s waiting", 7)],
    "pathLength": 5,
    "text": "",
}


def shown(served: Served, document: dict[str, Any], *more: str) -> str:
    served.put(f"GET /api/runs/{RUN_ID}/ledger", (200, document))
    env = {"PIPEWEAVE_ORCHESTRATOR_URL": served.url, "COLUMNS": "80"}
    result = CliRunner().invoke(main, ["ledger", RUN_ID, *more], env=env)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_sums_are_shown_with_their_shares(served: Served) -> None:
    lines = shown(served, LEDGER).splitlines()
    assert lines[0] == f"{RUN_ID} completed: 41.2 s"
    assert lines[2:5] == [
        "waiting for a slot of resize (limit 4)  21.4 s   52 %  #############",
        "work                                    19.8 s   48 %  ############",
        "queue                                     2 ms    0 %  #",
    ]
    assert max(map(len, lines)) <= 80


def test_the_steps_of_the_path_follow_in_their_order(served: Served) -> None:
    lines = shown(served, LEDGER).splitlines()
    assert [line.split()[0] for line in lines[6:9]] == ["STEP", "list", "resize[7]"]
    assert lines[-1] == "and 3 more steps of the critical path, each of which took less"


def test_of_an_open_run_it_says_so(served: Served) -> None:
    found = {**LEDGER, "isOpen": True, "status": "pending", "steps": [], "pathLength": 0, "sums": []}
    assert shown(served, {**found, "totalMs": 0.0}).splitlines()[0] == f"{RUN_ID} pending: 0 ms so far"


def test_a_label_from_the_server_cannot_steer_the_terminal(served: Served) -> None:
    evil = a_sum("work", "work\x1b[2J", 41_200.0)
    assert "\x1b" not in shown(served, {**LEDGER, "sums": [evil]})


def test_the_timeline_is_written_as_a_picture(served: Served, tmp_path: Path) -> None:
    bar = {"kind": "work", "fromMs": 0, "toMs": 9, "attempt": 1, "errorCode": None}
    step = {"stepId": "list", "status": "completed", "bars": [bar], "lane": None, "isCritical": True}
    page = {"pipelineId": "report", "status": "completed", "totalMs": 9}
    first = f"GET /api/runs/{RUN_ID}/timeline?limit=500"
    served.put(first, (200, {**page, "steps": [step], "nextCursor": "abc"}))
    served.put(f"{first}&cursor=abc", (200, {**page, "steps": [{**step, "stepId": "b"}], "nextCursor": None}))
    file = tmp_path / "timeline.svg"
    shown(served, LEDGER, "--svg", str(file))
    picture = file.read_text()
    assert picture.startswith("<svg") and ">list<" in picture and ">b<" in picture


def test_as_json_it_is_the_servers_answer(served: Served) -> None:
    assert json.loads(shown(served, LEDGER, "--json")) == LEDGER
