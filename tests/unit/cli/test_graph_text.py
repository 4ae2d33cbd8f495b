"""Graphs drawn with letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.graphs import WORKFLOWS, plan_of, plan_of_workflow
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.cli.support.graph_text import graph_lines
from pipeweave.ids import RUN, new_id, run_id_of, show
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.graph import DrawingView, graph_document


def document(plan: Plan, view: DrawingView = DrawingView.ALL) -> dict[str, Any]:
    return graph_document(plan, view, pipeline_id="drawn", version=1, has_layout=False)


def test_a_diamond() -> None:
    lines = graph_lines(document(plan_of({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}, maps=["c"])))
    assert lines == [
        "●  a",
        "├─╮",
        "● │  b",
        "│ ◆  c  map of c",
        "├─╯",
        "●  d",
    ]


def test_a_chain_is_a_column() -> None:
    assert graph_lines(document(plan_of({"a": [], "b": ["a"], "c": ["b"]}))) == ["●  a", "●  b", "●  c"]


def test_a_long_link_runs_beside_what_it_passes() -> None:
    lines = graph_lines(document(plan_of({"a": [], "b": ["a"], "c": ["b", "a"]})))
    assert lines == ["●  a", "├─╮", "● │  b", "╰─┤", "  ●  c"]


def test_a_class_says_how_many_it_is() -> None:
    steps = {f"b{at}": ["a"] for at in range(1_200)}
    plan = plan_of({"a": [], **steps}, dict.fromkeys(steps, "b"))
    assert graph_lines(document(plan, DrawingView.PATTERN)) == ["●  a", "●  b \N{MULTIPLICATION SIGN}1,200"]


@pytest.mark.parametrize("name", [path.stem for path in WORKFLOWS])
@pytest.mark.parametrize("view", DrawingView)
def test_real_workflows_fit_80_columns_and_name_each_box_once(name: str, view: DrawingView) -> None:
    found = document(plan_of_workflow(name), view)
    lines = graph_lines(found, 80)
    assert max(map(len, lines)) <= 80
    named = [line for line in lines if "●" in line]
    assert len(named) == len(found["boxes"]["keys"])


def test_too_many_lanes_become_names() -> None:
    wide = {f"a{at}": [] for at in range(40)} | {
        f"b{at}": [f"a{(at + shift * 7) % 40}" for shift in range(5)] for at in range(40)
    }
    lines = graph_lines(document(plan_of(wide)))
    assert len(lines) == 80
    assert any(line.endswith("and 2 more") for line in lines)


# --- the command ------------------------------------------------------------------------------------------


def shown(served: Served, *arguments: str, subject: str = "report") -> Result:
    found = {"pipelineId": "report", "version": 3, **document(plan_of({"a": [], "b": ["a"]}))}
    served.put("GET /api/pipelines/report", (200, {"pipeline": {"id": "report", "version": 3}}))
    for query in ("", "?layout=false"):
        served.put(f"GET /api/pipelines/report/versions/3/graph{query}", (200, found))
    env = {"PIPEWEAVE_ORCHESTRATOR_URL": served.url, "COLUMNS": "80"}
    return CliRunner().invoke(main, ["graph", subject, *arguments], env=env)


def test_the_newest_version_is_drawn(served: Served) -> None:
    assert shown(served).stdout == "report v3: 2 steps, 1 edge; all steps\n●  a\n●  b\n"


def test_as_json_it_is_what_the_api_answers(served: Served) -> None:
    assert json.loads(shown(served, "--json").stdout)["boxes"]["keys"] == ["a", "b"]


def test_a_file_that_cannot_be_written_is_said_in_one_line(served: Served, tmp_path: Path) -> None:
    served.put("GET /api/pipelines/report/versions/3/graph.svg?", (200, {}))
    result = shown(served, "--svg", str(tmp_path / "no" / "folder.svg"))
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_run_is_drawn_with_the_statuses_of_its_steps(served: Served) -> None:
    id = show(RUN, run_id_of(new_id()))
    steps = [{"id": "a", "status": "completed"}, {"id": "b", "status": "failed"}]
    found = {"id": id, "pipelineId": "report", "pipelineVersion": 3, "status": "failed", "steps": steps}
    served.put(f"GET /api/runs/{id}", (200, found))
    assert shown(served, subject=id).stdout.splitlines()[1:] == ["●  a  completed", "●  b  failed"]
