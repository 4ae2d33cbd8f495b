"""Remembers the outputs of completed steps, so that the dispatch of the next step need not read them.

The output of a completed step does not change, with one exception: after a promotion of PostgreSQL that lost
its end, a step is done again. Then everything is forgotten. Only small outputs without files are kept, and
only so many: what is not known is read.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from uuid import UUID

import orjson

from pipeweave.orchestrator.dispatch.upstream import UpstreamPage, UpstreamStep
from pipeweave.orchestrator.domain.places import Place, Places
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import Completion
from pipeweave.orchestrator.state import files
from pipeweave.orchestrator.store import stored_json

# Outputs that a process remembers, and how large one may be in its row (bytes).
MOST_OUTPUTS = 4_000
MOST_BYTES = 2_048
# A step with more steps before it has them read: their outputs are looked up one by one.
MOST_BEFORE = 100


class KnownOutputs:
    """The outputs that one process remembers. Several threads may use it.

    Args:
        promotions: how many promotions of PostgreSQL this process has noticed.
    """

    def __init__(self, promotions: Callable[[], int]) -> None:
        self._promotions = promotions
        self._as_of = promotions()
        self._steps: OrderedDict[tuple[UUID, str], UpstreamStep] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def promotions(self) -> int:
        """How many promotions are known. What was stored or read before another one is not remembered."""
        return self._promotions()

    def completed(self, run: RunHeader, completion: Completion, as_of: int) -> None:
        """Remember the output of a step that has completed, and is no map.

        Args:
            as_of: the promotions that were known before it was stored.
        """
        kept, step_id = completion.output, completion.task_run.step_id
        if completion.assets or (kept.path is None and kept.size > MOST_BYTES):
            return
        inline = None if kept.inline is None else stored_json.read_back(kept.inline)
        place: Place = (inline, None) if kept.path is None else (None, kept.path)
        self._keep(run, [UpstreamStep(step_id, place, {})], as_of)

    def read(self, run: RunHeader, steps: Sequence[UpstreamStep], as_of: int) -> None:
        """Remember outputs of completed steps that were read.

        Args:
            as_of: the promotions that were known before they were read.
        """
        self._keep(run, [each for each in steps if not each.assets and _is_small(each.place)], as_of)

    def page(self, run: RunHeader, step_id: str) -> UpstreamPage | None:
        """All completed steps before a step, as `upstream.page` gives them; None unless each is known to have
        completed.
        """
        before = files.nearest_first(run, step_id)
        if len(before) > MOST_BEFORE:
            return None
        with self._lock:
            if self._is_outdated():
                return None
            steps = [self._steps.get((run.id, each)) for each in reversed(before)]
        known = [each for each in steps if each is not None]
        return UpstreamPage(known, None) if len(known) == len(steps) else None

    def places(self, run: RunHeader, wanted: Wanted) -> Places | None:
        """Where the outputs are that values refer to; None unless all are known, and nothing else is read."""
        if wanted.outcomes or "loop" in wanted.roots or run.scope is not None:
            return None
        with self._lock:
            if self._is_outdated():
                return None
            steps = {each: self._steps.get((run.id, each)) for each in wanted.outputs}
        known = {name: each.place for name, each in steps.items() if each is not None}
        return known if len(known) == len(steps) else None

    def _keep(self, run: RunHeader, steps: Sequence[UpstreamStep], as_of: int) -> None:
        with self._lock:
            self._is_outdated()
            if as_of != self._as_of:
                return
            for each in steps:
                self._steps[run.id, each.step_id] = each
            while len(self._steps) > MOST_OUTPUTS:
                self._steps.popitem(last=False)

    def _is_outdated(self) -> bool:
        """Forget everything after a promotion. Returns whether there was one."""
        if (now := self._promotions()) == self._as_of:
            return False
        self._as_of = now
        self._steps.clear()
        return True


def _is_small(place: Place | list[Place]) -> bool:
    return isinstance(place, tuple) and len(orjson.dumps(place[0])) <= MOST_BYTES
