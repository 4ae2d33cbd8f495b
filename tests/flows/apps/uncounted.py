"""A worker whose children believe that one of their results was not counted, as it happens when a message and
a TERM meet.
"""

from __future__ import annotations

from typing import Any

from billiard.pool import Worker

from pipeweave import task

_wait: Any = Worker._ensure_messages_consumed


def _wait_for_one_more(self: Any, completed: int) -> bool:
    return bool(_wait(self, completed + 1))


Worker._ensure_messages_consumed = _wait_for_one_more


@task
def noop() -> None:
    """Do nothing."""
