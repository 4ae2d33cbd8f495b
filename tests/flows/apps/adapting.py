"""An adapter of a user's own."""

from __future__ import annotations

import os

from notes import noted

from pipeweave import Context, action, adapter


@adapter("payments")
class Payments:
    """Says how many calls its object has taken, and in which process."""

    def __init__(self) -> None:
        self.taken = 0

    @action(retries=0)
    def charge(self, ctx: Context, amount: float) -> dict[str, float]:
        with noted(ctx):
            self.taken += 1
            return {"amount": amount, "taken": self.taken, "pid": os.getpid()}

    @action(retries=0)
    async def refund(self, amount: float) -> float:
        return -amount
