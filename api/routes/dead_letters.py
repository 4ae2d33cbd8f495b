"""Endpoints of dead letters: list, group, show, retry, discard and delete them, one or many."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pipeweave import ids
from pipeweave.api.contract.dead_letters import (
    DeadLettersQuery,
    DiscardMatchingRequest,
    DiscardRequest,
    GroupsQuery,
    PurgeRequest,
    RedrivesQuery,
    RetryAllRequest,
)
from pipeweave.api.contract.query_parameters import ValuesQuery
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.durations import milliseconds
from pipeweave.errors import Conflict, FieldError, InvalidInput, NotFound, UploadNotUsable
from pipeweave.orchestrator import kept
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.documents.dead_letters import (
    DeadLetterDetail,
    DeadLetterGroups,
    DeadLetterList,
    DiscardedAnswer,
    PurgedAnswer,
    RetriedAnswer,
)
from pipeweave.orchestrator.documents.operations import Redrive, RedriveList
from pipeweave.orchestrator.operations import redrives
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.orchestrator.registry import unknown_names
from pipeweave.orchestrator.security import WRITE
from pipeweave.orchestrator.store import Transaction

routes = Routes("dead letters")
# A request that changes many dead letters changes this many batches of them.
MOST_BATCHES = 20
LETTER = {"id": PathId(ids.DEAD_LETTER, "The dead letter's id.")}
REDRIVE = {"id": PathId(ids.REDRIVE, "The redrive's id.")}


@routes.add("GET", "/api/dlq", "List the dead letters", query=DeadLettersQuery, answer=DeadLetterList)
def list_dead_letters(call: Call, query: DeadLettersQuery) -> dict[str, Any]:
    """Dead letters, newest first. Without `status`, only those that were neither retried nor discarded."""
    with call.reading() as tx:
        page = queries.dead_letter_list(
            tx, call.tenant, query.page(), query.filter(), status=query.status, id_prefix=query.id_prefix
        )
        if not page["items"] and query.cursor is None:
            _require_pipeline(call, tx, query.pipeline_id)
        return page


@routes.add("GET", "/api/dlq/groups", "Group the dead letters", query=GroupsQuery, answer=DeadLetterGroups)
def group_dead_letters(call: Call, query: GroupsQuery) -> dict[str, Any]:
    """Dead letters grouped by similar errors: same task, code, type, and message without numbers. Largest
    first.
    """
    with call.reading() as tx:
        groups = queries.dead_letter_groups(tx, call.tenant, query.limit, query.filter(), status=query.status)
        if not groups:
            _require_pipeline(call, tx, query.pipeline_id)
        return {"groups": groups}


def _require_pipeline(call: Call, tx: Transaction, pipeline_id: str | None) -> None:
    if pipeline_id is not None:
        unknown_names.require(tx, call.tenant, "pipeline", pipeline_id)


@routes.add(
    "GET",
    "/api/dlq/{id}",
    "Show a dead letter",
    ids=LETTER,
    query=ValuesQuery,
    answer=DeadLetterDetail,
    errors=(NotFound,),
)
def get_dead_letter(call: Call, id: str, query: ValuesQuery) -> dict[str, Any]:
    """One dead letter with its input and item, every attempt with its traceback, and the task's code version
    when it failed and now.
    """
    with call.reading() as tx:
        letter = queries.dead_letter(tx, call.tenant, ids.read(ids.DEAD_LETTER, id), load=query.load)
    return kept.load_values(letter, call.deployment.values)


@routes.add(
    "POST",
    "/api/dlq/{id}/retry",
    "Retry a dead letter",
    scopes=(WRITE,),
    ids=LETTER,
    answer=RetriedAnswer,
    errors=(NotFound, Conflict, UploadNotUsable),
)
def retry(call: Call, id: str) -> dict[str, Any]:
    """Retry with the task's current code and the original input.

    A run of a pipeline continues from the failed step; completed steps are not run again. A standalone task
    gets a new task run.

    Answers 409 when the dead letter was already retried or discarded, when its run was cancelled, or when the
    history of its run was deleted.
    """
    letter_id = ids.read(ids.DEAD_LETTER, id)
    letter = call.read_first(lambda tx: dead_letters.find_open(tx, call.tenant, letter_id))
    inputs = dead_letters.stored_inputs(call.deployment.values, [letter])
    retried = call.change(
        lambda tx: dead_letters.retry(tx, call.tenant, letter_id, inputs, by=call.token_name or None),
        is_one=False,
    )
    task_run = ids.show(ids.TASK_RUN, retried.task_run_id)
    new_run = task_run if retried.is_standalone else ids.show(ids.RUN, retried.run_id)
    return RetriedAnswer.of(retried, new_run_id=new_run, status="queued")


@routes.add(
    "POST",
    "/api/dlq/{id}/discard",
    "Discard a dead letter",
    scopes=(WRITE,),
    ids=LETTER,
    body=DiscardRequest,
    is_body_optional=True,
    answer=DeadLetterDetail,
    errors=(NotFound, Conflict),
    example={"reason": "the customer left"},
)
def discard(call: Call, id: str, body: DiscardRequest) -> dict[str, Any]:
    """Discard a dead letter: it stays readable until it is deleted, and can no longer be retried."""
    letter_id = ids.read(ids.DEAD_LETTER, id)
    call.change(lambda tx: dead_letters.discard(tx, call.tenant, letter_id, body.reason))
    return get_dead_letter(call, id, ValuesQuery(load=False))


# --- many -------------------------------------------------------------------------------------------------


@routes.add(
    "POST",
    "/api/dlq/retry-all",
    "Retry many dead letters",
    scopes=(WRITE,),
    body=RetryAllRequest,
    is_body_optional=True,
    answers={202: (Redrive, "The redrive has started.")},
    links={"dead_letters.get_redrive": "/id"},
    example={"taskId": "send-mail", "errorCode": "SMTP_DOWN", "canary": 3, "perSecond": 10},
)
def retry_all(call: Call, body: RetryAllRequest) -> Answer:
    """Retry every dead letter that is open now and matches all given filters. The tick retries them in
    batches: follow the redrive at `/api/dlq/redrives/{id}`.

    With a `canary` it first retries a few and waits for their ends. It stops by itself when too many fail
    again as before; what it has not retried then stays open.
    """
    redrive_id = call.change(
        lambda tx: redrives.create(tx, call.tenant, body.filter(), body.pace(), by=call.token_name or None)
    )
    with call.reading() as tx:
        return Answer(queries.redrive(tx, call.tenant, redrive_id), 202)


@routes.add("GET", "/api/dlq/redrives", "List the redrives", query=RedrivesQuery, answer=RedriveList)
def list_redrives(call: Call, query: RedrivesQuery) -> dict[str, Any]:
    """Redrives (retries of many dead letters), newest first."""
    with call.reading() as tx:
        return query.named(
            "redrives",
            queries.redrive_list(tx, call.tenant, query.page(), id_prefix=query.id_prefix),
        )


@routes.add(
    "GET", "/api/dlq/redrives/{id}", "Show a redrive", ids=REDRIVE, answer=Redrive, errors=(NotFound,)
)
def get_redrive(call: Call, id: str) -> dict[str, Any]:
    """One redrive with its progress."""
    with call.reading() as tx:
        return queries.redrive(tx, call.tenant, ids.read(ids.REDRIVE, id))


@routes.add(
    "POST",
    "/api/dlq/redrives/{id}/cancel",
    "Cancel a redrive",
    scopes=(WRITE,),
    ids=REDRIVE,
    answer=Redrive,
    errors=(NotFound, Conflict),
)
def cancel_redrive(call: Call, id: str) -> dict[str, Any]:
    """Stop a redrive. What it has retried continues; the other dead letters stay open."""
    redrive_id = ids.read(ids.REDRIVE, id)
    call.change(lambda tx: redrives.cancel(tx, call.tenant, redrive_id))
    return get_redrive(call, id)


@routes.add(
    "POST",
    "/api/dlq/discard",
    "Discard many dead letters",
    scopes=(WRITE,),
    body=DiscardMatchingRequest,
    answer=DiscardedAnswer,
    example={"fingerprint": "0" * 64, "reason": "known, and fixed since"},
)
def discard_matching(call: Call, body: DiscardMatchingRequest) -> dict[str, Any]:
    """Discard the open dead letters that match all given filters, up to 100,000 with one request. At least
    one filter is required.
    """
    chosen = body.filter()
    if chosen.is_empty:
        message = "needs a filter: every open dead letter would be discarded"
        raise InvalidInput(
            message, errors=[FieldError("", message, "required")], hint="set at least one filter, e.g. since"
        )

    def discard_some(tx: Transaction) -> int:
        return dead_letters.discard_matching(tx, call.tenant, chosen, body.reason)

    discarded, more = _in_batches(call, discard_some)
    return DiscardedAnswer.of(discarded=discarded, more=more)


@routes.add(
    "POST",
    "/api/dlq/purge",
    "Delete old dead letters",
    scopes=(WRITE,),
    body=PurgeRequest,
    answer=PurgedAnswer,
    example={"olderThan": "30d"},
)
def purge(call: Call, body: PurgeRequest) -> dict[str, Any]:
    """Delete old dead letters, whether open, retried or discarded, up to 100,000 with one request. This
    cannot be undone.
    """
    age = timedelta(milliseconds=milliseconds(body.older_than) or 0)
    purged, more = _in_batches(call, lambda tx: dead_letters.purge(tx, call.tenant, tx.now - age))
    return PurgedAnswer.of(purged=purged, more=more)


def _in_batches(call: Call, verb: Callable[[Transaction], int]) -> tuple[int, bool]:
    """Run a verb again and again, each time in its own transaction, until it handles less than a batch.

    Returns:
        How many dead letters were handled, and whether there may be more: a request handles MOST_BATCHES.
    """
    count = 0
    for _ in range(MOST_BATCHES):
        number = call.change(verb)
        count += number
        if number < dead_letters.BATCH:
            return count, False
    return count, True
