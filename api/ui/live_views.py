"""Keeps the fragments that pages ask for again and again, so that all who look at one page cost one reading.

A fragment belongs to a tenant, to what its reader may do and to its address; it holds nothing of a single
reader, but for pages that say what a person may decide. `LiveClock` computes the watched ones anew when
something may have changed.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from uuid import UUID

from pipeweave.api.http import Caller, packing
from pipeweave.orchestrator.security import CallerAccess
from pipeweave.orchestrator.stream import ViewPace

FRAGMENT = "X-PipeWeave-Fragment"
# The tag of the fragment that the page was told of.
ANNOUNCED = "X-PipeWeave-Announced"
# When what the page shows was read, and in the answer when the fragment was (s since 1970).
READ_AT = "X-PipeWeave-Read-At"

MOST_KEPT = 256
# A fragment is kept until its view has had this number of newer tags, for pages that ask for it late.
TAGS_BEHIND = 8
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class LiveView:
    """What readers with these rights see at this address.

    Args:
        caller: the rights; its name is empty, as the fragment belongs to all who have them. A page that
            `is_personal` has the name, too.
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

    @property
    def rest_s(self) -> float:
        return self.fragments.pace.rest_s(self)

    def compute(self) -> str:
        """Render it, keep it, and return its tag."""
        return self.fragments.compute(self).tag


@dataclass(slots=True)
class Fragment:
    """A rendered fragment.

    Args:
        tags: its tag, and those of the fragments before it, the newest first.
        began_at: when it was last begun to render (monotonic s): what was committed before is in it.
        read_at: the same moment by the clock of this machine (s since 1970), for comparison with pages that
            other processes have rendered.
    """

    body: bytes
    tags: tuple[str, ...]
    began_at: float
    read_at: float
    _packed: bytes | None = None

    @property
    def tag(self) -> str:
        return self.tags[0]

    @property
    def packed(self) -> bytes:
        """The body for a browser that unpacks it; packed once for all of them."""
        if self._packed is None:
            self._packed = gzip.compress(self.body, packing.LEVEL, mtime=0)
        return self._packed


class Fragments:
    """The fragments that were computed last.

    Args:
        render: renders a view.
    """

    def __init__(self, render: Callable[[LiveView], bytes]) -> None:
        self.pace = ViewPace()
        self._render = render
        self._lock = threading.Lock()
        self._kept: OrderedDict[LiveView, Fragment] = OrderedDict()
        self._computing: dict[LiveView, threading.Lock] = {}

    def get(self, view: LiveView, announced: str | None = None, since: float = 0.0) -> Fragment:
        """The fragment: the kept one if it is fresh, or not older than the announced one; else a new one.

        Args:
            announced: the tag that the reader was told of.
            since: `read_at` of what the reader sees: nothing older is answered, so that no page goes back in
                time.
        """
        kept = self.kept(view, announced, since)
        if kept is not None:
            return kept
        with self._lock:
            mine = self._computing.setdefault(view, threading.Lock())
        with mine:
            # Who waited here takes what the other has computed.
            return self.kept(view, announced, since) or self.compute(view)

    def compute(self, view: LiveView) -> Fragment:
        """Render it now.

        Raises:
            PipeWeaveError: the page is an error.
        """
        began, read_at = time.monotonic(), moment()
        try:
            body = self._render(view)
        finally:
            with self._lock:
                self._computing.pop(view, None)
        self.pace.record(view, time.monotonic() - began)
        tag = hashlib.sha256(body).hexdigest()[:32]
        with self._lock:
            kept = self._kept.get(view)
            if kept is not None and kept.began_at > began:
                # Somebody began later and was faster.
                made = kept
            elif kept is not None and kept.tag == tag:
                # What was packed stays.
                kept.began_at, kept.read_at, made = began, read_at, kept
            else:
                before = kept.tags[:TAGS_BEHIND] if kept is not None else ()
                made = self._kept[view] = Fragment(body, (tag, *before), began, read_at)
            self._kept.move_to_end(view)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def forget(self) -> None:
        """Keep nothing: a person has just changed something, and expects to see it."""
        with self._lock:
            self._kept.clear()

    def kept(self, view: LiveView, announced: str | None, since: float) -> Fragment | None:
        """What `get` answers without rendering; None: it would have to render."""
        with self._lock:
            kept = self._kept.get(view)
        if kept is None or kept.read_at < since:
            return None
        if announced in kept.tags:
            return kept
        # Half of the rest: who asks without having been told sees nothing that is older.
        is_fresh = time.monotonic() - kept.began_at <= self.pace.rest_s(view) / 2
        return kept if is_fresh else None


def moment() -> float:
    """Now, by the clock of this machine (s since 1970): only for comparison with other such moments. A wrong
    clock makes a page fetch what it has, once. Rounded as the header says it: else a page that names the
    moment of what it has would seem to ask for something newer.
    """
    return round(time.time(), 6)


def seconds_of(text: str | None) -> float:
    """The moment that a header says; 0: it says none."""
    try:
        seconds = float(text or 0.0)
    except ValueError:
        return 0.0
    return seconds if isfinite(seconds) else 0.0


def shared(caller: Caller, *, is_personal: bool = False) -> Caller:
    """The caller without a name: what all with the same rights in the tenant share.

    Args:
        is_personal: with its name, because the page says what this person may decide.
    """
    tenants = ("*",) if caller.access.may_enter("*") else (caller.tenant,)
    scopes = tuple(sorted(caller.access.scopes))
    name = caller.access.name if is_personal else ""
    access = CallerAccess(_NOBODY, name, tenants, scopes, groups=caller.access.groups)
    return Caller(access, caller.tenant)
