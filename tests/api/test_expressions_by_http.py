"""Documents and expressions are tried out over HTTP: every mistake at once, and nothing is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conftest import Api

ORDER = {
    "id": "order",
    "inputSchema": {"strict": True, "fields": [{"name": "total", "label": "Total", "type": "number"}]},
    "steps": [
        {"task": "count"},
        {
            "id": "size",
            "choice": [
                {"condition": "${input.total} > 1000", "steps": [{"task": "report"}]},
                {"steps": []},
            ],
        },
        {"id": "result", "transform": {"lines": "${steps.report ?? 0}"}},
    ],
}


def evaluated(api: Api, expression: str, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/expressions/evaluate", {"expression": expression, **more})
    assert answer.status_code == 200, answer.json
    return dict(answer.json)


def test_a_right_document_is_answered_as_it_would_be_stored(api: Api) -> None:
    checked = api.post("/api/pipelines/validate", ORDER).json
    assert (checked["valid"], checked["errors"]) == (True, [])
    assert [each["id"] for each in checked["spec"]["steps"]] == ["count", "size", "report", "result"]
    again = api.post("/api/pipelines/validate", checked["spec"]).json
    assert again["specHash"] == checked["specHash"]
    assert api.get("/api/pipelines/order").status_code == 404


def test_every_mistake_is_told_with_its_field_and_the_nearest_name(api: Api) -> None:
    steps = [
        {"task": "cuont"},
        {"task": "report", "condition": "input.totl > 5"},
        {"task": "count", "condition": "steps.report.rows >", "jion": "any"},
    ]
    checked = api.post("/api/pipelines/validate", {**ORDER, "steps": steps}).json
    assert not checked["valid"]
    assert checked["spec"] is None
    errors = {each["field"]: each for each in checked["errors"]}
    assert set(errors) == {"steps[1].condition", "steps[2].condition", "steps[2].jion"}
    assert errors["steps[1].condition"]["expected"] == "total"
    assert "column 20" in errors["steps[2].condition"]["message"]
    unknown = api.post("/api/pipelines/validate", {"steps": steps[:1]}).json["errors"]
    assert [(each["field"], each["code"]) for each in unknown] == [("steps[0].task", "unknown_task")]
    assert "'count'" in unknown[0]["message"]


def test_an_adapter_that_nobody_has_is_told_from_an_action_that_it_lacks(api: Api) -> None:
    step = {"adapter": "paymnets", "action": "charge"}
    (error,) = api.post("/api/pipelines/validate", {"steps": [step]}).json["errors"]
    assert error["code"] == "adapter_not_found"
    refused = api.put("/api/pipelines/adapters", {"steps": [step]}).json
    assert refused["graphErrors"][0]["code"] == "ADAPTER_NOT_FOUND"
    assert refused["errors"][0]["field"] == "steps[0].task"
    planned = api.post("/api/pipelines/adapters/dry-run", {"spec": {"steps": [step]}}).json
    assert [each["code"] for each in planned["errors"]] == ["ADAPTER_NOT_FOUND"]


def test_an_adapter_that_pipeweave_brings_says_what_runs_it(api: Api) -> None:
    step = {"adapter": "http", "action": "request", "params": {"url": "https://example.com"}}
    (error,) = api.post("/api/pipelines/validate", {"steps": [step]}).json["errors"]
    assert error["code"] == "adapter_not_found"
    assert "pipeweave worker --app pipeweave.adapters" in error["message"]


def test_a_join_that_sees_no_failure_is_warned_of(api: Api) -> None:
    steps = [{"task": "count"}, {"task": "report", "join": "all-done"}]
    (warning,) = api.post("/api/pipelines/validate", {"steps": steps}).json["warnings"]
    assert (warning["code"], warning["steps"]) == ("JOIN_SEES_NO_FAILURE", ["report"])
    assert (
        api.post("/api/pipelines/validate", {"steps": steps, "failureMode": "continue"}).json["warnings"]
        == []
    )


def test_an_expression_is_evaluated_with_a_context(api: Api) -> None:
    context = {"input": {"total": 90}}
    value = evaluated(api, "input.total * 2 > 100 && has(input.total)", context=context)
    assert (value["value"], value["type"], value["error"]) == (True, "boolean", None)
    assert value["references"] == ["input.total", "input.total"]
    assert evaluated(api, "${input.total}", context=context)["value"] == 90
    failed = evaluated(api, "input.totl", context=context)
    assert failed["error"]["code"] == "INVALID_REFERENCE"
    assert "total" in failed["error"]["hint"] + failed["error"]["message"]


def test_the_values_of_the_paths_are_told_where_there_are_some(api: Api) -> None:
    context = {"input": {"total": 90, "note": "x" * 2_000}}
    answer = evaluated(api, "input.total > 100 && input.gone == input.note", context=context)
    assert answer["values"] == {"input.total": 90}


def test_a_text_that_is_no_expression_is_refused_with_its_column(api: Api) -> None:
    answer = api.post("/api/expressions/evaluate", {"expression": "input.total >"})
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == "expression"
    assert "column" in answer.json["errors"][0]["message"]


def test_an_expression_is_evaluated_with_the_values_of_a_run(api: Api) -> None:
    steps = [{"task": "count"}, {"task": "report"}]
    api.put("/api/pipelines/tried", {"steps": steps, "variables": {"limit": 5}})
    run = api.post("/api/pipelines/tried/trigger", {"input": {"path": "x"}}).json["pipelineRunId"]
    assert evaluated(api, "input.path", runId=run)["value"] == "x"
    assert evaluated(api, "status.report == 'pending' && variables.limit > 4", runId=run)["value"] is True
    assert evaluated(api, "steps.count", runId=run, stepId="report")["value"] is None
    assert (
        api.post("/api/expressions/evaluate", {"expression": "1", "runId": run, "stepId": "x"}).status_code
        == 404
    )
    both = {"expression": "1", "runId": run, "context": {}}
    assert api.post("/api/expressions/evaluate", both).status_code == 400
