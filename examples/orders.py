"""Routing, and two graphs of the same tasks: `allowed_next` gives `check_order`, orders.yaml is `order`."""

from __future__ import annotations

from typing import Any

from pipeweave import Context, TaskError, TaskResult, task


@task(allowed_next=["charge_card", "ask_a_person"])
def check_order(amount: float = 0) -> TaskResult:
    """Charge small orders directly; send large orders to a person."""
    if amount <= 0:
        raise TaskError(f"an order of {amount} cannot be charged", code="BAD_AMOUNT", retryable=False)
    chosen = "charge_card" if amount < 1000 else "ask_a_person"
    return TaskResult({"amount": amount}, run_next=[chosen])


@task(allowed_next=["send_receipt"], concurrency=5)
def charge_card(ctx: Context) -> dict[str, Any]:
    """Charge the card of a checked order; at most five at once over all workers."""
    ctx.log.info("charging")
    return {"charged": ctx.upstream["check_order"]["amount"]}


@task(allowed_next=["send_receipt"])
def ask_a_person(ctx: Context) -> dict[str, Any]:
    """Stand in for someone who says yes."""
    return {"approved": True, "amount": ctx.upstream["check_order"]["amount"]}


@task
def send_receipt(ctx: Context) -> str:
    """Return the path that the order took."""
    return "charged" if "charge_card" in ctx.upstream else "approved"


@task
def record(what: str) -> str:
    """Return the given text; the steps of orders.yaml run this task."""
    return what
