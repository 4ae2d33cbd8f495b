"""What a page watches, and where announcements for it go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

import orjson

from pipeweave import ids
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.stream.shares import Holder


class LiveSink(Protocol):
    """Where the announcements for one watcher go. Its methods return at once."""

    def begin(self, cursor: str) -> None:
        """The watcher is served from now on."""

    def change(self, cursor: str | None, content: bytes) -> None:
        """An announcement as JSON."""

    def ping(self) -> None:
        """Nothing new."""

    def end(self, error: PipeWeaveError | None) -> None:
        """Nothing follows. None: this process stops."""

    @property
    def check(self) -> Callable[[], object]:
        """Raises an error when the watcher has lost the right to watch. Equal ones are one right."""

    @property
    def holder(self) -> Holder:
        """The holder that the stream counts for."""

    @property
    def is_open(self) -> bool:
        """Whether the watcher is still there."""


class TaggedView(Protocol):
    """Something that is computed, and whose content has a tag that changes with it. Equal views are one."""

    @property
    def name(self) -> str:
        """As the watcher calls it."""

    @property
    def every_s(self) -> float:
        """Seconds after which it is computed also without an event; 0: never."""

    @property
    def rest_s(self) -> float:
        """Seconds from the beginning of one computing to that of the next, at least."""

    def compute(self) -> str:
        """Compute it, keep it for whoever asks, and return its tag."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class LiveWanted:
    """What one watcher looks at. The runs are its tenant's: somebody has checked that."""

    runs: tuple[UUID, ...] = ()
    views: tuple[TaggedView, ...] = ()


@dataclass(slots=True, eq=False)
class WatchedView:
    """A view that somebody watches.

    Attributes:
        tag: of what was computed last; None: nothing yet.
        due_at: it rests until then, if it is not computed early (monotonic s).
        by_time_at: when it is computed even if nothing has happened.
        clock: the clock when it was computed.
        began_at: when that began (monotonic s).
        is_urgent: it rests no longer than it must.
    """

    view: TaggedView
    tag: str | None = None
    due_at: float = 0.0
    by_time_at: float = 0.0
    clock: int = -1
    began_at: float = 0.0
    is_urgent: bool = False


@dataclass(slots=True, eq=False)
class Watcher:
    """One page that watches.

    Attributes:
        last_sent: what it was told last, of each run and each name of a view.
        told_at: when it was told of `runs` and of `views` (monotonic s).
    """

    runs: tuple[UUID, ...]
    views: tuple[WatchedView, ...]
    sink: LiveSink
    last_sent: dict[UUID | str, object] = field(default_factory=dict)
    told_at: dict[str, float] = field(default_factory=dict)
    ping_at: float = 0.0

    def hurry(self) -> None:
        """Have its views computed soon, however long they would rest."""
        for each in self.views:
            each.is_urgent = True

    def news_of_runs(self, newest: Mapping[UUID, object]) -> dict[UUID | str, object]:
        """What it has not been told of the runs that it watches."""
        return {
            run: newest[run]
            for run in self.runs
            if run in newest and self.last_sent.get(run, self) != newest[run]
        }

    def news_of_views(self) -> dict[UUID | str, object]:
        """What it has not been told of the views that it watches."""
        named = ((each.view.name, each.tag) for each in self.views)
        return {name: tag for name, tag in named if tag is not None and self.last_sent.get(name) != tag}

    def tell(self, kind: str, news: Mapping[UUID | str, object], now: float) -> None:
        """Announce it."""
        self.last_sent.update(news)
        self.told_at[kind] = now
        self.sink.change(None, announcement(kind, news))


def announcement(kind: str, news: Mapping[Any, object]) -> bytes:
    """The JSON that says what to look at again: `{"runs": {id: number}}` or `{"views": {name: tag}}`."""
    named = {ids.show(ids.RUN, key) if isinstance(key, UUID) else key: value for key, value in news.items()}
    return orjson.dumps({kind: named})
