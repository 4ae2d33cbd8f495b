"""The endpoint that others call to start or signal a run. Their signature stands for a token."""

from __future__ import annotations

from typing import Any

from pipeweave.api.http import Call, PathId, RawBody, Routes, parse_json
from pipeweave.errors import (
    Conflict,
    NotFound,
    PipeWeaveError,
    RunHasEnded,
    SignatureRefused,
    TenantDisabled,
    TooManyRequests,
    TooManySignals,
    Unavailable,
    UploadNotUsable,
)
from pipeweave.orchestrator.documents.triggers import DeliveryAnswer
from pipeweave.orchestrator.starts.triggers import last_fire, webhooks

routes = Routes("webhooks")


@routes.add(
    "POST",
    "/api/webhooks/{tenant}/{id}",
    "Deliver a webhook",
    scopes=(),
    ids={
        "tenant": PathId(None, "The tenant of the trigger."),
        "id": PathId(None, "The trigger's id."),
    },
    takes_bytes=True,
    answer=DeliveryAnswer,
    errors=(
        SignatureRefused,
        NotFound,
        Conflict,
        RunHasEnded,
        TooManyRequests,
        TooManySignals,
        TenantDisabled,
        Unavailable,
        UploadNotUsable,
    ),
    links=dict.fromkeys(("runs.get_run",), "/pipelineRunId"),
)
def deliver(call: Call, tenant: str, id: str, body: RawBody) -> dict[str, Any]:
    """Start a run of the trigger's pipeline, or send a signal to one, as the trigger says. The body is JSON
    of at most 262,144 bytes, signed with the secret of the trigger.

    The same delivery again gets the same run. Whether there is no such trigger or the signature is wrong, the
    answer is the same.
    """
    content = body.content(webhooks.MAX_BODY_BYTES)
    with call.reading() as tx:
        secret_key = call.deployment.settings.secret_key
        delivery = webhooks.authenticate(tx, secret_key, tenant, id, body.headers, content)
    value = parse_json(content)
    try:
        done = call.change(lambda tx: webhooks.receive(tx, call.deployment.values, delivery, value))
    except (Unavailable, SignatureRefused, TooManyRequests):
        raise
    except PipeWeaveError as error:
        refused = error
        call.change(lambda tx: last_fire.record(tx, tenant, id, refused))
        raise
    return DeliveryAnswer.of(
        done,
        trigger_id=id,
        outcome=_outcome(done),
        pipeline_run_id=done.run_id,
    )


def _outcome(done: webhooks.ReceivedDelivery) -> str:
    if done.run_id is None:
        return "ping" if done.is_ping else "filtered"
    return "started" if done.signal_id is None else "signalled"
