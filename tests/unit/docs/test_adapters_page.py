"""docs/adapters.md: its documents fit the adapters, its programs run, its numbers are those of the code."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from celery import Celery
from support.pages import ROOT, blocks, text_of

from pipeweave import adapters
from pipeweave.adapters import exchange, http, storage
from pipeweave.adapters.celery_reports import REPORT, REPORT_ERROR
from pipeweave.authoring import collect
from pipeweave.settings import load
from pipeweave.size_limits import MAX_ACTION_ANSWER_BYTES, MAX_NAMED_BYTES
from pipeweave.spec import parameter_errors, parse_spec, unknown_tasks
from pipeweave.spec.document_steps import ADAPTER_TIMEOUT_MS
from pipeweave.testing import run_pipeline, run_task

PAGE = ROOT / "docs/adapters.md"
DOCUMENTS = {each["id"]: each for each in map(yaml.safe_load, blocks(PAGE, "yaml"))}
OURS = collect(adapters)


class Bank:
    """Stands in for what an adapter reaches."""

    def charge(self, amount: float, currency: str, *, key: str) -> str:
        assert key
        return f"{amount:g} {currency}"

    def refund(self, receipt: str) -> None: ...


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names of the program that writes an adapter."""
    [program] = [each for each in blocks(PAGE, "python") if "@adapter" in each]
    names: dict[str, Any] = {"Bank": Bank, "__name__": "adapters_page"}
    exec(compile(program, str(PAGE), "exec", dont_inherit=True), names)
    return names


def test_every_document_fits_the_actions_that_it_names(page: dict[str, Any]) -> None:
    tasks = {**OURS, page["Payments"].charge.id: page["Payments"].charge}
    parameters = {id: each.to_registration()["parameters"] for id, each in tasks.items()}
    assert len(DOCUMENTS) >= 5
    for document in DOCUMENTS.values():
        spec = parse_spec(document)
        assert not unknown_tasks(spec, tasks, tasks)
        assert not parameter_errors(spec, parameters)


def test_the_adapter_on_the_page_runs(page: dict[str, Any]) -> None:
    run = run_pipeline(page["pay"], {"amount": 5})
    assert (run.status, run.output) == ("completed", {"receipt": "5 EUR"})
    assert run_task(page["Payments"].charge, params={"amount": 5}).output == {"receipt": "5 EUR"}
    assert page["Payments"]().refund("5 EUR") is None


def test_the_line_that_celery_workers_need_adds_the_reports() -> None:
    [program] = [each for each in blocks(PAGE, "python") if "install(app)" in each]
    names: dict[str, Any] = {"Celery": lambda name: Celery(name, set_as_current=False)}
    exec(program.replace("from celery import Celery\n", ""), names)
    assert {REPORT, REPORT_ERROR} <= names["app"].tasks.keys()


def test_the_sources_of_secrets_are_some() -> None:
    [sources] = [each for each in blocks(PAGE, "json") if "hosts" in each]
    assert [each["hosts"] for each in load({"SECRETS": sources}).secrets] == [
        ["rates.example"],
        ["n8n.example"],
    ]


def test_every_action_and_param_is_on_the_page() -> None:
    text = text_of("docs/adapters.md")
    actions = set(re.findall(r"`\w*\.(\w+)`", text))
    assert {id.rpartition(".")[2] for id in OURS} <= actions
    table = text[text.index("### http") : text.index("### webhook")]
    fields = OURS["http.request"].to_registration()["parameters"]["fields"]
    assert all(f"`{each['name']}`" in table for each in fields)


def test_every_class_on_the_page_is_one() -> None:
    text = text_of("docs/adapters.md")
    assert all(f"`{name}`" in text for name in adapters.__all__)


def test_the_numbers_on_the_page_are_those_of_the_code() -> None:
    text = " ".join(text_of("docs/adapters.md").split())
    assert f"ends after {ADAPTER_TIMEOUT_MS // 1000} s" in text
    assert f"At most {MAX_ACTION_ANSWER_BYTES:,} bytes are taken" in text
    assert f"{exchange.MAX_TIMEOUT_S} s at most" in text
    assert f"waits for {http.AT_ONCE} answers" in text
    assert f"up to {storage.MAX_NAME_CHARS} letters" in text
    assert f"at most {storage.MAX_LISTED:,} names" in text
    assert f"up to {MAX_NAMED_BYTES // 1_000_000} MB" in text
    retried = [each.removeprefix("HTTP_") for each in exchange.RETRIED if re.fullmatch(r"HTTP_\d+", each)]
    assert f"{', '.join(retried[:-1])} and {retried[-1]} are tried again" in text


def test_what_is_posted_to_hand_a_step_over_is_on_the_page() -> None:
    [posted] = [json.loads(each) for each in blocks(PAGE, "json") if "callbackUrl" in each]
    assert posted.keys() == {"callbackUrl", "data", "runId", "pipelineId", "stepId", "attempt"}
