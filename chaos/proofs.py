"""Prove statements about a trial: each proof reads the evidence and gives a line for each contradiction."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

from chaos import cause_proofs, change_proofs, code_proofs, overlaps, progress, schedule_proofs, stream_proofs
from chaos.catalogue import LIMITS
from chaos.evidence import Evidence
from chaos.notes import Note
from chaos.records import Run, TaskRun
from chaos.waits import proofs as wait_proofs
from chaos.waits import wakes

FINAL_RUN = frozenset({"completed", "partial", "failed", "cancelled"})
FINAL = frozenset({"completed", "failed", "timeout", "cancelled", "skipped"})
# The statuses for `failed` in the model.
BADLY = frozenset({"failed", "timeout"})
# The statuses of an attempt that another attempt may follow.
ENDED = frozenset({"failed", "timeout", "lost", "interrupted"})
# The codes of errors that tasks.py raises.
RAISED = frozenset({"ValueError", "REFUSED"})
# The codes of failures that have their dead letter where they come from: an item, or another run.
WITHOUT_LETTER = frozenset({"MAP_ITEMS_FAILED", "CHILD_FAILED", "CHILD_CANCELLED"})

Proof = Callable[[Evidence], Iterator[str]]


def every_accepted_run_is_stored_once(seen: Evidence) -> Iterator[str]:
    """A repeated trigger with the same token never makes a second run, and no run is lost."""
    stored = Counter(run.token for run in seen.records.runs.values())
    for planned in seen.planned_runs:
        answered = seen.accepted.get(planned.token, set())
        if len(answered) != 1:
            yield f"{planned.token}: the API answered with runs {sorted(answered)}"
        if stored[planned.token] != 1:
            yield f"{planned.token}: {stored[planned.token]} runs are stored"
        yield from (
            f"{planned.token}: {run} is not stored" for run in answered if run not in seen.records.runs
        )
    asked_for = {each.token for each in seen.waited.runs}
    for run in seen.records.runs.values():
        if run.id not in seen.planned_of and run.parent is None and run.token not in asked_for:
            yield f"{run.id}: nobody asked for it (token {run.token})"


def every_run_ended_as_its_failure_mode_demands(seen: Evidence) -> Iterator[str]:
    """The status of the run, of each step and of each item."""
    for run_id in seen.planned_of:
        run, expected = seen.records.runs[run_id], seen.expected[run_id]
        is_cancelled = run.status == "cancelled" and run.id in seen.asked_to_cancel
        if run.status != expected.run and not is_cancelled:
            yield f"{run.id} ({run.pipeline_id}, {run.mode}): {run.status}, not {expected.run}"
        steps = seen.steps[run_id]
        if steps.keys() != expected.steps.keys():
            yield f"{run.id}: steps {sorted(steps.keys() ^ expected.steps.keys())} are missing or too many"
        for step_id in steps.keys() & expected.steps.keys():
            yield from _wrong(seen, run, steps[step_id], expected.steps[step_id])
        for step_id, items in expected.items.items():
            yield from _wrong_items(seen, run, step_id, items)


def _wrong(seen: Evidence, run: Run, row: TaskRun, expected: str) -> Iterator[str]:
    fine = BADLY if expected == "failed" else {expected}
    if seen.is_cut_short(run):
        fine = fine | {"cancelled"}
    if row.status not in fine:
        yield f"{row.id} ({row.step_id} {row.map_index} of {run.id}): {row.status}, not {expected}"


def _wrong_items(seen: Evidence, run: Run, step_id: str, expected: list[str]) -> Iterator[str]:
    items = seen.items[run.id][step_id]
    if not items and seen.is_cut_short(run):
        return
    if [each.map_index for each in items] != list(range(len(expected))):
        yield f"{run.id}: {len(items)} items of {step_id}, not {len(expected)}, or some twice"
        return
    for row, wanted in zip(items, expected, strict=True):
        yield from _wrong(seen, run, row, wanted)


def every_run_and_task_run_is_final(seen: Evidence) -> Iterator[str]:
    """Every run and task run is final, so no slot of a limit is held."""
    for run in seen.records.runs.values():
        if run.status not in FINAL_RUN:
            yield f"{run.id} ({run.pipeline_id}): {run.status}"
    for row in seen.records.task_runs.values():
        if row.status not in FINAL:
            yield f"{row.id} ({row.step_id} of {row.run_id}): {row.status}, attempt {row.attempt}"


def completed_task_runs_completed_once(seen: Evidence) -> Iterator[str]:
    """Each completed row has one event, and its output is what its attempt returned."""
    for row in seen.records.task_runs.values():
        count = len(seen.events.get((row.id, "task_run.completed"), ()))
        if count != (1 if row.status == "completed" else 0):
            yield f"{row.id} ({row.step_id}): {row.status}, but {count} events say it completed"
        if row.cached_from is not None:
            yield from _wrongly_reused(seen, row)
        elif row.status == "completed" and row.is_called:
            tokens = [each.token for each in seen.returned.get((row.id, row.attempt), ())]
            if tokens != [row.output]:
                yield f"{row.id} attempt {row.attempt}: output {row.output}, but the task returned {tokens}"


def _wrongly_reused(seen: Evidence, row: TaskRun) -> Iterator[str]:
    source = seen.records.task_runs.get(str(row.cached_from))
    if source is None or (source.status, source.output) != ("completed", row.output):
        yield f"{row.id} ({row.step_id}) has the output {row.output} of {source}"
    if (row.id, row.attempt) in seen.begun:
        yield f"{row.id} ({row.step_id}) was called, but has the result of {row.cached_from}"


def no_attempt_began_without_a_reason(seen: Evidence) -> Iterator[str]:
    """An attempt is called at most once, and only after the end of each attempt before it is recorded."""
    for (task_run_id, attempt), begun in seen.begun.items():
        if len(begun) > 1:
            yield f"{task_run_id} attempt {attempt} was called {len(begun)} times: {_shown(begun)}"
        row = seen.records.task_runs.get(task_run_id)
        if row is None or attempt > row.attempt:
            yield f"{task_run_id} attempt {attempt} was called, but is not recorded ({_shown(begun)})"
        ended = seen.records.attempts.get(task_run_id, {})
        for number in range(1, attempt):
            if number not in ended or ended[number].status not in ENDED:
                yield f"{task_run_id} attempt {attempt} was called, but how {number} ended is not recorded"
            elif begun[0].wall < ended[number].finished:
                yield f"{task_run_id} attempt {attempt} was called before {number} ended"


def attempt_numbers_match_recorded_attempts(seen: Evidence) -> Iterator[str]:
    """A row's attempt is one more than its number of failed attempts, and none of them is invented."""
    for row in seen.records.task_runs.values():
        if not row.is_called:
            continue
        ended = seen.records.attempts.get(row.id, {})
        last = row.attempt if row.status in BADLY else row.attempt - 1
        if sorted(ended) != list(range(1, last + 1)):
            stands = f"{row.status} at attempt {row.attempt}"
            yield f"{row.id} ({row.step_id}): {stands}, recorded as ended: {sorted(ended)}"
        for each in ended.values():
            if each.status == "failed" and each.code in RAISED and not seen.raised.get((row.id, each.number)):
                yield f"{row.id} attempt {each.number}: {each.code} is recorded, but the task did not raise"


