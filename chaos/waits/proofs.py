"""Prove what is promised to who waits: for signals, people, other systems and runs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from chaos.evidence import Evidence
from chaos.records import BegunWait, Run, SentSignal, TaskRun
from chaos.waits.reporter import WRONG
from chaos.waits.values import ANY, Asked, Meant, fits

# The events that end an attempt of a task run by itself; a run that ends cancels several together.
_ENDS = ("task_run.completed", "task_run.failed", "task_run.timed_out", "task_run.retrying")
_DECISIONS = frozenset({"approve", "reject"})
# What who may not is answered, and who is late.
_REFUSED = frozenset({400, 401, 403, 404, 409, 410, 422})


# --- the end of runs --------------------------------------------------------------------------------------


def every_run_that_waits_ended_as_its_document_demands(seen: Evidence) -> Iterator[str]:
    """Its status, its steps, its output, and the runs inside of it; and each was made once."""
    stored = Counter(run.token for run in seen.records.runs.values())
    for meant in seen.waited.runs:
        answered = seen.waited.accepted.get(meant.token, set())
        if len(answered) != 1 or stored[meant.token] != 1:
            yield f"{meant.token}: answered with {sorted(answered)}, {stored[meant.token]} are stored"
        for run_id in answered & seen.records.runs.keys():
            yield from _otherwise(seen, seen.records.runs[run_id], meant)


def _otherwise(seen: Evidence, run: Run, meant: Meant) -> Iterator[str]:
    demand, steps = meant.demand, seen.steps[run.id]
    if run.status != demand.status:
        yield f"{run.id} ({run.pipeline_id}): {run.status}, not {demand.status}"
    for step_id in sorted(demand.steps.keys() | steps.keys()):
        status = steps[step_id].status if step_id in steps else None
        if status != demand.steps.get(step_id):
            yield f"{run.id} ({run.pipeline_id}): {step_id} is {status}, not {demand.steps.get(step_id)}"
    end = steps.get("end")
    if demand.output is not None and end is not None and not fits(end.output, demand.output):
        yield f"{run.id} ({run.pipeline_id}): its output is {end.output}, not {demand.output}"
    inside: dict[str, list[str]] = defaultdict(list)
    for each in _below(seen, run.id):
        inside[each.pipeline_id].append(each.status)
    if demand.children is not ANY and {id: sorted(inside[id]) for id in inside} != demand.children:
        yield f"{run.id} ({run.pipeline_id}): inside are {dict(inside)}, not {demand.children}"


def _below(seen: Evidence, root: str) -> list[Run]:
    return [each for each in seen.records.runs.values() if each.id != root and seen.root(each.id) == root]


def no_child_outlived_its_parent(seen: Evidence) -> Iterator[str]:
    """When a run has ended, none inside of it is open; how soon they end is proved with the waits."""
    for run in seen.records.runs.values():
        above = None if run.parent is None else seen.records.runs.get(run.parent)
        if run.parent is not None and above is None:
            yield f"{run.id}: its parent {run.parent} is not stored"
        elif above is not None and above.finished is not None and run.finished is None:
            yield f"{run.id} ({run.pipeline_id}) is {run.status}, but its parent {above.id} is {above.status}"


# --- the end of waits -------------------------------------------------------------------------------------


def every_wait_ended_once_by_what_was_sent_first(seen: Evidence) -> Iterator[str]:
    """Each wait began once and has one end; of two signals that it could take, it took the one that was
    answered before the other was sent.
    """
    sent = _sent(seen)
    for (task_run_id, attempt), begun in seen.begun_waits.items():
        row = seen.records.task_runs.get(task_run_id)
        if row is None or len(begun) != 1:
            yield f"{task_run_id} attempt {attempt}: it began to wait {len(begun)} times, and is {row}"
            continue
        if (ends := _ends(seen, row, attempt)) != 1:
            yield f"{task_run_id} ({row.step_id}) attempt {attempt}: its wait ended {ends} times"
        yield from _too_late(seen, begun[0], sent)


def _ends(seen: Evidence, row: TaskRun, attempt: int) -> int:
    events = [each for type in _ENDS for each in seen.events.get((row.id, type), ())]
    is_cancelled = row.status == "cancelled" and row.attempt == attempt
    return sum(each.attempt == attempt for each in events) + is_cancelled


def _sent(seen: Evidence) -> dict[str, Asked]:
    """By stored signal: the request that brought it, where it is known when that was answered."""
    done = [each for each in seen.waited.asked if each.is_done]
    signals = {(each.run_id, each.key): each for each in reversed(done) if each.deed == "signal"}
    votes = {(each.about, each.by): each for each in reversed(done) if each.deed in _DECISIONS}
    sent = {}
    for each in seen.records.signals:
        kind, _, voted_on = each.name.partition(":")
        asked = votes.get((voted_on, str(each.sent_by))) if kind == "approval" else None
        asked = asked or signals.get((each.run_id, each.once))
        if asked is not None:
            sent[each.id] = asked
    return sent


def _too_late(seen: Evidence, wait: BegunWait, sent: dict[str, Asked]) -> Iterator[str]:
    root, took = seen.root(wait.run_id), seen.taken.get(wait.task_run_id, [])
    if wait.kind == "signal" and len(took) > 1:
        yield f"{wait.task_run_id} took {len(took)} signals"
    for signal in (each for each in took if each.id in sent):
        for other in seen.records.signals:
            if other.run_id != root or other.name not in wait.names or other.id not in sent:
                continue
            was_there = other.taken_at is None or other.taken_at > (signal.taken_at or 0.0)
            if was_there and sent[other.id].answered < sent[signal.id].begun:
                yield f"{wait.task_run_id} took {signal.once}, but {other.once} had come before"


# --- what was sent ----------------------------------------------------------------------------------------


def no_accepted_signal_was_lost_or_taken_twice(seen: Evidence) -> Iterator[str]:
    """Each is stored once, whoever repeated it, and one step has it; what nobody has to take is known."""
    stored = {each.id: each for each in seen.records.signals}
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for asked in _accepted(seen, "signal"):
        answers[asked.run_id, asked.key].add(asked.body["signalId"])
    for (run_id, key), answered in answers.items():
        rows = [each for each in seen.records.signals if (each.run_id, each.once) == (run_id, key)]
        if [each.id for each in rows] != sorted(answered):
            yield f"{run_id}: {key} was answered with {sorted(answered)}, stored are {[e.id for e in rows]}"
    yield from _wrongly_taken(seen, stored)
    spare = {key for meant in seen.waited.runs for key in meant.demand.spare}
    for each in stored.values():
        if each.taken_by is None and each.once not in spare and not _is_past(seen, each):
            yield f"{each.id} ({each.name}, {each.once}): no step has taken it"


def _wrongly_taken(seen: Evidence, stored: dict[str, SentSignal]) -> Iterator[str]:
    """By the outputs of the steps, which name the keys of their signals."""
    having: dict[str, list[str]] = defaultdict(list)
    for row in seen.records.task_runs.values():
        payload = row.output.get("payload") if row.kind == "wait" and isinstance(row.output, dict) else None
        if isinstance(payload, dict) and "key" in payload:
            having[payload["key"]].append(row.id)
    for key, steps in having.items():
        if len(steps) != 1:
            yield f"{key} is the output of {', '.join(steps)}"
        if [each.taken_by for each in stored.values() if each.once == key] != steps[:1]:
            yield f"{key} is the output of {steps[0]}, which has not taken it"


def _is_past(seen: Evidence, signal: SentSignal) -> bool:
    """Whether what it was sent to is over by something else: a vote that was not needed, an attempt that
    ended before the report on it was looked at, a run that was cancelled.
    """
    run = seen.records.runs.get(signal.run_id)
    if run is not None and run.status == "cancelled":
        return True
    kind, _, rest = signal.name.partition(":")
    if kind == "approval":
        return True
    task_run_id, _, attempt = rest.partition(":")
    return kind in ("callback", "poll") and int(attempt) in seen.records.attempts.get(task_run_id, {})


def nobody_without_the_right_ended_a_wait(seen: Evidence) -> Iterator[str]:
    """Who may not decide, votes against the form, reports by the URL of an attempt that is over, or comes too
    late, was refused, and nothing of it is stored; and whoever had the right was not refused.
    """
    for asked in seen.waited.asked:
        if asked.may is False and asked.status and asked.status not in _REFUSED:
            yield f"{asked.deed} of {asked.about} by {asked.by or 'nobody'} was answered {asked.status}"
        if asked.may and not asked.is_done and asked.status and not _came_before(seen, asked):
            yield f"{asked.deed} of {asked.about} by {asked.by} was refused: {asked.status} {asked.body}"
    for signal in seen.records.signals:
        kind, _, rest = signal.name.partition(":")
        if kind == "approval":
            yield from _without_right(seen, signal, rest)
        elif signal.payload == {"status": "completed", "result": WRONG}:
            yield f"{signal.id} ({signal.name}): a report was stored that nobody could make"


def _came_before(seen: Evidence, asked: Asked) -> bool:
    """Whether a request whose answer was lost did it: its repeat is answered that it is over."""
    if asked.tries == 1 or asked.status != 409:
        return False
    if asked.deed not in _DECISIONS:
        return True
    name = f"approval:{asked.about}"
    return any((each.name, each.sent_by) == (name, asked.by) for each in seen.records.signals)


def _without_right(seen: Evidence, vote: SentSignal, task_run_id: str) -> Iterator[str]:
    row = seen.records.task_runs.get(task_run_id)
    pipeline = None if row is None else seen.records.runs[row.run_id].pipeline_id
    if vote.sent_by not in seen.waited.voters.get(str(pipeline), ()):
        yield f"{vote.id}: {vote.sent_by} voted on {task_run_id} of {pipeline}"
    same = [
        each
        for each in seen.waited.asked
        if (each.about, each.by) == (task_run_id, vote.sent_by) and each.may and each.deed in _DECISIONS
    ]
    payload = vote.payload or {}
    if not any(_says(each, payload) for each in same):
        yield f"{vote.id}: {vote.sent_by} did not vote so on {task_run_id}: {payload}"


def _says(asked: Asked, payload: dict[str, object]) -> bool:
    choice = asked.content.get("choice") or asked.deed
    return payload.get("choice") == choice and payload.get("form") == asked.content.get("form")


# --- what is left -----------------------------------------------------------------------------------------


def no_wait_is_left_and_none_is_missing(seen: Evidence) -> Iterator[str]:
    """Each wait has a task run that waits, and the other way round; and no run that has ended is quiet."""
    waiting = {
        each.id
        for each in seen.records.task_runs.values()
        if each.status == "waiting" and (each.id, each.attempt) in seen.begun_waits
    }
    yield from (f"{each}: a wait of nothing" for each in sorted(set(seen.records.waits) - waiting))
    yield from (f"{each} waits without a wait" for each in sorted(waiting - set(seen.records.waits)))
    for run in seen.records.runs.values():
        if run.is_quiet and run.finished is not None:
            yield f"{run.id} ({run.pipeline_id}) is {run.status}, and still marked as quiet"


def _accepted(seen: Evidence, deed: str) -> list[Asked]:
    return [each for each in seen.waited.asked if each.deed == deed and each.is_done]
