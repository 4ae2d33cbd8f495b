"""The endpoint by which other systems report the results of suspended calls.

The token of the path is signed and names one attempt, so it needs no access token, and gives no way to
anything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave import async_reports
from pipeweave.api.contract.callbacks import CallbackTaken as Taken
from pipeweave.api.http import Answer, Call, PathId, RawBody, Routes, parse_json
from pipeweave.errors import (
    CallbackExpired,
    CallbackTaken,
    NotFound,
    PayloadTooLarge,
    RunHasEnded,
    TooManySignals,
    Unavailable,
    WaitOver,
)
from pipeweave.orchestrator.deployment import Deployment
from pipeweave.orchestrator.waits import callback_urls, callbacks

routes = Routes("callbacks")


def _is_ours(deployment: Deployment, ids: Mapping[str, str]) -> None:
    """Check that this deployment made the token, before the report is read."""
    callback_urls.read(deployment.settings, ids["token"])


@routes.add(
    "POST",
    "/api/callbacks/{token}",
    "Report the result of a suspended call",
    scopes=(),
    ids={"token": PathId(None, "The end of the callback URL, unchanged.")},
    vouches=_is_ours,
    takes_bytes=True,
    answers={202: (Taken, "The report is stored."), 200: (Taken, "The same report had come before.")},
    errors=(
        NotFound,
        CallbackTaken,
        CallbackExpired,
        WaitOver,
        RunHasEnded,
        PayloadTooLarge,
        TooManySignals,
        Unavailable,
    ),
)
def report(call: Call, token: str, body: RawBody) -> Answer:
    """Store the result of a call that has suspended itself; its step goes on with it. The body is JSON of at
    most 1,000,000 bytes: `{"status": "completed", "result": …}`, `{"status": "failed", "error": …}`, or any
    other value, which is the result.

    Each URL takes one report, while its attempt runs or waits. The same report again answers 200.
    """
    named = callback_urls.read(call.deployment.settings, token)
    content = body.content(callbacks.MAX_BODY_BYTES)
    value = parse_json(content) if content.strip() else None
    # A large report goes to storage before the transaction.
    kept = call.deployment.values.keep(async_reports.of_callback(value))
    is_new = call.change(lambda tx: callbacks.receive(tx, named, kept))
    return Answer({"isRepeated": not is_new}, 202 if is_new else 200)
