"""The fault test's proofs see what is wrong: each test spoils one thing in a history where all is well."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos import plan, proofs
from chaos.changes import Changed
from chaos.evidence import Evidence
from chaos.model import expect, settled
from chaos.notes import Note
from chaos.plan import PlannedRun
from chaos.records import Attempt, Event, Records, Run, TaskRun
from chaos.shapes import Shape

STEPS = [
    {"id": "a", "task": "work", "needs": []},
    {"id": "each", "task": "work", "needs": ["a"], "map": {"over": "${input.lists.each}"}},
    {"id": "l1", "task": "limited", "needs": ["a"]},
    {"id": "l2", "task": "limited", "needs": ["a"]},
    {"id": "l3", "task": "limited", "needs": ["a"]},
    {"id": "bad", "task": "hopeless", "needs": ["a"]},
    {"id": "after", "task": "work", "needs": ["bad"]},
    {"id": "join", "task": "work", "needs": ["each", "l1", "l2", "l3"]},
]
WISHES = {"a": {"failures": 1}, "join": {"look": ["each", "l1"]}}
SHAPE = Shape({"id": "p", "steps": STEPS}, {"steps": WISHES, "lists": {"each": [0, 1]}}, "continue")


class History:
    """Writes what a run without faults leaves behind, one call after the other."""

    def __init__(self, token: str) -> None:
        self.run = f"run-{token}"
        self.clock = itertools.count(1)
        self.task_runs: dict[str, TaskRun] = {}
        self.attempts: dict[str, dict[int, Attempt]] = {}
        self.events: list[Event] = []
        self.notes: list[Note] = []
        self.dead_letters: dict[str, int] = {}

    def call(self, step: str, task: str, *, fails: int, ends: bool = True, index: int | None = None) -> None:
        """So many attempts that fail, and one that completes unless it does not `ends` well."""
        id = f"{self.run}.{step}" + ("" if index is None else f".{index}")
        last = fails + ends
        for attempt in range(1, last + 1):
            is_good = ends and attempt == last
            self.event("task_run.started", id, attempt)
            self.note("begin", id, task, attempt)
            self.note("returned" if is_good else "raised", id, task, attempt)
            if is_good:
                self.event("task_run.completed", id, attempt)
                continue
            self.event("task_run.retrying" if ends or attempt < last else "task_run.failed", id, attempt)
            ended = Attempt(id, attempt, "failed", "ValueError", "w", float(next(self.clock)))
            self.attempts.setdefault(id, {})[attempt] = ended
        kind, status = "task" if index is None else "item", "completed" if ends else "failed"
        output, code = (f"{id}/{last}", None) if ends else (None, "ValueError")
        self.row(id, step, task, kind, status, index=index, attempt=last, code=code, output=output)
        if not ends:
            self.dead_letters[id] = 1

    def row(
        self,
        id: str,
        step: str,
        task: str,
        kind: str,
        status: str,
        *,
        index: int | None = None,
        attempt: int = 1,
        code: str | None = None,
        output: Any = None,
    ) -> None:
        finished = float(next(self.clock))
        self.task_runs[id] = TaskRun(
            id, self.run, step, task, kind, index, status, attempt, code, output, finished
        )

    def event(self, type: str, id: str, attempt: int = 1) -> None:
        now = next(self.clock)
        self.events.append(Event(self.run, float(now), now, type, id, attempt))

    def note(self, what: str, id: str, task: str, attempt: int) -> None:
        now = float(next(self.clock))
        token = f"{id}/{attempt}" if what == "returned" else None
        saw = self.outputs() if token and id.endswith("join") else {}
        self.notes.append(Note(what, self.run, id, task, attempt, 7, now, now, token, saw))

    def outputs(self) -> dict[str, Any]:
        items = [self.task_runs[f"{self.run}.each.{index}"].output for index in (0, 1)]
        return {"each": items, "l1": self.task_runs[f"{self.run}.l1"].output}


@pytest.fixture
def seen() -> Evidence:
    """A run of SHAPE, with all that is known of it."""
    history = History("t")
    history.call("a", "work", fails=1)
    for index in (0, 1):
        history.call("each", "work", fails=0, index=index)
    history.event("task_run.completed", f"{history.run}.each")
    history.row(f"{history.run}.each", "each", "work", "map", "completed")
    for step in ("l1", "l2", "l3"):
        history.call(step, "limited", fails=0)
    history.call("bad", "hopeless", fails=3, ends=False)
    history.row(f"{history.run}.after", "after", "work", "task", "skipped", code="PREDECESSOR_FAILED")
    history.call("join", "work", fails=0)
    run = Run(history.run, "t", "p", "continue", "failed")
    records = Records(
        {run.id: run}, history.task_runs, history.attempts, history.events, history.dead_letters
    )
    planned = [PlannedRun(0.0, "t", SHAPE)]
    return Evidence(planned, {"t": {run.id}}, records, history.notes, within_s=500, changes=[])


def contradicted(seen: Evidence) -> set[str]:
    return {proof for proof, found in proofs.contradictions(seen).items() if found}


def test_nothing_contradicts_a_history_where_all_is_well(seen: Evidence) -> None:
    assert proofs.contradictions(seen) == {proofs.name_of(each): [] for each in proofs.ALL}


# --- spoiling it ------------------------------------------------------------------------------------------

Spoil = Callable[[Evidence], object]


def row(step: str, **changes: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        rows = seen.records.task_runs
        rows[f"run-t.{step}"] = replace(rows[f"run-t.{step}"], **changes)

    return spoil


def note(what: str, step: str, attempt: int = 1, **changes: Any) -> Spoil:
    """Change a note."""

    def spoil(seen: Evidence) -> None:
        assert isinstance(seen.notes, list)
        [place] = [
            place
            for place, each in enumerate(seen.notes)
            if (each.what, each.task_run_id, each.attempt) == (what, f"run-t.{step}", attempt)
        ]
        seen.notes[place] = replace(seen.notes[place], **changes)

    return spoil


def doubled_note(seen: Evidence) -> None:
    assert isinstance(seen.notes, list)
    seen.notes.append(seen.notes[-2])


def doubled_event(seen: Evidence) -> None:
    [completed] = [
        each for each in seen.records.events if each.type.endswith("completed") and "join" in str(each)
    ]
    seen.records.events.append(replace(completed, seq=10_000))


def early_event(seen: Evidence) -> None:
    events = seen.records.events
    [place] = [
        place
        for place, each in enumerate(events)
        if each.task_run_id == "run-t.join" and "start" in each.type
    ]
    events[place] = replace(events[place], seq=1, at=0.5)


def pinned_call_in_two_codes(seen: Evidence) -> None:
    pinned = replace(SHAPE, document={**SHAPE.document, "code": "pinned"})
    seen.planned_runs[0] = replace(seen.planned_runs[0], shape=pinned)  # type: ignore[index]
    for step, part in (("a", "before"), ("join", "after")):
        note("begin", step, task_id="changed", part=part, parts="common,before,after")(seen)


def paused(seen: Evidence) -> None:
    """The run is paused at its beginning, and never resumed."""
    seen.records.events.insert(0, Event("run-t", 0.5, 0, "run.paused", None, None))


def changed(kind: str, **more: Any) -> Spoil:
    def spoil(seen: Evidence) -> None:
        assert isinstance(seen.changes, list)
        seen.changes.append(Changed(kind, "run-t", **{"status": 200, **more}))
        seen.accepted["again"] = {"run-t"}  # type: ignore[index]

    return spoil


ACCEPTED = "every accepted run is stored once"
UNDER_WAY = "every run and task run is final"
ENDED = "every run ended as its failure mode demands"
ONCE = "completed task runs completed once"
AGAIN = "no attempt began without a reason"
ADD_UP = "attempt numbers match recorded attempts"
ORDER = "steps began after their predecessors"
SAW = "steps received the recorded outputs"
LETTERS = "every exhausted task run has one dead letter"
LIMITS = "limits were kept"
UNCALLED = "no attempt was used up without a call"
LOADED = "each task was called by workers that have it"
STILL = "every run went on soon"
STOPPED = "nothing was started in a paused or ended run"
CANCELLED = "every cancel ended its run"
REUSED = "reruns reused what could not change"
EVENTS = "events rebuild the stored rows"

SPOILT: dict[str, tuple[set[str], Spoil]] = {
    "a run is made twice": (
        {ACCEPTED},
        lambda seen: seen.records.runs.update(
            {"run-u": replace(seen.records.runs["run-t"], id="run-u", token="u")}
        ),
    ),
    "the API answers with two runs": ({ACCEPTED}, lambda seen: seen.accepted["t"].add("run-u")),
    "a run ends otherwise": (
        {ENDED},
        lambda seen: seen.records.runs.update(
            {"run-t": replace(seen.records.runs["run-t"], status="partial")}
        ),
    ),
    "a run does not end": (
        {ENDED, UNDER_WAY},
        lambda seen: seen.records.runs.update(
            {"run-t": replace(seen.records.runs["run-t"], status="running")}
        ),
    ),
    "a skipped step completes": ({ENDED, ONCE}, row("after", status="completed")),
    "a step is missing": ({ENDED, AGAIN}, lambda seen: seen.records.task_runs.pop("run-t.l3")),
    "an item is missing": ({ENDED, AGAIN, SAW}, lambda seen: seen.records.task_runs.pop("run-t.each.1")),
    "an item is there twice": ({ENDED}, row("each.1", map_index=0)),
    "a step completes twice": ({ONCE}, doubled_event),
    "the output is another attempt's": ({ONCE, SAW}, row("l1", output="run-t.l1/2")),
    "an attempt is called twice": ({AGAIN}, doubled_note),
    "an attempt is called that nobody recorded": (
        {AGAIN, ADD_UP},
        lambda seen: seen.records.attempts["run-t.a"].pop(1),
    ),
    "an attempt is called after one that completed": (
        {AGAIN},
        lambda seen: seen.notes.append(replace(seen.notes[-2], attempt=2)),  # type: ignore[attr-defined]
    ),
    "an attempt is called while the one before it goes on": ({AGAIN}, note("begin", "a", 2, wall=0.0)),
    "a failure is made up": (
        {ADD_UP},
        lambda seen: seen.notes.remove(next(each for each in seen.notes if each.what == "raised")),  # type: ignore[attr-defined]
    ),
    "an attempt fails that was never called": (
        {ADD_UP, UNCALLED},
        lambda seen: seen.records.attempts.update(  # type: ignore[attr-defined]
            {"run-t.join": {0: Attempt("run-t.join", 0, "timeout", "HEARTBEAT_LOST", "w", 1.0)}}
        ),
    ),
    "an attempt is counted that never began": (
        {ADD_UP, UNCALLED},
        lambda seen: seen.records.attempts.update(  # type: ignore[attr-defined]
            {"run-t.join": {0: Attempt("run-t.join", 0, "failed", "UNAVAILABLE", "w", 1.0)}}
        ),
    ),
    "an interrupted attempt is counted": (
        {UNCALLED},
        lambda seen: seen.records.attempts["run-t.a"].update(
            {1: replace(seen.records.attempts["run-t.a"][1], status="interrupted")}
        ),
    ),
    "a worker calls code that it should not have": ({LOADED}, note("begin", "join", part="after")),
    "a pinned run calls a task in two codes": ({LOADED}, pinned_call_in_two_codes),
    "a run stands still": ({STILL}, note("begin", "join", wall=5_000.0)),
    "a step is called too early": ({ORDER}, note("begin", "join", at=0.0)),
    "a step starts too early, by its events": ({ORDER}, early_event),
    "a step is called that was to be skipped": (
        {ORDER},
        lambda seen: seen.notes.append(replace(seen.notes[-2], task_run_id="run-t.after")),  # type: ignore[attr-defined]
    ),
    "a step sees something else": ({SAW}, note("returned", "join", saw={"l1": "something else"})),
    "a dead letter is missing": ({LETTERS}, lambda seen: seen.records.dead_letters.clear()),  # type: ignore[attr-defined]
    "a dead letter is doubled": ({LETTERS}, lambda seen: seen.records.dead_letters.update({"run-t.bad": 2})),  # type: ignore[attr-defined]
    "a dead letter is another's": ({LETTERS}, lambda seen: seen.records.dead_letters.update({"run-t.a": 1})),  # type: ignore[attr-defined]
    "a paused run goes on": ({STOPPED}, paused),
    "a cancelled run fails": ({CANCELLED}, changed("cancel")),
    "a run is cancelled by nobody": (
        {ENDED, CANCELLED},
        lambda seen: seen.records.runs.update(
            {"run-t": replace(seen.records.runs["run-t"], status="cancelled")}
        ),
    ),
    "a rerun reuses too little": ({REUSED}, changed("rerun", token="again", step="join")),
    "a rerun is refused": ({REUSED}, changed("rerun", token="no", step="join", status=409, refused="x")),
    "a result is taken over from another step": ({ONCE}, row("l1", cached_from="run-t.l2")),
    "events say otherwise": ({EVENTS}, lambda seen: seen.records.differences.append("status")),
}


@pytest.mark.parametrize("what", SPOILT)
def test_each_spoilt_history_is_contradicted_by_exactly_its_proofs(seen: Evidence, what: str) -> None:
    expected, spoil = SPOILT[what]
    spoil(seen)
    assert contradicted(seen) == expected


def overlapping(seen: Evidence) -> None:
    """Three calls of `limited` at once."""
    assert isinstance(seen.notes, list)
    seen.notes[:] = [
        replace(each, wall=100.0 if each.what == "begin" else 200.0) if each.task_id == "limited" else each
        for each in seen.notes
    ]
    for step in ("l1", "l2", "l3"):
        row(step, finished=200.0)(seen)


def test_calls_beyond_a_limit_are_seen(seen: Evidence) -> None:
    overlapping(seen)
    assert contradicted(seen) == {LIMITS}


def test_a_call_that_was_given_up_counts_until_then(seen: Evidence) -> None:
    overlapping(seen)
    lost = Attempt("run-t.l1", 1, "lost", "WORKER_LOST", "w", 100.0)
    seen.records.attempts["run-t.l1"] = {1: lost}
    assert LIMITS not in contradicted(seen)


# --- what is expected, and when what happens --------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "run", "after"),
    [
        ("fail-fast", "failed", "skipped"),
        ("continue", "failed", "skipped"),
        ("partial-merge", "partial", "skipped"),
    ],
)
def test_the_model_knows_the_failure_modes(mode: str, run: str, after: str) -> None:
    expected = expect(replace(SHAPE, mode=mode))
    assert (expected.run, expected.steps["bad"], expected.steps["after"]) == (run, "failed", after)
    assert expected.items == {"each": ["completed", "completed"]}


def test_the_model_knows_what_a_rerun_takes_over() -> None:
    behaviour = {**WISHES, "a": {"choose": ["l1", "l2"]}}
    shape = replace(SHAPE, input={**SHAPE.input, "steps": behaviour})
    assert settled(shape, {"bad"}, "l1") == ({"a", "l2"}, {"each", "l3", "bad", "after"})
    assert settled(SHAPE, {"each", "bad"}, "join") == ({"a", "l1", "l2", "l3"}, set())


def test_a_plan_is_decided_by_its_seed() -> None:
    assert plan.make(3, 60) == plan.make(3, 60)
    assert plan.make(3, 60) != plan.make(4, 60)


def test_a_longer_plan_goes_on_where_the_shorter_one_ends() -> None:
    short, long = plan.make(3, 60), plan.make(3, 300)
    assert long.faults[: len(short.faults)] == short.faults
    assert long.runs[: len(short.runs)] == short.runs
    assert long.changes[: len(short.changes)] == short.changes


@pytest.mark.parametrize("broker", plan.BROKERS)
@pytest.mark.parametrize("database", plan.DATABASES)
@pytest.mark.parametrize("seed", range(5))
def test_a_plan_of_five_minutes_has_every_kind_of_fault_that_the_servers_can_have(
    seed: int, database: str, broker: str
) -> None:
    made = plan.make(seed, 300, database=database, broker=broker)
    possible = plan.KINDS.keys() - plan.impossible(broker, database)
    assert {each.kind for each in made.faults} == possible


def test_servers_stand_so_that_the_faults_which_were_asked_for_can_be() -> None:
    for seed in range(5):
        made = plan.make(seed, 30, kinds=["postgres-promoted", "broker-failover"])
        assert (made.database, made.broker) == ("pair", "sentinels")
