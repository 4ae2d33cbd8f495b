"""The measured DAGs as Celery canvases. `key` names the list that a tuned canvas's last step writes to."""

from __future__ import annotations

from typing import Any

from celery import Celery, chain, chord, group


class Canvases:
    """Canvases of one app.

    Args:
        app: whose tasks they are made of.
        is_tuned: end in a step that tells the client, whose results are ignored.
    """

    def __init__(self, app: Celery, *, is_tuned: bool) -> None:
        self.app = app
        self._is_tuned = is_tuned

    def single(self, key: str) -> Any:
        """One step."""
        return self._last("noop", key)

    def chain(self, length: int, key: str) -> Any:
        """One step after the other."""
        return chain(*(self._noop() for _ in range(length - 1)), self._last("noop", key))

    def fan(self, width: int, key: str) -> Any:
        """1 → width → 1."""
        return chain(self._noop(), group(self._noop() for _ in range(width)), self._last("noop", key))

    def mapped(self, count: int, key: str) -> Any:
        """A chord over a list; its body takes every result. The client knows the list, which is less work
        than finding it at run time.
        """
        same = self.app.tasks["same"]
        if self._is_tuned:
            return chord((same.s(n) for n in range(count)), self.app.tasks["done"].s(key=key))
        return chord((same.s(n) for n in range(count)), self.app.tasks["collect"].s())

    def _noop(self) -> Any:
        return self.app.tasks["noop"].si()

    def _last(self, task: str, key: str) -> Any:
        return self.app.tasks["done"].si(key=key) if self._is_tuned else self.app.tasks[task].si()
