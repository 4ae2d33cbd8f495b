"""Sends requests to addresses that others name: resolves them, checks them, and bounds the exchange.

Dispatches, hooks, polls and the built-in adapters call it. It imports the base modules. It must never send
anything to an address that it was not allowed to reach, follow a redirect, or log an address or a header.
"""

from __future__ import annotations

from pipeweave.sending.sender import NoReply, Reply, Sender
from pipeweave.sending.targets import Networks, Target, path_of

__all__ = ["Networks", "NoReply", "Reply", "Sender", "Target", "path_of"]
