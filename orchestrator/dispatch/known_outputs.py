"""Remembers the outputs of completed steps, so that the dispatch of the next step need not read them.

The output of a completed step does not change, with one exception: after a promotion of PostgreSQL that lost
its end, a step is done again. Then everything is forgotten. Only small outputs without files are kept, and
only so many: what is not known is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from pipeweave.orchestrator.dispatch.upstream import UpstreamPage, UpstreamStep
from pipeweave.orchestrator.domain.places import Place, Places
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.state import files
from pipeweave.orchestrator.store import stored_json
from pipeweave.orchestrator.store.cache import Cache, CacheSpec
from pipeweave.orchestrator.store.database import Database

# By run, as a number, and step; how large one may be in its row (bytes).
OUTPUTS = CacheSpec[tuple[int, str], UpstreamStep]("outputs of steps before a dispatch", 8_000)
MOST_BYTES = 2_048
# A step with more steps before it has them read: their outputs are looked up one by one.
MOST_BEFORE = 100

Remembered = Cache[tuple[int, str], UpstreamStep]


class KnownOutputs:
    """The outputs that one process remembers. Several threads may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def now(self) -> Remembered:
        """What is remembered until the next promotion. Who stores or reads an output asks for it before that:
        what is put in after a promotion, nobody sees.
        """
        return self._database.caches.of(OUTPUTS)

    def page(self, run: RunHeader, step_id: str) -> UpstreamPage | None:
        """All completed steps before a step, as `upstream.page` gives them; None unless each is known to have
        completed.
        """
        before = files.nearest_first(run, step_id)
        if len(before) > MOST_BEFORE:
            return None
        number = run.id.int
        steps = self.now.of_each([(number, each) for each in reversed(before)])
        known = [each for each in steps if each is not None]
        return UpstreamPage(known, None) if len(known) == len(steps) else None

    def places(self, run: RunHeader, wanted: Wanted) -> Places | None:
        """Where the outputs are that values refer to; None unless all are known, and nothing else is read."""
        if wanted.outcomes or "loop" in wanted.roots or run.scope is not None:
            return None
        remembered = self.now
        steps = {each: remembered.get((run.id.int, each)) for each in wanted.outputs}
        known = {name: each.place for name, each in steps.items() if each is not None}
        return known if len(known) == len(steps) else None


def remember_completed(remembered: Remembered, run: RunHeader, completion: Completion) -> None:
    """Remember the output of a step that has completed, and is no map."""
    kept, step_id = completion.output, completion.task_run.step_id
    if completion.assets or (kept.path is None and kept.size > MOST_BYTES):
        return
    inline = None if kept.inline is None else stored_json.read_back(kept.inline)
    place: Place = (inline, None) if kept.path is None else (None, kept.path)
    remembered.put((run.id.int, step_id), UpstreamStep(step_id, place, {}))


def remember_read(remembered: Remembered, run: RunHeader, steps: Sequence[UpstreamStep]) -> None:
    """Remember outputs of completed steps that were read."""
    for each in steps:
        if not each.assets and _is_small(each.place):
            remembered.put((run.id.int, each.step_id), each)


def _is_small(place: Place | list[Place]) -> bool:
    return isinstance(place, tuple) and len(orjson.dumps(place[0])) <= MOST_BYTES
