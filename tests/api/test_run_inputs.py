"""The input schema of a pipeline, over HTTP: triggers, batches and dry runs check it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Api

PATH = "/api/pipelines/daily/trigger"
FIELDS = [
    {"name": "day", "label": "Day", "type": "string", "required": True},
    {"name": "limit", "label": "Limit", "type": "integer"},
]
DAILY = {
    "steps": [{"task": "count", "params": {"path": "${input.day}"}}],
    "inputSchema": {"fields": FIELDS, "strict": True},
    "output": {"day": "${input.day}"},
}
TYPO = {"dya": "monday", "limit": "5"}


@pytest.fixture(autouse=True)
def _daily(api: Api) -> None:
    assert api.put("/api/pipelines/daily", DAILY).status_code in (200, 201)


def messages(errors: list[dict[str, Any]]) -> dict[str, str]:
    return {each["field"]: each["message"] for each in errors}


def test_an_input_that_does_not_fit_starts_no_run_unless_the_mode_says_so(api: Api) -> None:
    refused = api.post(PATH, {"input": TYPO})
    assert (refused.status_code, refused.json["code"]) == (400, "INPUT_VALIDATION_FAILED")
    assert messages(refused.json["errors"]) == {
        "input.dya": "is not an input of this pipeline; did you mean 'day'?",
        "input.day": "is required",
        "input.limit": 'Expected a number, got "5"',
    }
    assert refused.json["detail"].startswith("pipeline 'daily': input.dya: is not an input of this pipeline")
    assert api.post(PATH, {"input": TYPO, "validationMode": "strict"}).status_code == 400
    warned = api.post(PATH, {"input": TYPO, "validationMode": "warn"})
    assert [each["field"] for each in warned.json["validationWarnings"]["daily"]] == ["dya", "day", "limit"]
    assert "validationWarnings" not in api.post(PATH, {"input": TYPO, "validationMode": "none"}).json


@pytest.mark.parametrize("wrong", [[1], 5, "monday"])
def test_an_input_that_is_no_object_is_refused(api: Api, wrong: Any) -> None:
    (error,) = api.post(PATH, {"input": wrong}).json["errors"]
    assert error["field"] == "input"
    assert "must be an object with the pipeline's inputs (day, limit)" in error["message"]


def test_a_right_input_starts_a_run(api: Api) -> None:
    answer = api.post(PATH, {"input": {"day": "monday", "limit": 5.0}})
    assert (answer.status_code, "validationWarnings" in answer.json) == (200, False)


def test_the_fields_of_a_batch_name_the_run(api: Api) -> None:
    runs = [{"input": {"day": "monday"}}, {"input": TYPO}]
    refused = api.post(f"{PATH}/batch", {"runs": runs})
    assert refused.status_code == 400
    assert "runs[1].input.dya" in messages(refused.json["errors"])
    warned = api.post(f"{PATH}/batch", {"runs": runs, "validationMode": "warn"}).json["runs"]
    assert ["validationWarnings" in each for each in warned] == [False, True]


def test_a_dry_run_and_the_pipeline_show_the_schema(api: Api) -> None:
    planned = api.post("/api/pipelines/daily/dry-run", {"input": TYPO}).json
    assert [each["field"] for each in planned["validationErrors"]["daily"]] == ["dya", "day", "limit"]
    spec = api.get("/api/pipelines/daily").json["pipeline"]["spec"]
    assert (spec["inputSchema"], spec["output"]) == (DAILY["inputSchema"], DAILY["output"])


def test_a_wrong_schema_is_refused_with_its_place(api: Api) -> None:
    document = {
        **DAILY,
        "inputSchema": {"fields": [{**FIELDS[0], "type": "text"}]},
        "output": "${steps.cuont}",
    }
    refused = api.put("/api/pipelines/daily", document)
    assert refused.status_code == 400
    found = messages(refused.json["errors"])
    assert set(found) == {"inputSchema.fields[0].type", "output"}
    assert "did you mean 'count'?" in found["output"]


def test_a_dry_run_names_params_that_a_task_does_not_take(api: Api) -> None:
    field = {"name": "path", "label": "Path", "type": "string", "required": True}
    task = {"id": "measure", "codeHash": "0" * 16, "parameters": {"fields": [field], "strict": True}}
    service = {"serviceId": "measuring", "kind": "python", "tasks": [task]}
    assert api.post("/api/services", service).status_code in (200, 201)
    document = {"steps": [{"task": "measure", "params": {"pth": 1}}]}
    planned = api.post("/api/pipelines/x/dry-run", {"spec": document}).json
    assert (planned["valid"], [each["code"] for each in planned["errors"]]) == (
        False,
        ["UNKNOWN_PARAMETER", "MISSING_PARAMETER"],
    )
    assert "did you mean 'path'?" in planned["errors"][0]["message"]
    assert api.put("/api/pipelines/x", document).status_code == 400
