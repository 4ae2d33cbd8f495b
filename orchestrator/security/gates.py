"""Says which tenants of a token are disabled, or have a rate of requests: with each look at a token.

It is part of the statement that looks at the token, so it costs no other one; nearly always no tenant has a
gate. Who asks keeps the answer as long as the token's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.rates import Rate, parse_rate


def gates_for(tenants: str) -> str:
    """SQL: the gates of these tenants; NULL when there are none.

    Args:
        tenants: SQL: for which a token or a person is valid.
    """
    return f"""(SELECT jsonb_object_agg(n.id, jsonb_build_object(
        'disabledAt', n.disabled_at, 'reason', n.disabled_reason, 'rate', n.request_rate))
    FROM tenants AS n WHERE (n.disabled_at IS NOT NULL OR n.request_rate IS NOT NULL)
        AND ('*' = ANY({tenants}) OR n.id = ANY({tenants})))"""


GATES = gates_for("t.tenants")


@dataclass(frozen=True, slots=True)
class TenantGate:
    """What stands between a tenant's tokens and its requests.

    Args:
        disabled_at: when an operator disabled it; None: it is enabled.
        reason: what the operator said.
        rate: requests in a time; None for any number.
    """

    disabled_at: datetime | None
    reason: str | None
    rate: Rate | None


NO_GATES: Mapping[str, TenantGate] = {}


def gates_of(column: Any) -> Mapping[str, TenantGate]:
    """The gates by tenant, of the column GATES."""
    return {name: _gate(each) for name, each in column.items()} if column else NO_GATES


def _gate(shown: Mapping[str, str | None]) -> TenantGate:
    disabled_at, rate = shown["disabledAt"], shown["rate"]
    return TenantGate(
        None if disabled_at is None else datetime.fromisoformat(disabled_at),
        shown["reason"],
        None if rate is None else parse_rate(rate),
    )
