"""Shares the streams of a process out, so that whoever comes next finds a place, whatever one client opens.

A token may hold as many as it leaves free, and a tenant three times as many: alone, a token gets half of a
process, and a tenant three quarters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from pipeweave.errors import TooManyStreams

TENANT_TO_FREE = 3
_HINT = "close some, poll, or try again later; the setting STREAM_LIMIT says how many a process serves"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose a stream is.

    Args:
        token: its token, or the one that its session was made with.
        tenant: what it shows is of this tenant.
    """

    token: UUID
    tenant: str


def check(held: Sequence[Holder], wanting: Holder, most: int) -> None:
    """Refuse a stream beyond a share.

    Args:
        held: whose the open streams are.
        wanting: who asks for one more.
        most: how many this process serves.

    Raises:
        TooManyStreams: none is left, or what is left is for others.
    """
    free = most - len(held)
    if free <= 0:
        raise TooManyStreams(f"{len(held)} streams are open, as many as this process serves", hint=_HINT)
    of_token = sum(each.token == wanting.token for each in held)
    if of_token >= free:
        raise _no_share("this token", of_token, most)
    of_tenant = sum(each.tenant == wanting.tenant for each in held)
    if of_tenant >= TENANT_TO_FREE * free:
        raise _no_share(f"the tenant {wanting.tenant!r}", of_tenant, most)


def _no_share(who: str, own: int, most: int) -> TooManyStreams:
    return TooManyStreams(
        f"{who} has {own} of the {most} streams of this process, its share; the others are for others",
        hint=_HINT,
    )
