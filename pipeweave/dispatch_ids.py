"""Make and check dispatch ids: the signed id of one attempt, which an HTTP worker knows as its `runId`.

`<task run id>.<attempt>.<mac>`: a worker repeats it in each report and in the paths of what it stores. So a
late report names the earlier attempt that it is about, and nobody can report for an attempt that was not
dispatched to them. It consists of characters that are safe in a path.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from uuid import UUID

from pipeweave import ids
from pipeweave.signed_attempts import ATTEMPT, SIGNATURE, is_signed, sign, signatures

_PURPOSE = b"pipeweave run ids"
_FORM = re.compile(rf"{ATTEMPT}\.{SIGNATURE}\Z")


@dataclass(frozen=True, slots=True)
class DispatchedAttempt:
    """The attempt that a dispatch id names."""

    task_run_id: UUID
    attempt: int


def make(secret: str, task_run_id: UUID, attempt: int) -> str:
    """The dispatch id of an attempt.

    Args:
        secret: the deployment's PIPEWEAVE_SECRET_KEY.
        attempt: from 1.
    """
    named = f"{ids.show(ids.TASK_RUN, task_run_id)}.{attempt}"
    return f"{named}.{sign(secret, _PURPOSE, named)}"


def every(secret: str, task_run_id: UUID, attempt: int) -> tuple[str, ...]:
    """The dispatch ids that an attempt may have: by the key in use, and by earlier ones."""
    named = f"{ids.show(ids.TASK_RUN, task_run_id)}.{attempt}"
    return tuple(f"{named}.{each}" for each in signatures(secret, _PURPOSE, named))


def read(secret: str, dispatch_id: str) -> DispatchedAttempt | None:
    """The attempt that a dispatch id names; None when it was not made with this secret."""
    match = _FORM.match(dispatch_id)
    return None if match is None else _checked(secret, *match.groups())


# A report is checked before its body is read, and again when it is stored.
@functools.lru_cache(1_000)
def _checked(secret: str, task_run: str, attempt: str, mac: str) -> DispatchedAttempt | None:
    if not is_signed(secret, _PURPOSE, f"{task_run}.{attempt}", mac):
        return None
    return DispatchedAttempt(ids.read(ids.TASK_RUN, task_run), int(attempt))
