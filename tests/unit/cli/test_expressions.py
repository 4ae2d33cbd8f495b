"""`pipeweave pipelines check` and `pipeweave eval`: what they send, print and exit with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.ids import RUN, new_id, show

Call = Callable[..., Result]
RUN_ID = show(RUN, new_id())


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)
    return lambda *arguments: CliRunner().invoke(main, arguments)


def answer(*errors: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "valid": not errors,
        "errors": list(errors),
        "warnings": [],
        "spec": None,
        "specHash": None,
    } | more


def value_of(**more: Any) -> dict[str, Any]:
    return {"value": None, "type": None, "references": [], "work": 1, "error": None} | more


def test_a_check_prints_every_mistake_of_every_document(served: Served, call: Call) -> None:
    Path("two.yaml").write_text("id: a\nsteps: [{task: t}]\n---\nsteps: 5\n")
    wrong = [
        {"field": "steps", "message": "must be a list\x1b[31m", "code": "invalid_type"},
        {"field": "id", "message": "is required", "code": "missing"},
    ]
    warning = {"code": "DEPTH_OVER_20", "message": "deep", "steps": []}
    served.put("POST /api/pipelines/validate", (200, answer(warnings=[warning])), (200, answer(*wrong)))
    result = call("pipelines", "check", "two.yaml")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:3] == ["a: valid", "  DEPTH_OVER_20: deep", "two 2: not valid"]
    assert lines[3].startswith("  steps: must be a list")
    assert lines[4] == "  id: is required"
    assert "\x1b" not in result.stdout
    assert [each[2] for each in served.asked] == [{"id": "a", "steps": [{"task": "t"}]}, {"steps": 5}]


def test_a_check_of_a_right_document_exits_0(served: Served, call: Call) -> None:
    Path("one.yaml").write_text("steps: [{task: t}]\n")
    served.put("POST /api/pipelines/validate", (200, answer()), (200, answer()))
    result = call("pipelines", "check", "one.yaml")
    assert (result.exit_code, result.stdout) == (0, "one: valid\n")
    assert json.loads(call("pipelines", "check", "one.yaml", "--json").stdout)["valid"] is True


def test_a_check_of_what_is_no_pipeline_is_refused(call: Call) -> None:
    Path("list.yaml").write_text("- 5\n")
    assert "holds no pipeline" in call("pipelines", "check", _empty()).stderr
    Path("text.json").write_text("[5]")
    assert "is an object with `steps`" in call("pipelines", "check", "text.json").stderr


def _empty() -> str:
    Path("empty.yaml").write_text("# nothing yet\n")
    return "empty.yaml"


def test_an_expression_is_evaluated_with_an_input(served: Served, call: Call) -> None:
    served.put("POST /api/expressions/evaluate", (200, value_of(value=True, type="boolean")))
    result = call("eval", "input.total > 5", "-i", '{"total": 6}')
    assert (result.exit_code, result.stdout) == (0, "true\n")
    assert served.asked[0][2] == {"expression": "input.total > 5", "context": {"input": {"total": 6}}}


def test_an_expression_is_evaluated_with_the_values_of_a_run(served: Served, call: Call) -> None:
    served.put("POST /api/expressions/evaluate", (200, value_of(value=5, type="number")))
    assert call("eval", "steps.a", "--run", RUN_ID, "--step", "b").stdout == "5\n"
    assert served.asked[-1][2] == {"expression": "steps.a", "runId": RUN_ID, "stepId": "b"}


def test_an_expression_without_a_value_exits_1_and_says_why(served: Served, call: Call) -> None:
    error = {"code": "INVALID_REFERENCE", "message": "input has no 'totl'", "hint": "did you mean 'total'?"}
    served.put("POST /api/expressions/evaluate", (200, value_of(error=error)))
    result = call("eval", "input.totl")
    assert result.exit_code == 1
    assert result.stdout == "INVALID_REFERENCE: input has no 'totl' (did you mean 'total'?)\n"


@pytest.mark.parametrize("more", [("-i", "{}", "--run", RUN_ID), ("--step", "a")])
def test_options_that_contradict_each_other_are_refused(more: tuple[str, ...], call: Call) -> None:
    assert call("eval", "1", *more).exit_code == 2


@pytest.fixture
def call_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, where nothing names an orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PIPEWEAVE_ORCHESTRATOR_URL", raising=False)
    monkeypatch.delenv("PIPEWEAVE_DATA_DIR", raising=False)
    return lambda *arguments: CliRunner().invoke(main, arguments)


def test_without_an_orchestrator_a_check_tells_what_the_document_alone_says(call_alone: Call) -> None:
    wrong = "steps: [{id: a, task: t, condition: 'inptu.x'}, {id: b, task: t, parms: {}}]\n"
    Path("two.yaml").write_text(f"id: right\nsteps: [{{task: nobody_has_it}}]\n---\nid: wrong\n{wrong}")
    result = call_alone("pipelines", "check", "two.yaml")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:2] == ["right: valid", "wrong: not valid"]
    assert sorted(each.split(":")[0].strip() for each in lines[2:]) == [
        "steps[0].condition",
        "steps[1].parms",
    ]
    assert "did you mean 'input'" in result.stdout
    assert result.stderr == "tasks and pipelines were not looked up: no orchestrator is configured\n"


def test_without_an_orchestrator_a_check_answers_in_json_as_with_one(call_alone: Call) -> None:
    Path("one.yaml").write_text("steps: [{task: t}]\n")
    result = call_alone("pipelines", "check", "one.yaml", "--json")
    answered = json.loads(result.stdout)
    assert (result.exit_code, answered["valid"], answered["spec"]["id"]) == (0, True, "unnamed")
    assert answered.keys() == answer().keys()


def test_an_orchestrator_that_is_named_but_away_is_no_reason_to_check_less(
    call_alone: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("one.yaml").write_text("steps: [{task: t}]\n")
    assert call_alone("pipelines", "check", "one.yaml", "--data-dir", "elsewhere").exit_code != 0
    assert "valid" not in call_alone("pipelines", "check", "one.yaml", "--url", "http://127.0.0.1:9").stdout


def test_without_an_orchestrator_an_expression_is_evaluated_with_an_input(call_alone: Call) -> None:
    result = call_alone("eval", "input.total * 2 > 5", "-i", '{"total": 6}')
    assert (result.exit_code, result.stdout) == (0, "true\n")
    assert call_alone("eval", "now() > time('2020-01-01T00:00:00Z')").stdout == "true\n"
    failed = call_alone("eval", "input.totl", "-i", '{"total": 6}')
    assert failed.exit_code == 1
    assert "did you mean 'total'" in failed.stdout
    assert "is not an expression" in call_alone("eval", "1 +").stderr


def test_the_values_of_a_run_need_an_orchestrator(call_alone: Call) -> None:
    result = call_alone("eval", "steps.a", "--run", RUN_ID)
    assert result.exit_code != 0
    assert "no orchestrator is configured" in result.stderr
