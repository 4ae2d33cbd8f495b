"""The fault test's proofs about runs that wait see what is wrong: each test spoils one thing in a history
where all is well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos import proofs
from chaos.evidence import Evidence
from chaos.faults import Injected
from chaos.notes import Note
from chaos.records import Attempt, BegunWait, Event, Records, Run, SentSignal, TaskRun
from chaos.waits import documents, wakes
from chaos.waits import proofs as wait_proofs
from chaos.waits.reporter import WRONG
from chaos.waits.values import ANY, Asked, Demand, Meant, Waited, fits

Spoil = Callable[[Evidence], object]
# What the proofs here are about.
PROOFS = (
    wait_proofs.every_run_that_waits_ended_as_its_document_demands,
    wait_proofs.every_wait_ended_once_by_what_was_sent_first,
    wait_proofs.no_accepted_signal_was_lost_or_taken_twice,
    wait_proofs.nobody_without_the_right_ended_a_wait,
    wait_proofs.no_wait_is_left_and_none_is_missing,
    wait_proofs.no_child_outlived_its_parent,
    wakes.no_more_children_were_open_than_their_step_says,
    wakes.every_wait_ended_soon,
)
DEMANDED = "every_run_that_waits_ended_as_its_document_demands"
ONCE = "every_wait_ended_once_by_what_was_sent_first"
KEPT = "no_accepted_signal_was_lost_or_taken_twice"
RIGHT = "nobody_without_the_right_ended_a_wait"
NONE_LEFT = "no_wait_is_left_and_none_is_missing"
CHILDREN = "no_child_outlived_its_parent"
WIDTH = "no_more_children_were_open_than_their_step_says"
SOON = "every_wait_ended_soon"

TOKEN, MAPPED, ITEM = "waits-1-0", documents.MAPPED["id"], documents.ITEM["id"]
ROOT, CHILDREN_IDS = "root", ("child-0", "child-1", "child-2")
# The steps of the root that wait: when they begin, and when they end.
STEPS = {
    "nap": ("timer", 100.0, 102.0),
    "call": ("signal", 100.0, 105.0),
    "ask": ("approval", 100.0, 106.0),
    "report": ("callback", 101.0, 103.0),
    "poll": ("poll", 101.0, 104.0),
}


def a_row(id: str, kind: str = "wait", **more: Any) -> TaskRun:
    values = {"task_id": f"pipeweave:{kind}", "status": "completed", "attempt": 1, "finished": 110.0}
    values |= {"code": None, "output": None, "map_index": None, "run_id": ROOT, "step_id": id, **more}
    return TaskRun(id=id, kind=kind, **values)


def a_request(deed: str, about: str, by: str, content: Any, begun: float, **more: Any) -> Asked:
    values = {"may": True, "status": 200, "answered": begun + 0.1, "tries": 1, "run_id": ROOT, **more}
    return Asked(deed=deed, about=about, by=by, content=content, begun=begun, **values)


class Tree:
    """Writes what a run leaves behind that waits for all there is, and for a map of three children, of which
    two are open at once.
    """

    def __init__(self) -> None:
        self.seq = 0
        self.events: list[Event] = []
        self.begun: list[BegunWait] = []
        self.rows: dict[str, TaskRun] = {}
        self.runs = {ROOT: Run(ROOT, TOKEN, MAPPED, "fail-fast", "completed", 99.0, 110.0)}

    def event(self, run_id: str, at: float, type: str, task_run_id: str | None = None) -> int:
        self.seq += 1
        self.events.append(Event(run_id, at, self.seq, type, task_run_id, 1))
        return self.seq

    def wait(self, id: str, kind: str, at: float, names: tuple[str, ...] = ()) -> None:
        seq = self.event(ROOT, at, "task_run.waiting", id)
        self.begun.append(BegunWait(ROOT, id, 1, at, seq, kind, names))

    def end(self, id: str, at: float, **more: Any) -> None:
        self.event(ROOT, at, "task_run.completed", id)
        self.rows[id] = a_row(id, **{"finished": at, **more})

    def child(self, number: int, begun: float) -> None:
        id, item = CHILDREN_IDS[number], f"each.{number}"
        self.wait(item, "child", begun - 0.1)
        self.runs[id] = Run(id, None, ITEM, "fail-fast", "running", begun, None, ROOT, item)
        self.event(id, begun, "run.created")

    def end_child(self, number: int, at: float) -> None:
        id, item = CHILDREN_IDS[number], f"each.{number}"
        self.runs[id] = replace(self.runs[id], status="completed", finished=at)
        self.event(id, at, "run.completed")
        self.end(item, at + 0.1, kind="item", step_id="each", map_index=number)


@pytest.fixture
def seen() -> Evidence:
    """A tree where all is well."""
    tree = Tree()
    tree.event(ROOT, 99.0, "run.created")
    names = {"call": ("go", "stop"), "ask": ("approval:ask",), "report": ("callback:report:1",)}
    for id, (kind, begun, _) in STEPS.items():
        tree.wait(id, kind, begun, names.get(id, ()))
    tree.child(0, 101.0)
    tree.child(1, 101.5)
    tree.end("nap", 102.0, step_id="nap")
    tree.end("call", 105.0, output={"name": "go", "payload": {"key": "k1"}, "by": "write", "at": ""})
    tree.end("ask", 106.0)
    for id, at in (("report", 103.0), ("poll", 104.0)):
        tree.end(id, at, kind="task", task_id="asked", output=f"{id}/1")
    tree.end_child(0, 104.0)
    tree.child(2, 104.5)
    tree.end_child(1, 105.0)
    tree.end_child(2, 107.0)
    tree.end("each", 108.0, kind="map")
    tree.end("end", 109.0, kind="transform", output={"items": [1, "a"]})
    tree.event(ROOT, 110.0, "run.completed")
    signals = [
        SentSignal("s1", ROOT, "go", "k1", {"key": "k1"}, "write", 104.9, "call", 105.0),
        SentSignal("s2", ROOT, "stop", "k2", {"key": "k2"}, "write", 106.0),
        SentSignal("v1", ROOT, "approval:ask", "ann", vote(), "ann", 105.9, "ask", 106.0),
        SentSignal("r1", ROOT, "callback:report:1", "callback", said("x"), None, 102.9, "report", 103.0),
    ]
    records = Records(tree.runs, tree.rows, {}, tree.events, {}, begun_waits=tree.begun, signals=signals)
    records = replace(records, task_runs=tree.rows)
    notes = [Note("returned", ROOT, "poll", "polled", 1, 1, 101.0, 101.0, "token")]
    return Evidence([], {}, records, notes, waited=outside(tree))


def vote(choice: str = "approve", form: Any = None) -> dict[str, Any]:
    return {"choice": choice, "form": form, "comment": None}


def said(result: Any) -> dict[str, Any]:
    return {"status": "completed", "result": result}


def outside(tree: Tree) -> Waited:
    steps = {each.step_id: "completed" for each in tree.rows.values()}
    demand = Demand(
        *("completed", steps, {"items": [1, ANY]}, {ITEM: ["completed"] * 3}),
        spare=frozenset({"k2"}),
        due={"nap": 102.0},
    )
    asked = [
        a_request("signal", "go", "write", {"key": "k1"}, 104.8, key="k1", body={"signalId": "s1"}),
        a_request("signal", "stop", "write", {"key": "k2"}, 105.9, key="k2", body={"signalId": "s2"}),
        a_request("approve", "ask", "eve", {}, 105.0, may=False, status=403),
        a_request("approve", "ask", "ann", {}, 105.8),
    ]
    voters = {MAPPED: frozenset({"ann"})}
    return Waited([Meant(TOKEN, MAPPED, demand)], {TOKEN: {ROOT}}, asked, {"token": 103.9}, voters)


def contradicted(seen: Evidence) -> set[str]:
    return {proof.__name__ for proof in PROOFS if list(proof(seen))}


def test_nothing_contradicts_where_all_is_well(seen: Evidence) -> None:
    assert {proof.__name__: list(proof(seen)) for proof in PROOFS} == {each.__name__: [] for each in PROOFS}


def test_the_other_proofs_pass_over_what_nobody_is_called_for(seen: Evidence) -> None:
    others = [each for each in proofs.ALL if each not in PROOFS]
    calls = {"report", "poll"}  # their calls are not in this history
    lines = {
        proof.__name__: [each for each in proof(seen) if not calls & set(each.split())] for proof in others
    }
    assert {name: each for name, each in lines.items() if each} == {}


# --- spoiling it ------------------------------------------------------------------------------------------


def row(id: str, **changes: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        seen.records.task_runs[id] = replace(seen.records.task_runs[id], **changes)

    return spoil


def run(id: str, **changes: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        seen.records.runs[id] = replace(seen.records.runs[id], **changes)

    return spoil


def signal(number: int, **changes: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        seen.records.signals[number] = replace(seen.records.signals[number], **changes)

    return spoil


def asked(number: int, **changes: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        assert isinstance(seen.waited.asked, list)
        seen.waited.asked[number] = replace(seen.waited.asked[number], **changes)

    return spoil


def both(*several: Spoil) -> Spoil:
    def spoil(seen: Evidence) -> None:
        for each in several:
            each(seen)

    return spoil


def doubled_run(seen: Evidence) -> None:
    seen.records.runs["other"] = replace(seen.records.runs[ROOT], id="other")


def lost_child(seen: Evidence) -> None:
    for kept in (seen.records.runs, seen.records.task_runs):
        kept.pop("child-2", None)


def doubled_end(seen: Evidence) -> None:
    [end] = [
        each for each in seen.records.events if (each.task_run_id, each.type[9:]) == ("nap", "completed")
    ]
    seen.records.events.append(replace(end, seq=9_999))


def doubled_begin(seen: Evidence) -> None:
    seen.records.begun_waits.append(replace(seen.records.begun_waits[0], seq=9_999))


def early_child(seen: Evidence) -> None:
    """The third child begins while two are open."""
    events = seen.records.events
    [place] = [
        place for place, each in enumerate(events) if (each.run_id, each.type) == ("child-2", "run.created")
    ]
    [before] = [each for each in events if (each.run_id, each.type) == ("child-1", "run.created")]
    events[place] = replace(events[place], seq=before.seq)


SPOILT: dict[str, tuple[set[str], Spoil]] = {
    "a run ends otherwise": ({DEMANDED}, run(ROOT, status="failed")),
    "a run is made twice": ({DEMANDED}, doubled_run),
    "a step ends otherwise": ({DEMANDED}, row("end", status="skipped")),
    "the output is another one": ({DEMANDED}, row("end", output={"items": [2, "a"]})),
    "a child is missing": ({DEMANDED}, lost_child),
    "a child ends otherwise": ({DEMANDED}, run("child-1", status="failed")),
    "a wait ends twice": ({ONCE}, doubled_end),
    "a wait begins twice": ({ONCE}, doubled_begin),
    "a wait takes what came later": (
        {ONCE},
        both(asked(1, begun=101.0, answered=101.1), signal(1, sent_at=101.0)),
    ),
    "two signals end one wait": (
        {ONCE},
        signal(1, taken_by="call", taken_at=105.0, sent_at=104.9, once="k2", payload=None),
    ),
    "an accepted signal is not stored": ({KEPT}, asked(1, body={"signalId": "s9"})),
    "a repeated signal is another one": (
        {KEPT},
        lambda seen: seen.waited.asked.append(  # type: ignore[attr-defined]
            replace(seen.waited.asked[0], body={"signalId": "s9"})
        ),
    ),
    "nobody takes a signal": ({KEPT}, signal(0, taken_by=None, taken_at=None)),
    "two steps have one signal": (
        {KEPT},
        row("nap", output={"name": "go", "payload": {"key": "k1"}, "by": None, "at": ""}),
    ),
    "a report is lost": ({KEPT}, signal(3, taken_by=None, taken_at=None)),
    "who may not decide is not refused": ({RIGHT}, asked(2, status=200)),
    "who may decide is refused": ({RIGHT}, asked(3, status=409)),
    "a vote of who may not is stored": ({RIGHT}, signal(2, sent_by="eve")),
    "another vote than that of the person is stored": ({RIGHT}, signal(2, payload=vote(form={"amount": 1}))),
    "a report by an old URL is stored": ({RIGHT}, signal(3, payload=said(WRONG))),
    "a wait is left": ({NONE_LEFT}, lambda seen: seen.records.waits.append("nap")),
    "a task run waits for nothing": ({NONE_LEFT, DEMANDED}, row("nap", status="waiting")),
    "a run that has ended is quiet": ({NONE_LEFT}, run(ROOT, is_quiet=True)),
    "a child of a final run is open": ({CHILDREN, DEMANDED}, run("child-0", status="running", finished=None)),
    "the parent of a child is not there": ({CHILDREN, DEMANDED}, run("child-0", parent="nobody")),
    "more children are open than may be": ({WIDTH}, early_child),
    "a sleep ends late": ({SOON}, row("nap", finished=113.0)),
    "a sleep ends early": ({SOON}, row("nap", finished=101.5)),
    "a signal is looked at late": ({SOON}, both(signal(0, sent_at=101.0), row("call", finished=112.0))),
    "a vote is looked at late": ({SOON}, row("ask", finished=117.0)),
    "a report is looked at late": ({SOON}, row("report", finished=114.0)),
    "the answer to a poll is looked at late": ({SOON}, row("poll", finished=115.0)),
    "a child begins late": ({SOON}, run("child-0", created=112.0)),
    "the end of a child is seen late": ({SOON}, row("each.0", finished=115.0)),
    "a child ends long after its parent": ({SOON}, run("child-2", finished=121.0)),
}


@pytest.mark.parametrize("spoilt", SPOILT)
def test_what_is_wrong_is_seen(seen: Evidence, spoilt: str) -> None:
    proofs_of_it, spoil = SPOILT[spoilt]
    spoil(seen)
    assert contradicted(seen) == proofs_of_it


def test_a_fault_excuses_a_wait_that_ends_late(seen: Evidence) -> None:
    row("nap", finished=113.0)(seen)
    offset = seen.offset
    fault = Injected("postgres-away", 0.0, 104.0 - offset, 110.0 - offset)
    assert contradicted(replace(seen, faults=[fault])) == set()


def test_a_pause_excuses_a_child_that_begins_late(seen: Evidence) -> None:
    run("child-0", created=112.0)(seen)
    seen.records.events += [
        Event(ROOT, 101.0, 900, "run.paused", None, None),
        Event(ROOT, 111.0, 901, "run.resumed", None, None),
    ]
    assert contradicted(seen) == set()


def test_a_decision_whose_answer_was_lost_is_no_refusal(seen: Evidence) -> None:
    asked(3, status=409, tries=2)(seen)
    assert contradicted(seen) == set()


def test_a_report_on_an_attempt_that_died_may_be_left(seen: Evidence) -> None:
    signal(3, taken_by=None, taken_at=None)(seen)
    died = Attempt("report", 1, "lost", "WORKER_LOST", "w", 102.95)
    seen.records.attempts["report"] = {1: died}
    assert KEPT not in contradicted(seen)


@pytest.mark.parametrize(
    ("value", "expected", "is_so"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": ANY}, True),
        ({"a": 1}, {"a": 1, "b": ANY}, False),
        ([1, 2], [1, ANY], True),
        ([1], [1, ANY], False),
        (None, {"a": 1}, False),
    ],
)
def test_an_expected_value_says_what_it_leaves_open(value: Any, expected: Any, is_so: bool) -> None:
    assert fits(value, expected) is is_so
