"""What the fault test asks of runs that wait, and the other system of calls that suspend themselves."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from chaos.stack import Answer
from chaos.waits import documents, elsewhere, scripts
from chaos.waits.conversation import repeated
from chaos.waits.elsewhere import Elsewhere
from pipeweave.spec.document import parse_spec

ALL_KINDS = pytest.mark.parametrize("kind", scripts.KINDS, ids=lambda kind: kind.__name__)


@pytest.mark.parametrize("document", documents.ALL, ids=lambda each: each["id"])
def test_every_pipeline_is_right_and_names_only_earlier_ones(document: dict[str, Any]) -> None:
    parse_spec(document)
    before = [each["id"] for each in documents.ALL[: documents.ALL.index(document)]]
    for step in document["steps"]:
        named = step.get("pipeline") or step.get("loop", {}).get("pipeline")
        assert named is None or named in before


@ALL_KINDS
def test_every_demand_is_about_the_steps_of_its_pipeline(kind: scripts.Kind) -> None:
    for seed in range(20):
        script = kind("token", random.Random(seed))
        steps = {each["id"] for each in script.document["steps"]}
        assert script.demand.steps.keys() == steps
        assert script.demand.due.keys() <= steps
        assert script.document in documents.ALL


@pytest.mark.parametrize("step", [*documents.NAPS, *documents.DELAYS, *documents.WIDTHS])
def test_what_is_known_of_a_step_is_about_one_that_there_is(step: tuple[str, str]) -> None:
    assert step in {(each["id"], one["id"]) for each in documents.ALL for one in each["steps"]}


@pytest.mark.parametrize(
    ("answers", "status", "tries"), [([200], 200, 1), ([0, 503, 429, 409], 409, 4), ([500, 403], 403, 2)]
)
def test_a_request_is_repeated_until_it_is_answered(answers: list[int], status: int, tries: int) -> None:
    left = iter(answers)
    answer, count = repeated(lambda: Answer(next(left), None), threading.Event())
    assert (answer.status, count) == (status, tries)


def test_a_request_without_an_answer_is_given_up_when_the_trial_ends() -> None:
    end = threading.Event()
    end.set()
    assert repeated(lambda: Answer(503, None), end) == (Answer(0, None), 1)


@pytest.fixture
def other() -> Iterator[Elsewhere]:
    other = Elsewhere()
    yield other
    other.close()


def test_a_poll_is_answered_in_each_way_and_then_for_good(other: Elsewhere) -> None:
    url = elsewhere.url_of_poll(other.url, "token", ["503", "cut", "junk", "running"], "completed")
    seen = [poll(url) for _ in range(6)]
    assert seen[:4] == [(503, b"busy"), None, (200, b"<html>no JSON</html>"), said("running")]
    assert seen[4:] == [said("completed")] * 2
    assert other.finals.keys() == {"token"}


def said(status: str) -> tuple[int, bytes]:
    return 200, b'{"status": "%s", "token": "token"}' % status.encode()


def poll(url: str) -> tuple[int, bytes] | None:
    try:
        answer = urllib3.request("GET", url, retries=False)
    except urllib3.exceptions.HTTPError:
        return None
    return answer.status, answer.data


def test_a_call_that_is_handed_on_twice_counts_once(other: Elsewhere) -> None:
    call = {"run_id": "r", "task_run_id": "t", "attempt": 1, "token": "x", "delay": 0.0, "fails": False}
    for _ in range(2):
        sent = {**call, "path": "http://api/api/callbacks/secret"}
        assert urllib3.request("POST", elsewhere.url_of_call(other.url), json=sent).status == 200
    assert [each.path for each in other.handed] == ["/api/callbacks/secret"]
