"""The OpenAPI document: valid, and equal to what is served."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from flask import Flask
from openapi_spec_validator import validate

from pipeweave.api.contract.waits import SignalPayload
from pipeweave.api.contract.worker_reports import ReportModel
from pipeweave.api.http import openapi
from pipeweave.api.routes import ENDPOINTS
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.security import ADMIN

if TYPE_CHECKING:
    from conftest import Tokens

# For people, not for programs.
PAGES = {("GET", path) for path in ("/", "/docs", "/static/{filename}", "/help", "/help/", "/help/{name}")}

# For an endpoint that is open and says more to some tokens.
OPTIONAL_TOKEN = [{}, {"token": []}]


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    found: dict[str, Any] = app.test_client().get("/api/openapi.json").json
    return found


def test_the_document_is_valid(document: dict[str, Any]) -> None:
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_every_route_is_in_the_document_and_nothing_else(app: Flask, document: dict[str, Any]) -> None:
    served = {
        (method, re.sub(r"<(?:[^<>:]+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    pages = {each for each in served if each[1].startswith("/ui/")} | PAGES
    assert served - pages == described
    assert served >= pages


def test_every_schema_is_used_and_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = str(document)
    referenced = set(re.findall(r"'#/components/schemas/(\w+)'", text))
    assert referenced == document["components"]["schemas"].keys()


def test_every_operation_says_what_it_does_and_needs(document: dict[str, Any]) -> None:
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        assert operation["summary"]
        assert len(operation["description"]) > 30, endpoint.path
        assert ("Needs no token" in operation["description"]) == (
            operation["security"] in ([], OPTIONAL_TOKEN)
        )
        names = {each.get("name") for each in operation["parameters"]}
        assert set(re.findall(r"{(\w+)}", endpoint.path)) <= names
        if endpoint.body is not None:
            assert {"413", "415"} <= operation["responses"].keys()


def test_operations_say_which_tokens_are_refused_for_their_tenants(
    app: Flask, tokens: Tokens, document: dict[str, Any]
) -> None:
    """An administrator of one tenant asks for everything that needs no id but a name."""
    headers = {"Authorization": f"Bearer {tokens.make(ADMIN, tenants=('nobody',))}"}
    refused = set()
    for endpoint in ENDPOINTS:
        if ADMIN in endpoint.scopes and all(each.prefix is None for each in endpoint.ids.values()):
            path = re.sub(r"\{\w+\}", "nobody", endpoint.path)
            answer = app.test_client().open(path, method=endpoint.method, headers=headers)
            if answer.status_code == 403 and "every tenant" in answer.json["detail"]:
                refused.add((endpoint.method, endpoint.path))
    told = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if "in a token that is valid for every tenant" in operation["description"]
    }
    assert refused == told and len(told) == 18


def test_request_schemas_refuse_unknown_fields(document: dict[str, Any]) -> None:
    for endpoint in ENDPOINTS:
        # Workers of other versions may report more, and a signal has no fields.
        if endpoint.body is not None and not issubclass(endpoint.body, (ReportModel, SignalPayload)):
            assert document["components"]["schemas"][endpoint.body.__name__]["additionalProperties"] is False


def test_examples_fit_their_models() -> None:
    with_example = [endpoint for endpoint in ENDPOINTS if endpoint.example is not None]
    assert with_example
    for endpoint in with_example:
        assert endpoint.body is not None
        endpoint.body.model_validate(endpoint.example)


def test_bounds_are_part_of_the_document(document: dict[str, Any]) -> None:
    trigger = document["components"]["schemas"]["TriggerRequest"]["properties"]
    assert trigger["priority"]["anyOf"][0]["maximum"] == 1_000_000
    limit = next(
        each for each in document["paths"]["/api/runs"]["get"]["parameters"] if each.get("name") == "limit"
    )
    assert (limit["schema"]["minimum"], limit["schema"]["maximum"]) == (1, 1000)
    assert limit["schema"]["default"] == 50


def test_every_refusal_of_an_endpoint_has_a_description(document: dict[str, Any]) -> None:
    for endpoint in ENDPOINTS:
        errors: tuple[type[PipeWeaveError], ...] = endpoint.errors
        responses = document["paths"][endpoint.path][endpoint.method.lower()]["responses"]
        assert {str(error.status) for error in errors} <= responses.keys()


def test_every_tag_is_described() -> None:
    assert {endpoint.tag for endpoint in ENDPOINTS} <= set(openapi.TAGS)
