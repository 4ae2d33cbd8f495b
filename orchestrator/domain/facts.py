"""Facts: what a transaction announces when it is durable."""

from __future__ import annotations

# A task and one of its keys.
Name = tuple[str, str]
