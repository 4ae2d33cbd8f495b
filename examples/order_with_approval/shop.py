"""The tasks of a shop; process-order.yaml says in which order they run."""

from __future__ import annotations

from typing import Any

from pipeweave import Context, TaskError, task


@task
def reserve_stock(order: dict[str, Any]) -> dict[str, Any]:
    """Reserve what was ordered."""
    return {"reservation": f"r-{order['id']}"}


@task
def release_stock(reservation: str) -> str:
    """Give back what was reserved."""
    return f"{reservation} is free again"


# Should a worker die after the bank has answered, the next attempt must not charge a second time.
@task(idempotency_key=lambda input: f"charge-{input['order']['id']}")
def charge_order(ctx: Context, order: dict[str, Any]) -> dict[str, Any]:
    """Charge the customer's card. A bank that is away is asked again, a card that is refused is not."""
    if order.get("card") == "stolen":
        raise TaskError("the card was refused", code="CARD_REFUSED", retryable=False)
    if order.get("card") == "slow" and ctx.attempt == 1:
        raise TaskError("the bank does not answer", code="BANK_AWAY")
    return {"receipt": f"c-{order['id']}", "amount": order["total"]}


@task
def send_parcel(order: dict[str, Any], reservation: str) -> dict[str, Any]:
    """Hand the parcel over."""
    return {"parcel": f"p-{order['id']}", "of": reservation}


@task
def refund_order(receipt: str, amount: float) -> dict[str, Any]:
    """Give the money back."""
    return {"refunded": amount, "of": receipt}


@task
def tell_customer(order: dict[str, Any], text: str) -> str:
    """Write to the customer."""
    return f"order {order['id']}: {text}"