def steps_began_after_their_predecessors(seen: Evidence) -> Iterator[str]:
    """By the notes of the tasks and by the order of events; no skipped step began."""
    for begun in seen.begun.values():
        for note in begun:
            row = seen.records.task_runs.get(note.task_run_id)
            if row is None or row.run_id not in seen.needs:
                continue
            if seen.expected[row.run_id].steps.get(row.step_id) == "skipped":
                yield f"{row.id} ({row.step_id} of {row.run_id}) was called, but is to be skipped"
            for before in seen.needs[row.run_id][row.step_id]:
                if before in seen.steps[row.run_id]:  # else another proof fails
                    yield from _too_early(seen, note, row, seen.steps[row.run_id][before])


def _too_early(seen: Evidence, note: Note, row: TaskRun, before: TaskRun) -> Iterator[str]:
    if before.status not in FINAL - {"cancelled"}:
        yield f"{row.id} ({row.step_id}) was called, but {before.id} ({before.step_id}) is {before.status}"
        return
    parts = seen.items[row.run_id][before.step_id] if before.kind == "map" else [before]
    for part in parts:
        for end in seen.returned.get((part.id, part.attempt), ()):
            if part.status == "completed" and end.at > note.at:
                early = f"{end.at - note.at:.3f} s before {part.id} ({part.step_id}) returned"
                yield f"{row.id} ({row.step_id}) was called {early}"
    # A worker that continues with the successor writes both events in one statement, in either order.
    started = [each for each in seen.events.get((row.id, "task_run.started"), ())]
    for type in ("task_run.completed", "task_run.failed", "task_run.timed_out"):
        for event in seen.events.get((before.id, type), ()):
            if any(each.seq < event.seq and each.at != event.at for each in started):
                yield f"{row.id} ({row.step_id}) started before event {event.seq} ({type} of {before.id})"


