"""Takes votes on approvals: who may vote, and what the form must hold, is checked before one is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import Conflict, FieldError, Forbidden, InputValidationFailed, InvalidInput, WaitOver
from pipeweave.orchestrator.domain.waits import APPROVAL, Wait, approval_name
from pipeweave.orchestrator.queueing import maintenance_mode
from pipeweave.orchestrator.state import run_headers, signals
from pipeweave.orchestrator.state.signals import NewSignal
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.values import keep_inline
from pipeweave.orchestrator.waits import open_waits
from pipeweave.orchestrator.waits.ending import APPROVE, REJECT
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import INLINE_BYTES

GROUP = "group:"
MAX_COMMENT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Vote:
    """What a person decides.

    Args:
        by: the name of the person's token.
        groups: of that token.
        is_approval: yes; False for no.
        choice: of the options, for an approval that has some.
        form: the fields of the form.
    """

    by: str
    groups: Collection[str]
    is_approval: bool
    choice: str | None = None
    form: Any = None
    comment: str | None = None


def vote(tx: Transaction, tenant: str, task_run_id: UUID, vote: Vote) -> None:
    """Store a vote on an open approval; the look that follows ends it, if enough people agree.

    The same vote of the same person again changes nothing, also where it has decided: the answer to the first
    one may have been lost.

    Raises:
        NotFound: the tenant has no such wait.
        WaitOver: it has ended, or its time is over, and this person has not voted so.
        Conflict: it is no approval, or this person has voted otherwise.
        Forbidden: the person is no assignee, or began the run and may not decide about it.
        InputValidationFailed: the form has mistakes.
        InvalidInput: the choice is no option.
        Unavailable: maintenance has begun.
    """
    maintenance_mode.check_open(tx)
    try:
        wait = _open_wait(tx, tenant, task_run_id)
    except WaitOver:
        if _has_voted_so(tx, tenant, task_run_id, vote):
            return
        raise
    _check_voter(tx, wait, vote)
    payload = {"choice": _choice(wait, vote), "form": vote.form, "comment": vote.comment}
    _check_form(wait, vote)
    kept = keep_inline(payload)
    if kept.size > INLINE_BYTES:
        raise InvalidInput(
            f"the form has {kept.size:,} bytes; it takes at most {INLINE_BYTES:,}",
            errors=[FieldError("form", "is too large", "too_big", f"at most {INLINE_BYTES} bytes")],
        )
    signal = NewSignal(wait.root_run_id, tenant, approval_name(task_run_id), kept, vote.by, vote.by)
    approved = None if wait.data["options"] else vote.is_approval
    data = {"by": vote.by, "approved": approved, "choice": payload["choice"]}
    if not _is_new(tx, wait, signal, data):
        _check_repeated(tx, wait, vote, payload["choice"])


def _is_new(tx: Transaction, wait: Wait, signal: NewSignal, data: dict[str, Any]) -> bool:
    """Store a vote. False when the person has voted before, in this attempt of the step."""

    def send(once: str) -> bool:
        said, about = orjson.dumps(data).decode(), wait.task_run_id
        sent = signals.send(tx, replace(signal, once=once), event="task_run.voted", data=said, about=about)
        return not sent.is_repeated

    if send(data["by"]):
        return True
    # What was taken before the wait began has decided an attempt before.
    before = _vote_before(tx, wait, data["by"])
    is_old = before is not None and before.is_taken and before.sent_at < wait.created_at
    return bool(is_old) and send(f"{data['by']}\n{wait.attempt}")


def _open_wait(tx: Transaction, tenant: str, task_run_id: UUID) -> Wait:
    wait = open_waits.find(tx, tenant, task_run_id).wait
    shown = ids.show(ids.TASK_RUN, task_run_id)
    if wait.kind != APPROVAL:
        raise Conflict(f"{shown} waits for a {wait.kind}, not for a decision", taskRunId=shown)
    if tx.now >= wait.timeout_at:
        raise WaitOver(f"the time of the wait of {shown} is over", taskRunId=shown)
    return wait


_OF_ENDED = """
SELECT s.payload ->> 'choice' FROM runs AS r
    JOIN signals AS s ON s.run_id = coalesce(r.root_run_id, r.id) AND s.name = :name AND s.sent_by = :by
WHERE r.id = :run AND r.tenant_id = :tenant ORDER BY s.id DESC LIMIT 1
"""


def _has_voted_so(tx: Transaction, tenant: str, task_run_id: UUID, vote: Vote) -> bool:
    """Whether this is a vote that was stored before the wait ended."""
    run, name = ids.run_id_of(task_run_id), approval_name(task_run_id)
    key = {"run": run, "tenant": tenant, "name": name, "by": vote.by}
    before = tx.execute(_OF_ENDED, key).scalar_one_or_none()
    said = (vote.choice or APPROVE) if vote.is_approval else REJECT
    return before == said


_BEFORE = """
SELECT s.payload ->> 'choice' AS choice, s.taken_at IS NOT NULL AS is_taken, s.sent_at FROM signals AS s
WHERE s.run_id = :run AND s.name = :name AND s.sent_by = :by ORDER BY s.id DESC LIMIT 1
"""


def _vote_before(tx: Transaction, wait: Wait, by: str) -> Any | None:
    """The last vote of a person on this step: {choice, is_taken, sent_at}; None if there is none."""
    key = {"run": wait.root_run_id, "name": approval_name(wait.task_run_id), "by": by}
    return tx.execute(_BEFORE, key).first()


def _check_repeated(tx: Transaction, wait: Wait, vote: Vote, choice: str) -> None:
    before = _vote_before(tx, wait, vote.by)
    if before is not None and before.choice != choice:
        raise Conflict(f"{vote.by!r} has voted {before.choice!r} before", hint="a vote cannot be changed")


def _check_voter(tx: Transaction, wait: Wait, vote: Vote) -> None:
    wanted = wait.data["assignees"]
    names = {vote.by, *(f"{GROUP}{each}" for each in vote.groups)}
    if wanted and names.isdisjoint(wanted):
        raise Forbidden(
            f"{vote.by!r} is no assignee of this approval", hint=f"it is for {', '.join(wanted[:10])}"
        )
    run = run_headers.load(tx, wait.run_id)
    began_it = run is not None and run.triggered_by is not None and run.triggered_by.actor == vote.by
    if wait.data["fourEyes"] and began_it:
        raise Forbidden("who began the run cannot decide about it", hint="somebody else has to")


def _choice(wait: Wait, vote: Vote) -> str:
    options = wait.data["options"]
    if not options:
        if vote.choice is not None:
            raise _wrong_choice("takes no choice: it is a yes or a no")
        return APPROVE if vote.is_approval else REJECT
    if vote.is_approval and vote.choice in options:
        return str(vote.choice)
    raise _wrong_choice(f"must be one of {', '.join(options)}")


def _wrong_choice(message: str) -> InvalidInput:
    return InvalidInput(f"choice {message}", errors=[FieldError("choice", message, "invalid_value")])


def _check_form(wait: Wait, vote: Vote) -> None:
    form: Mapping[str, Any] | None = wait.data["form"]
    if form is None and vote.form is not None:
        raise InvalidInput("form: it has none", errors=[FieldError("form", "is not asked for", "unknown")])
    # Who says no need not fill in what a yes needs.
    if not vote.is_approval and vote.form is None:
        return
    if faults := run_input_errors(form, vote.form):
        named = [replace(each, field=f"form.{each.field}" if each.field else "form") for each in faults]
        raise InputValidationFailed("the form has mistakes", errors=named)
