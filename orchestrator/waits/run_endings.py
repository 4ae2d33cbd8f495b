"""Leads a run through its ending: starts the part that is next, and ends the run behind the last one.

The parts share the wait of the run: it goes on with the next one when the run of a part has ended, whatever
became of it. When the time for the ending is over, the part that is under way is cancelled, and the others do
not run.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from pipeweave import ids
from pipeweave.durations import in_words
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.domain.facts import ChildrenLeft, WaitBegan
from pipeweave.orchestrator.domain.failure import TIMEOUT_MS, failure_of
from pipeweave.orchestrator.domain.log_names import names_of_run
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.run_ending import call_of, place_of
from pipeweave.orchestrator.domain.states import RunStatus
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.engine import endings, referred_values
from pipeweave.orchestrator.engine.referred_values import NotLoaded
from pipeweave.orchestrator.runs import child_runs
from pipeweave.orchestrator.runs.child_runs import NewChild, TooLargeForRow
from pipeweave.orchestrator.state import run_headers, run_transitions, waits
from pipeweave.orchestrator.state.run_endings import EndingRun
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.waits.child_starts import around_body, of_body
from pipeweave.orchestrator.waits.ending import WAIT_TIMEOUT
from pipeweave.orchestrator.waits.error_runs import error_of_child
from pipeweave.orchestrator.waits.held import Held, Need, Paths, TooLarge
from pipeweave.spec import WITH_OUTPUT, Body, engine_results
from pipeweave.spec.references import compile_value

log = logging.getLogger(__name__)

# A part that is under way is looked at again at the latest after this long: its end makes that due at once.
AGAIN = timedelta(minutes=1)

_CHILD = "SELECT r.id, r.status, r.error, r.finished_at FROM runs AS r WHERE r.id = :id"


def look(tx: Transaction, ending_run: EndingRun) -> bool:
    """Go on with a run in its ending, if there is anything to do. Returns whether the part that is under way
    is to be started now.
    """
    wait = ending_run.wait
    run = run_headers.load(tx, wait.run_id)
    if run is None:
        return False
    child: Any = tx.execute(_CHILD, {"id": wait.child}).one_or_none()
    if child is not None and child.finished_at is not None:
        _next(tx, run, ending_run, None if child.status in WITH_OUTPUT else error_of_child(child))
    elif tx.now >= wait.timeout_at:
        _time_out(tx, run, ending_run)
    elif child is not None:
        waits.postpone(tx, wait, min(tx.now + AGAIN, wait.timeout_at))
    else:
        return True
    return False


def _next(tx: Transaction, run: RunHeader, ending_run: EndingRun, error: dict[str, Any] | None) -> None:
    """Let the part follow that is next, or end the run.

    Args:
        error: why the part that is over failed; None if it did not.
    """
    wait, place = ending_run.wait, ending_run.wait.data["part"]
    errors = {**wait.data["errors"], **({} if error is None else {ending_run.part: error})}
    if place + 1 == len(ending_run.ending.parts):
        endings.finish_ending(tx, run, ending_run, errors)
        return
    data = {**wait.data, "run": str(tx.new_id()), "part": place + 1, "errors": errors}
    if waits.go_on(tx, wait, data, tx.now):
        tx.announce(WaitBegan(run.id, (run.id,)))


def _time_out(tx: Transaction, run: RunHeader, ending_run: EndingRun) -> None:
    wait = ending_run.wait
    limit_ms = run.plan.finally_ms
    said = f"the end of the run took longer than {in_words(limit_ms)}"
    error = {"code": WAIT_TIMEOUT, "message": said, "details": {TIMEOUT_MS: limit_ms}}
    left = ending_run.ending.parts[wait.data["part"] :]
    if endings.finish_ending(tx, run, ending_run, {**wait.data["errors"], **dict.fromkeys(left, error)}):
        names = {**names_of_run(run), "error_code": WAIT_TIMEOUT, "timeout_ms": limit_ms}
        tx.after_commit(lambda: log.warning("run.timeout_exceeded", extra=names))
        tx.announce(ChildrenLeft(run.id))


def start(tx: Transaction, ending_run: EndingRun, held: Held) -> Need | None:
    """Start the run of the part that is next. Returns what is lacking; nothing was written then.

    Raises:
        Unavailable: maintenance has begun, or the catalog changes all the time.
    """
    wait = ending_run.wait
    run = run_headers.load(tx, wait.run_id)
    if run is None or run_transitions.lock_status(tx, run.id) is not RunStatus.ERROR_HANDLING:
        return None
    if not waits.start_children(tx, run.id, [wait], min(tx.now + AGAIN, wait.timeout_at)):
        return None
    why = _start(tx, run, ending_run, held)
    if isinstance(why, PipeWeaveError):
        failure, shown = failure_of(why), ids.show(ids.RUN, wait.child)
        said = f"run {shown} did not start: {failure.message}"
        _next(tx, run, ending_run, {"code": failure.code, "message": said})
        return None
    return why


def _start(
    tx: Transaction, run: RunHeader, ending_run: EndingRun, held: Held
) -> Need | PipeWeaveError | None:
    """Start the run of a part. Returns what is lacking, or why it cannot start."""
    try:
        refused = child_runs.start(tx, [_child(tx, run, ending_run, held)]).get(ending_run.wait.child)
    except NotLoaded as missing:
        return Paths(missing.paths)
    except PipeWeaveError as error:
        if error.status == 503:
            raise
        return error
    if isinstance(refused, TooLargeForRow):
        return TooLarge(ending_run.wait.child, refused.value)
    return refused


def _child(tx: Transaction, run: RunHeader, ending_run: EndingRun, held: Held) -> NewChild:
    wait, runs = ending_run.wait, call_of(run.plan, ending_run.part).runs
    if isinstance(runs, Body):
        place = place_of(ending_run.part)
        return of_body(run, wait, place, {"run": _run(run, ending_run)}, around_body(tx, run, place))
    value, kept = _input(tx, run, ending_run, held), held.kept.get(wait.child)
    return NewChild(wait.child, runs, run, run.id, wait.attempt, value, kept)


def _run(run: RunHeader, ending_run: EndingRun) -> dict[str, Any]:
    """The run as expressions see it in its ending."""
    seen: dict[str, Any] = referred_values.of_run(run, frozenset({"run"}), None)["run"]
    return {**seen, "outcome": ending_run.ending.status.value}


def _input(tx: Transaction, run: RunHeader, ending_run: EndingRun, held: Held) -> Any:
    params = call_of(run.plan, ending_run.part).params
    if params is None:
        return None
    wanted = Wanted.of(compile_value(params).references)
    scope = referred_values.find(tx, run, wanted, held.loaded).scope(wanted)
    if "run" in scope:
        scope["run"] = _run(run, ending_run)
    return engine_results.fill(dict(params), scope, tx.now)
