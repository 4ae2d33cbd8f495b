"""A task that writes to the log in every way that a task has."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings

from pipeweave import Context, task

log = logging.getLogger("shop.orders")


@task(retries=1, retry_delay_ms=10, retry_backoff="fixed", retry_jitter=0)
def talk(order: int, ctx: Context) -> None:
    log.info("charging %d", order, extra={"amount": 5, "level": "gold", "cards": {"4242", "1"}})
    ctx.log.info("through the context", extra={"amount": 6, "name": "N"})
    print("printed", order)
    captured = subprocess.run([sys.executable, "-c", "print('captured')"], capture_output=True, text=True)
    print(captured.stdout, end="")
    print("without an end", end="")
    print("complaint", file=sys.stderr)
    warnings.warn("the card is old", stacklevel=1)
    subprocess.run([sys.executable, "-c", "print('from another program')"], stdout=sys.stdout, check=True)
    try:
        raise KeyError("card")
    except KeyError:
        logging.getLogger("vendor.cards").exception("caught")
    raise ValueError(f"order {order} cannot be charged")
