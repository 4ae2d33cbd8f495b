"""Charge the orders of a day: fetch them over HTTP, let large ones be reviewed, charge each, report.

If an order cannot be charged, the run fails. Once the cause is mended, `pipeweave dlq retry latest` continues
the run with that order; the others are not charged again.
"""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from datetime import date
from decimal import Decimal
from typing import Any

from pydantic import BaseModel

from pipeweave import Context, Retry, TaskError, TaskResult, pipeline, task

SHOP_URL = os.environ.get("SHOP_URL", "http://127.0.0.1:8099")


class Order(BaseModel):
    """An order of the shop."""

    id: str
    amount: Decimal
    card: str


class Charge(BaseModel):
    """A charge that the bank has accepted."""

    order: str
    amount: Decimal


def ask_shop(path: str, body: dict[str, Any] | None = None) -> Any:
    """Ask the shop, and turn its refusals into errors with a code: 5xx are retried, 4xx are not."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(SHOP_URL + path, data), timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            said = json.load(error)["error"]
        code, is_temporary = f"HTTP_{error.code}", error.code >= 500
        raise TaskError(said, code=code, retryable=is_temporary, details={"path": path}) from error


@task
def fetch_orders(day: date) -> list[Order]:
    """Read the orders of a day."""
    return [Order(**each) for each in ask_shop(f"/orders?day={day}")]


@task
def choose(orders: list[Order], limit: Decimal) -> TaskResult:
    """Let a person look at the orders only if one is large."""
    has_large = any(each.amount > limit for each in orders)
    return TaskResult(None, run_next=["review"] if has_large else [])


@task
def review(orders: list[Order], limit: Decimal) -> list[str]:
    """Name the large orders."""
    return [each.id for each in orders if each.amount > limit]


@task(
    timeout="30s",
    concurrency=4,
    retry=Retry(attempts=5, delay_ms=200, jitter=0.2),
    idempotency_key=lambda input: f"charge-{input['order']['id']}",
)
def charge(ctx: Context, order: Order) -> Charge:
    """Charge one order, at most four at once over all workers."""
    ctx.log.info("asking the bank")
    ask_shop(f"/orders/{order.id}/charge", {"card": order.card, "amount": str(order.amount)})
    return Charge(order=order.id, amount=order.amount)


@task
def report_charges(day: date, charges: list[Charge], reviewed: list[str] | None) -> dict[str, Any]:
    """Add the charges up."""
    total = sum(each.amount for each in charges)
    return {"day": day, "charged": len(charges), "total": total, "reviewed": reviewed or []}


@pipeline
def charge_orders(day: date, limit: float = 1000):
    """Charge the orders of a day."""
    orders = fetch_orders(day)
    chosen = choose(orders, limit)
    reviewed = review.options(needs=[chosen])(orders, limit)
    return report_charges(day, charge.map(orders), reviewed)
