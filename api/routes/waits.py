"""Endpoints of waits and signals: send a signal, list what waits, decide approvals, repair what does not
end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.contract.requests import MAX_TOKEN
from pipeweave.api.contract.waits import (
    ApproveRequest,
    DecisionRequest,
    ExtendRequest,
    RejectRequest,
    ResolveRequest,
    SentSignal,
    SignalByTokenQuery,
    SignalPayload,
    WaitsQuery,
    WaitState,
    WakeRequest,
)
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.errors import (
    Conflict,
    Forbidden,
    InputValidationFailed,
    NotFound,
    RunHasEnded,
    TooManySignals,
    Unavailable,
    WaitOver,
)
from pipeweave.orchestrator.documents.waits import SignalList, Wait, WaitList
from pipeweave.orchestrator.reading import signals, wait_list
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.security import APPROVE, WRITE
from pipeweave.orchestrator.waits import approvals, repairing, sending

routes = Routes("waits")
NAME = PathId(None, "The name of the signal.")
WAIT = {"id": PathId(ids.TASK_RUN, "The task run that waits.")}
ACCEPTED = {202: (SentSignal, "The signal is stored.")}
SENDING = (NotFound, RunHasEnded, TooManySignals, Unavailable)
DECIDING = (NotFound, WaitOver, Conflict, Forbidden, InputValidationFailed, Unavailable)
REPAIRING = (NotFound, WaitOver, Conflict, Unavailable)


# --- signals ----------------------------------------------------------------------------------------------


@routes.add(
    "POST",
    "/api/runs/{id}/signals/{name}",
    "Send a signal to a run",
    scopes=(WRITE,),
    ids={"id": PathId(ids.RUN, "The run's id."), "name": NAME},
    body=SignalPayload,
    is_body_optional=True,
    answers=ACCEPTED,
    errors=SENDING,
    longest_key=MAX_TOKEN,
    example={"amount": 1200},
)
def send_signal(call: Call, id: str, name: str, body: SignalPayload) -> Answer:
    """Send a signal to a run. A step that waits for its name goes on; if none does yet, it is kept until one
    does. Each signal is taken by one step, the oldest first.

    The same Idempotency-Key again is the same signal.
    """
    return _sent(call, ids.read(ids.RUN, id), name, body.root)


@routes.add(
    "POST",
    "/api/pipelines/{id}/signals/{name}",
    "Send a signal to the run of a token",
    scopes=(WRITE,),
    ids={"id": PathId(None, "The pipeline's id."), "name": NAME},
    query=SignalByTokenQuery,
    body=SignalPayload,
    is_body_optional=True,
    answers=ACCEPTED,
    errors=SENDING,
    longest_key=MAX_TOKEN,
    example={"amount": 1200},
)
def send_signal_by_token(
    call: Call, id: str, name: str, query: SignalByTokenQuery, body: SignalPayload
) -> Answer:
    """Send a signal to the run that was triggered with this run token: the sender needs no run id."""
    run_id = call.read_first(lambda tx: sending.run_of_token(tx, call.tenant, id, query.run_token))
    return _sent(call, run_id, name, body.root)


def _sent(call: Call, run_id: UUID, name: str, payload: Any) -> Answer:
    # Large payloads go to storage before the transaction.
    kept = call.deployment.values.keep(payload)
    sent = call.change(
        lambda tx: sending.send(tx, call.tenant, run_id, name, kept, once=call.key, by=_by(call))
    )
    assert sent.id is not None
    signal_id = sent.id
    is_taken = sent.is_taken or call.read_first(lambda tx: sending.is_taken(tx, run_id, signal_id))
    shown = {"signalId": ids.show(ids.SIGNAL, signal_id), "taken": is_taken, "isRepeated": sent.is_repeated}
    return Answer(shown, 202)


@routes.add(
    "GET",
    "/api/runs/{id}/signals",
    "List the signals of a run",
    ids={"id": PathId(ids.RUN, "The run's id.")},
    query=PageQuery,
    answer=SignalList,
    errors=(NotFound,),
)
def list_signals(call: Call, id: str, query: PageQuery) -> dict[str, Any]:
    """Signals of a run, oldest first: which step took each of them, and those that none has taken."""
    with call.reading() as tx:
        page = signals.signal_list(tx, call.tenant, ids.read(ids.RUN, id), query.page())
        return query.named("signals", page)


# --- waits ------------------------------------------------------------------------------------------------


@routes.add("GET", "/api/waits", "List what waits", query=WaitsQuery, answer=WaitList)
def list_waits(call: Call, query: WaitsQuery) -> dict[str, Any]:
    """Steps that wait for a time, a signal or people, the oldest first. With `assignee=me`, the approvals
    that the token may decide.
    """
    run = None if query.run_id is None else ids.read(ids.RUN, query.run_id)
    chosen = wait_list.WaitFilter(query.kind, query.pipeline_id, query.assignee == "me", query.age(), run)
    with call.reading() as tx:
        page = wait_list.wait_list(tx, call.tenant, query.page(), chosen, _person(call))
        if not page["items"] and query.cursor is None and query.pipeline_id is not None:
            unknown_names.require(tx, call.tenant, "pipeline", query.pipeline_id)
        return query.named("waits", page)


@routes.add(
    "GET",
    "/api/waits/{id}",
    "Show a wait",
    ids=WAIT,
    answer=Wait,
    errors=(NotFound, WaitOver),
)
def get_wait(call: Call, id: str) -> dict[str, Any]:
    """What a step waits for, whom it asks, and who has voted. Answers 409 once it has ended, with how."""
    with call.reading() as tx:
        return wait_list.wait(tx, call.tenant, ids.read(ids.TASK_RUN, id), _person(call))


def _person(call: Call) -> wait_list.Person:
    return wait_list.Person(call.token_name, call.access.groups)


@routes.add(
    "POST",
    "/api/waits/{id}/approve",
    "Approve",
    scopes=(APPROVE,),
    ids=WAIT,
    body=ApproveRequest,
    is_body_optional=True,
    answer=WaitState,
    errors=DECIDING,
    example={"form": {"amount": 900}, "comment": "as agreed"},
)
def approve(call: Call, id: str, body: ApproveRequest) -> dict[str, Any]:
    """Say yes to an approval, or choose one of its options. The step goes on once as many different people
    as it needs agree. The form is checked by the approval's schema.
    """
    return _voted(call, id, body, is_approval=True, choice=body.choice)


@routes.add(
    "POST",
    "/api/waits/{id}/reject",
    "Reject",
    scopes=(APPROVE,),
    ids=WAIT,
    body=RejectRequest,
    is_body_optional=True,
    answer=WaitState,
    errors=DECIDING,
    example={"comment": "too expensive"},
)
def reject(call: Call, id: str, body: RejectRequest) -> dict[str, Any]:
    """Say no to an approval: one no decides. Its step completes with `approved: false`, or fails with
    REJECTED where the pipeline says so.
    """
    return _voted(call, id, body, is_approval=False, choice=None)


def _voted(
    call: Call, id: str, body: DecisionRequest, *, is_approval: bool, choice: str | None
) -> dict[str, Any]:
    vote = approvals.Vote(call.token_name, call.access.groups, is_approval, choice, body.form, body.comment)
    return _changed(call, id, partial(approvals.vote, vote=vote))


def _changed(call: Call, id: str, verb: Callable[..., object]) -> dict[str, Any]:
    """Do a verb of a wait, and tell what has become of it."""
    task_run_id = _change(call, id, verb)
    return call.read_first(lambda tx: wait_list.state(tx, call.tenant, task_run_id))


def _change(call: Call, id: str, verb: Callable[..., object]) -> UUID:
    """Do a verb of a wait, which takes the tenant and the task run; the task run."""
    task_run_id = ids.read(ids.TASK_RUN, id)
    call.change(lambda tx: verb(tx, call.tenant, task_run_id))
    return task_run_id


# --- repairs ----------------------------------------------------------------------------------------------


@routes.add(
    "POST",
    "/api/waits/{id}/resolve",
    "Give a wait its result",
    scopes=(WRITE,),
    ids=WAIT,
    body=ResolveRequest,
    answer=WaitState,
    errors=REPAIRING,
    example={"output": {"paid": True}, "reason": "the sender is gone"},
)
def resolve(call: Call, id: str, body: ResolveRequest) -> dict[str, Any]:
    """End a wait with this output or error, whatever it waits for: for people who repair."""
    error = None if body.error is None else (body.error.code, body.error.message)
    kept = call.deployment.values.keep(body.output) if error is None else None
    resolution = repairing.Resolution(kept, error)
    return _changed(call, id, partial(repairing.resolve, resolution=resolution, by=_by(call)))


@routes.add(
    "POST",
    "/api/waits/{id}/wake",
    "End a sleep now",
    scopes=(WRITE,),
    ids=WAIT,
    body=WakeRequest,
    is_body_optional=True,
    answer=WaitState,
    errors=REPAIRING,
    example={"reason": "no need to wait"},
)
def wake(call: Call, id: str, body: WakeRequest) -> dict[str, Any]:
    """Let a step that sleeps complete now."""
    return _changed(call, id, partial(repairing.wake, by=_by(call)))


@routes.add(
    "POST",
    "/api/waits/{id}/extend",
    "Give a wait another end",
    scopes=(WRITE,),
    ids=WAIT,
    body=ExtendRequest,
    answer=Wait,
    errors=(NotFound, WaitOver),
    example={"timeoutMs": 172_800_000, "reason": "she is on holiday"},
)
def extend(call: Call, id: str, body: ExtendRequest) -> dict[str, Any]:
    """Let a wait end so long from now on, if nothing comes before; a sleep wakes then."""
    _change(call, id, partial(repairing.extend, timeout=body.timeout, by=_by(call)))
    return get_wait(call, id)


def _by(call: Call) -> str | None:
    """Who asks, if that is known."""
    return call.token_name or None