def steps_received_the_recorded_outputs(seen: Evidence) -> Iterator[str]:
    """The outputs that a step received of its predecessors are those of their rows."""
    for (task_run_id, attempt), notes in seen.returned.items():
        row = seen.records.task_runs.get(task_run_id)
        for name, value in notes[0].saw.items() if row is not None and row.attempt == attempt else ():
            assert row is not None
            before = seen.steps[row.run_id].get(name)
            if before is not None and value != (wanted := _output(seen, before)):
                yield f"{row.id} ({row.step_id}): was given {value} of {name}, recorded is {wanted}"


def _output(seen: Evidence, row: TaskRun) -> object:
    if row.status != "completed":
        return None
    if row.kind != "map":
        return row.output
    return [each.output for each in seen.items[row.run_id][row.step_id]]


def every_exhausted_task_run_has_one_dead_letter(seen: Evidence) -> Iterator[str]:
    """There is exactly one dead letter for each task run without an attempt left, and no other one."""
    letters = dict(seen.records.dead_letters)
    for row in seen.records.task_runs.values():
        count = letters.pop(row.id, 0)
        is_due = row.status in BADLY and row.code not in WITHOUT_LETTER
        if count != (1 if is_due else 0):
            yield f"{row.id} ({row.step_id}): {row.status} ({row.code}), {count} dead letters"
    yield from (f"{each}: a dead letter of nothing" for each in letters)


def limits_were_kept(seen: Evidence) -> Iterator[str]:
    """A limited task never has more calls at once than its limit. An abandoned attempt counts until it was
    given up: no one can stop a process that does not answer.
    """
    by_task: dict[str, list[overlaps.Span]] = defaultdict(list)
    for (task_run_id, attempt), begun in seen.begun.items():
        row = seen.records.task_runs.get(task_run_id)
        if row is not None and row.task_id in LIMITS:
            by_task[row.task_id].append(overlaps.span(seen, row, attempt, begun[0]))
    for task_id, spans in by_task.items():
        yield from overlaps.too_many(task_id, spans)


def events_rebuild_the_stored_rows(seen: Evidence) -> Iterator[str]:
    """`pipeweave verify` finds no difference in any row."""
    yield from seen.records.differences


def _shown(notes: list[Note]) -> str:
    return ", ".join(f"process {each.pid} at {each.at:.3f}" for each in notes)


ALL: tuple[Proof, ...] = (
    every_accepted_run_is_stored_once,
    every_run_and_task_run_is_final,
    every_run_ended_as_its_failure_mode_demands,
    completed_task_runs_completed_once,
    no_attempt_began_without_a_reason,
    attempt_numbers_match_recorded_attempts,
    code_proofs.no_attempt_was_used_up_without_a_call,
    code_proofs.each_task_was_called_by_workers_that_have_it,
    steps_began_after_their_predecessors,
    steps_received_the_recorded_outputs,
    every_exhausted_task_run_has_one_dead_letter,
    limits_were_kept,
    change_proofs.nothing_was_started_in_a_paused_or_ended_run,
    change_proofs.every_cancel_ended_its_run,
    change_proofs.reruns_reused_what_could_not_change,
    schedule_proofs.every_due_time_was_decided_about_once,
    schedule_proofs.every_time_that_fired_has_one_run,
    schedule_proofs.scheduled_runs_overlap_only_where_they_may,
    cause_proofs.every_row_that_nobody_can_read_was_refused,
    cause_proofs.every_end_called_its_hook,
    cause_proofs.every_end_started_its_run_soon,
    cause_proofs.nobody_waited_whom_a_fault_did_not_concern,
    wait_proofs.every_run_that_waits_ended_as_its_document_demands,
    wait_proofs.every_wait_ended_once_by_what_was_sent_first,
    wait_proofs.no_accepted_signal_was_lost_or_taken_twice,
    wait_proofs.nobody_without_the_right_ended_a_wait,
    wait_proofs.no_wait_is_left_and_none_is_missing,
    wait_proofs.no_child_outlived_its_parent,
    wakes.no_more_children_were_open_than_their_step_says,
    wakes.every_wait_ended_soon,
    stream_proofs.the_stream_showed_every_event_once,
    progress.every_run_went_on_soon,
    events_rebuild_the_stored_rows,
)


def name_of(proof: Proof) -> str:
    """The statement of a proof, as a sentence."""
    return proof.__name__.replace("_", " ")


def contradictions(seen: Evidence) -> dict[str, list[str]]:
    """The contradictions by proof; all lists are empty if every proof holds."""
    return {name_of(proof): list(proof(seen)) for proof in ALL}
