"""Keeps the fragments that pages ask for again and again, so that all who look at one page cost one reading.

A fragment belongs to a tenant, to what its reader may do and to its address; it holds nothing of a single
reader. `LiveClock` computes the watched ones anew when something may have changed.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from pipeweave.api.http import Caller

# A fragment that was computed less than so many seconds ago is served again.
FRESH_S = 0.5
MOST_KEPT = 256
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class LiveView:
    """What readers with these rights see at this address.

    Args:
        caller: the rights; its name is empty, as the fragment belongs to all who have them.
        url: below the tenant, with the parameters.
        every_s: seconds after which it is computed also without an event; 0: never.
    """

    caller: Caller
    host: str
    url: str
    fragments: Fragments = field(compare=False, repr=False)
    every_s: float = field(default=0, compare=False)

    @property
    def name(self) -> str:
        return self.url

    def compute(self) -> str:
        """Render it, keep it, and return its tag."""
        return self.fragments.compute(self).tag


@dataclass(frozen=True, slots=True)
class Fragment:
    """A rendered fragment."""

    body: bytes
    tag: str
    computed_at: float


class Fragments:
    """The fragments that were computed last.

    Args:
        render: renders a view.
    """

    def __init__(self, render: Callable[[LiveView], bytes]) -> None:
        self._render = render
        self._lock = threading.Lock()
        self._kept: OrderedDict[LiveView, Fragment] = OrderedDict()
        self._computing: dict[LiveView, threading.Lock] = {}

    def get(self, view: LiveView, announced: str | None = None) -> Fragment:
        """The fragment: the kept one if it is fresh, or the announced one; else a new one.

        Args:
            announced: the tag that the reader was told of.
        """
        kept = self._fresh(view, announced)
        if kept is not None:
            return kept
        with self._lock:
            mine = self._computing.setdefault(view, threading.Lock())
        with mine:
            # Who waited here takes what the other has computed.
            return self._fresh(view, announced) or self.compute(view)

    def compute(self, view: LiveView) -> Fragment:
        """Render it now.

        Raises:
            PipeWeaveError: the page is an error.
        """
        body = self._render(view)
        made = Fragment(body, hashlib.sha256(body).hexdigest()[:32], time.monotonic())
        with self._lock:
            self._kept[view] = made
            self._kept.move_to_end(view)
            self._computing.pop(view, None)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def _fresh(self, view: LiveView, announced: str | None) -> Fragment | None:
        with self._lock:
            kept = self._kept.get(view)
        if kept is None or (kept.tag != announced and time.monotonic() - kept.computed_at > FRESH_S):
            return None
        return kept


def shared(caller: Caller) -> Caller:
    """The caller without a name: what all with the same rights in the tenant share."""
    tenants = ("*",) if caller.access.may_enter("*") else (caller.tenant,)
    scopes = tuple(sorted(caller.access.scopes))
    access = replace(caller.access, id=_NOBODY, name="", tenants=tenants, scopes=scopes, is_use_due=False)
    return Caller(access, caller.tenant)
