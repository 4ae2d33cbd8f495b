"""Answers of statistics are kept for a while, for those with the same rights and nobody else."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from pipeweave.api.http import Caller, RecordedCall
from pipeweave.api.ui import kept_answers
from pipeweave.api.ui.kept_answers import KeptAnswers
from pipeweave.errors import NotFound
from pipeweave.orchestrator.security import READ, CallerAccess


class Counting:
    """Stands for the endpoints of a deployment: answers how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def ask(self, caller: Caller, operation: str, ids: Any, query: Any) -> tuple[Any, RecordedCall]:
        self.gate.wait()
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.asked, RecordedCall("GET", f"/{operation}")


@pytest.fixture
def inside() -> Counting:
    return Counting()


@pytest.fixture
def kept(inside: Counting) -> KeptAnswers:
    return KeptAnswers(inside)  # type: ignore[arg-type]


def caller(name: str = "alice", tenant: str = "one", *scopes: str) -> Caller:
    return Caller(CallerAccess(uuid4(), name, (tenant,), scopes or (READ,)), tenant)


def asked(kept: KeptAnswers, by: Caller, query: Any = None, **ids: str) -> Any:
    return kept.ask(by, "statistics.runs", query or {}, ids)[0]


def test_the_same_question_is_asked_once(kept: KeptAnswers) -> None:
    assert [asked(kept, caller("alice")), asked(kept, caller("bob"))] == [1, 1]


def test_other_questions_and_other_rights_are_asked_for(kept: KeptAnswers, inside: Counting) -> None:
    one = caller()
    for by, query, ids in (
        (one, {}, {}),
        (one, {"bucket": "5m"}, {}),
        (one, {"pipelineId": ["a", "b"]}, {}),
        (one, {}, {"id": "a"}),
        (caller("alice", "two"), {}, {}),
        (caller("alice", "one", "admin"), {}, {}),
    ):
        asked(kept, by, query, **ids)
    assert inside.asked == 6


def test_an_answer_is_asked_for_anew_after_a_while(
    kept: KeptAnswers, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = caller()
    assert asked(kept, one) == 1
    monkeypatch.setattr(kept_answers, "KEPT_S", 0.0)
    assert asked(kept, one) == 2


def test_an_error_is_not_kept(kept: KeptAnswers, inside: Counting) -> None:
    inside.error = NotFound("no such pipeline")
    with pytest.raises(NotFound):
        asked(kept, caller())
    inside.error = None
    assert asked(kept, caller()) == 2


def test_of_many_at_once_one_asks(kept: KeptAnswers, inside: Counting) -> None:
    inside.gate.clear()
    one, found = caller(), list[Any]()
    threads = [
        threading.Thread(target=lambda name=name: found.append(asked(kept, replace(one, peer=name))))
        for name in ("1", "2", "3")
    ]
    for each in threads:
        each.start()
    inside.gate.set()
    for each in threads:
        each.join(10)
    assert found == [1, 1, 1]


def test_what_was_asked_long_ago_is_dropped(kept: KeptAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_answers, "MOST_KEPT", 2)
    one = caller()
    assert [asked(kept, one, {"n": each}) for each in ("1", "2", "3")] == [1, 2, 3]
    assert asked(kept, one, {"n": "3"}) == 3
    assert asked(kept, one, {"n": "1"}) == 4
