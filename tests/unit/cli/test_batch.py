"""`pipeweave trigger --batch`: which requests a file becomes, and what is said about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.nesting import nested
from support.stub_http_server import Served

from pipeweave.cli import main
from pipeweave.cli.support.batch import read_inputs, requests
from pipeweave.client import Client
from pipeweave.errors import FieldError, InputValidationFailed, InvalidInput, MalformedJson
from pipeweave.size_limits import MAX_BATCH, MAX_BODY_BYTES

Call = Callable[..., Result]
POST = "POST /api/pipelines/report/trigger/batch"


def accepted(*names: str, **more: Any) -> dict[str, Any]:
    return {"runs": [{"pipelineRunId": name, "status": "running", **more} for name in names]}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)

    def called(*arguments: str, **more: Any) -> Result:
        return CliRunner().invoke(main, ("trigger", "report", *arguments), **more)

    yield called


@pytest.mark.parametrize(
    ("content", "inputs"),
    [
        (b'[{"n": 1}, 2, null]', [{"n": 1}, 2, None]),
        (b'{"n": 1}\n\n{"n": 2}\r\n[3]\n', [{"n": 1}, {"n": 2}, [3]]),
        (b'{"n": 1}', [{"n": 1}]),
        (b"[]", []),
        (b"", []),
    ],
)
def test_a_file_is_a_list_or_has_an_input_on_each_line(content: bytes, inputs: list[Any]) -> None:
    assert read_inputs(content) == inputs


def test_a_line_that_is_not_json_is_named() -> None:
    with pytest.raises(MalformedJson, match="line 3 is not JSON"):
        read_inputs(b"1\n\n{\n")


def test_a_request_carries_as_many_inputs_as_it_may() -> None:
    assert [len(each) for each in requests([0] * (2 * MAX_BATCH + 1))] == [MAX_BATCH, MAX_BATCH, 1]
    large = "x" * (MAX_BODY_BYTES // 3)
    assert [len(each) for each in requests([large] * 5)] == [2, 2, 1]
    assert list(requests([])) == []


def test_each_input_is_sent_with_the_options_of_all(served: Served, call: Call) -> None:
    served.put(POST, (200, accepted("prun_1", "prun_2")))
    result = call("--batch", "-", "-p", "5", "--failure-mode", "continue", input='{"n": 1}\n{"n": 2}\n')
    assert (result.exit_code, result.stdout) == (0, "prun_1 running\nprun_2 running\n")
    how = {"priority": 5, "failureMode": "continue"}
    assert served.asked[0][2] == {"runs": [{"input": {"n": 1}, **how}, {"input": {"n": 2}, **how}]}


def test_a_batch_answers_in_json_and_warns_with_the_number_of_the_input(served: Served, call: Call) -> None:
    fault = {"field": "to", "message": "is required", "code": "required"}
    served.put(POST, (200, accepted("prun_1", validationWarnings={"mail": [fault]})))
    result = call("--batch", "-", "--json", input="[{}]")
    assert [each["pipelineRunId"] for each in json.loads(result.stdout)["runs"]] == ["prun_1"]
    assert result.stderr == "warning: input 1: mail: to: is required\n"


def test_a_refusal_in_the_middle_says_what_runs_and_counts_in_the_file(served: Served, call: Call) -> None:
    problem = InputValidationFailed("no", errors=[FieldError("runs[3].input.to", "is required")]).to_problem()
    names = [f"prun_{n}" for n in range(MAX_BATCH)]
    served.put(POST, (200, accepted(*names)), (400, problem))
    result = call("--batch", "-", input="{}\n" * (MAX_BATCH + 5))
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == MAX_BATCH
    assert "runs[1003].input.to: is required" in result.stderr
    assert "the first 1,000 of 1,005 inputs were started" in result.stderr


@pytest.mark.parametrize("option", [("--wait",), ("-i", "{}"), ("-f", "-"), ("--timeout", "1")])
def test_a_batch_goes_without_options_for_one_run(
    served: Served, call: Call, option: tuple[str, ...]
) -> None:
    result = call("--batch", "-", *option, input="{}")
    assert (result.exit_code, served.asked) == (2, [])


def test_nothing_is_started_where_there_is_no_input(served: Served, call: Call) -> None:
    result = call("--batch", "-", "--json", input="\n")
    assert (result.exit_code, json.loads(result.stdout), served.asked) == (0, {"runs": []}, [])


def test_the_client_gives_a_run_for_each_wish(served: Served) -> None:
    served.put(POST, (200, accepted("prun_1", "prun_2")))
    with Client(served.url) as client:
        runs = client.trigger_batch("report", [{"input": 1}, {"priority": 3}], validation_mode="strict")
    assert [(each.id, each.pipeline_id, each.status) for each in runs] == [
        ("prun_1", "report", "running"),
        ("prun_2", "report", "running"),
    ]
    assert served.asked[0][2] == {"runs": [{"input": 1}, {"priority": 3}], "validationMode": "strict"}


def test_an_input_that_is_too_deep_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(InvalidInput, match="deeper than 200 levels"):
        list(requests([1, nested(300)]))


def test_each_run_of_a_batch_requires_the_labels_of_the_command(served: Served, call: Call) -> None:
    served.put(POST, (200, accepted("prun_1")))
    result = call("--batch", "-", "--require", "zone=eu", "--require", "gpu=a100", input="[{}]")
    assert result.exit_code == 0
    assert served.asked[0][2] == {"runs": [{"input": {}, "requires": {"gpu": "a100", "zone": "eu"}}]}


def test_what_is_no_label_is_refused_before_anything_is_asked(served: Served, call: Call) -> None:
    result = call("--require", "zone")
    assert result.exit_code == 2 and "'zone' is no label: write gpu=a100" in result.stderr
    assert not served.asked
