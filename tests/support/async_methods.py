"""Write pipeweave/client/async_methods.py, the methods of the client for asyncio: `make client`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeweave.client import Client, DeadLetters
from support.pages import ROOT

FILE = ROOT / "pipeweave/client/async_methods.py"
# Client's class -> the class for asyncio, what it is, and the methods that are written by hand or left out: a
# wait for a redrive takes minutes, and would hold a thread.
CLASSES = {
    Client: (
        "AsyncMethods",
        "Those of `Client` but for `close`, `wait` and `watch`.",
        {"close", "wait", "watch"},
    ),
    DeadLetters: ("AsyncDeadLetters", "`DeadLetters` for asyncio.", {"wait"}),
}
HEAD = '''"""The methods of the client for asyncio. `make client` writes this file."""

from __future__ import annotations

from pipeweave.client.client import Client
from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.threads import InThreads, awaited, iterated
'''


def text() -> str:
    """The whole file."""
    return HEAD + "".join(
        f'\n\nclass {name}(InThreads):\n    """{summary}"""\n\n' + "".join(_lines(kind, without))
        for kind, (name, summary, without) in CLASSES.items()
    )


def _lines(kind: type, without: Collection[str]) -> Iterator[str]:
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        if not name.startswith("_") and name not in without:
            made = "iterated" if method.__annotations__["return"].startswith("Iterator[") else "awaited"
            yield f"    {name} = {made}({kind.__name__}.{name})\n"


if __name__ == "__main__":
    FILE.write_text(text())
