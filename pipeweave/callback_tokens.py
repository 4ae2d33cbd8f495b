"""Make and check callback tokens: the signed end of the URL by which the result of a suspended call comes.

`<task run id>.<attempt>.<expiry>.<mac>`: the signature is over all three, so nobody can turn the token of one
attempt into that of another, or let it live longer. Whose run it is, is read from the row, not from the
token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from pipeweave import ids
from pipeweave.signed_attempts import ATTEMPT, SIGNATURE, is_signed, sign

# Where callbacks are sent, below the URL of the API.
PATH = "/api/callbacks/"
_PURPOSE = b"pipeweave callbacks"
_FORM = re.compile(rf"{ATTEMPT}\.(?P<expiry>[1-9][0-9]{{0,10}})\.{SIGNATURE}\Z")


@dataclass(frozen=True, slots=True)
class Callback:
    """What a token names: an attempt, and when the token expires."""

    task_run_id: UUID
    attempt: int
    expires_at: datetime


def make(secret: str, task_run_id: UUID, attempt: int, expires_at: datetime) -> str:
    """The token of an attempt.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY.
        attempt: from 1.
        expires_at: aware; the token has whole seconds.
    """
    named = f"{ids.show(ids.TASK_RUN, task_run_id)}.{attempt}.{int(expires_at.timestamp())}"
    return f"{named}.{sign(secret, _PURPOSE, named)}"


def read(secret: str, token: str) -> Callback | None:
    """What a token names; None when it was not made with this secret."""
    match = _FORM.match(token)
    if match is None:
        return None
    named = f"{match['task_run']}.{match['attempt']}.{match['expiry']}"
    if not is_signed(secret, _PURPOSE, named, match["mac"]):
        return None
    expires_at = datetime.fromtimestamp(int(match["expiry"]), UTC)
    return Callback(ids.read(ids.TASK_RUN, match["task_run"]), int(match["attempt"]), expires_at)
