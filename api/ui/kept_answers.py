"""Keeps what endpoints of statistics answered, for some seconds, for all who may ask them the same.

Statistics are counted every few seconds, however much happens, while the fragments of an open page are
computed with each announcement: without this, each of them would read the same figures again.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from pipeweave.api.http import Caller, Inside, RecordedCall
from pipeweave.api.http.inside import Query
from pipeweave.api.ui.live_views import shared

# An answer is this old at most (s).
KEPT_S = 10.0
MOST_KEPT = 512

# Whose rights it takes, the operation, the parameters, and the parts of the path.
_Key = tuple[Caller, str, tuple[tuple[str, object], ...], tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class _KeptAnswer:
    answer: Any
    asked: RecordedCall
    at: float


class KeptAnswers:
    """The answers that were asked for last. Of those who ask the same at the same time, one asks."""

    def __init__(self, inside: Inside) -> None:
        self._inside = inside
        self._lock = threading.Lock()
        self._kept: OrderedDict[_Key, _KeptAnswer] = OrderedDict()
        self._asking: dict[_Key, threading.Lock] = {}

    def ask(
        self, caller: Caller, operation: str, query: Query, ids: dict[str, str]
    ) -> tuple[Any, RecordedCall]:
        """What `Inside.ask` answers, or did so within the last KEPT_S seconds. It must not be changed.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        pairs = tuple(
            (name, each if isinstance(each, str) or each is None else tuple(each))
            for name, each in query.items()
        )
        key = (shared(caller), operation, pairs, tuple(ids.items()))
        entry = self._fresh(key)
        if entry is None:
            with self._lock:
                mine = self._asking.setdefault(key, threading.Lock())
            with mine:
                # Who waited here takes what the other was answered.
                entry = self._fresh(key) or self._ask(key, caller, query)
        return entry.answer, entry.asked

    def _ask(self, key: _Key, caller: Caller, query: Query) -> _KeptAnswer:
        _, operation, _, ids = key
        try:
            answer, asked = self._inside.ask(caller, operation, dict(ids), query)
        finally:
            with self._lock:
                self._asking.pop(key, None)
        made = _KeptAnswer(answer, asked, time.monotonic())
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def _fresh(self, key: _Key) -> _KeptAnswer | None:
        with self._lock:
            kept = self._kept.get(key)
        return kept if kept is not None and time.monotonic() - kept.at < KEPT_S else None
