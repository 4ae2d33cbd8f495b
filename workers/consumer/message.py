"""A message under way, as the thread that works it off and the thread beside it share it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeweave.orchestrator.domain.call_outcome import CallOutcome, task_run_of
from pipeweave.orchestrator.domain.outbox import UNCOUNTED
from pipeweave.orchestrator.domain.plan import END
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import Awaits, Completion, TaskRun
from pipeweave.orchestrator.engine.hand_over import Unstarted

# Of what a message would go on with, priorities are compared of so many.
MOST_LOOKED_AT = 16

# A message holds its worker for about this long; then what is left goes to whoever is free.
MESSAGE_S = 1.0


@dataclass(slots=True)
class Work:
    """Task runs to claim, those claimed and not begun, what calls gave, and how the end is counted."""

    run: RunHeader
    attempt: int = 1
    left: deque[int] = field(default_factory=deque)
    part: int = UNCOUNTED
    joins: tuple[int, ...] = ()
    claimed: deque[TaskRun] = field(default_factory=deque)
    outcomes: list[CallOutcome] = field(default_factory=list)
    is_calling: bool = False
    # Something of it may have been stored though PostgreSQL did not answer.
    is_in_doubt: bool = False
    began: float = field(default_factory=time.monotonic)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_long(self) -> bool:
        return time.monotonic() - self.began > MESSAGE_S

    def doubt(self) -> None:
        """PostgreSQL did not answer."""
        self.is_in_doubt = True

    def next(self) -> TaskRun | None:
        """The task run to call next; from now on it is begun."""
        with self.lock:
            self.is_calling = bool(self.claimed)
            return self.claimed.popleft() if self.claimed else None

    def note(self, outcome: CallOutcome) -> None:
        """How a call ended; it waits to be stored."""
        with self.lock:
            self.is_calling = False
            self.outcomes.append(outcome)

    def next_ones(self, outcomes: Sequence[CallOutcome]) -> list[int]:
        """What this process would go on with, now that these calls ended: ordinals, a few are enough."""
        plan = self.run.plan
        found = [each.ordinal for each in self.claimed] + list(self.left)
        for each in outcomes:
            task_run = task_run_of(each)
            if task_run.map_parent is None:
                found += plan.successors(task_run.ordinal)
        return [each for each in found[:MOST_LOOKED_AT] if each != END]

    def waits_for_its_own(self, task_run: TaskRun, outcome: CallOutcome) -> bool:
        """Whether what a task run waits for is a result that is only to be stored: then it is begun again
        after that, and this outcome does not count.
        """
        if not isinstance(outcome, Awaits):
            return False
        with self.lock:
            done = (each.task_run.id for each in self.outcomes if isinstance(each, Completion))
            if outcome.holder not in done:
                return False
            self.is_calling = False
            self.claimed.appendleft(task_run)
            return True

    def ended(self) -> list[CallOutcome]:
        """What waits to be stored: it is the taker's now."""
        with self.lock:
            return self._ended()

    def take(self) -> Unstarted:
        """Everything that is not begun: it is the taker's now."""
        with self.lock:
            return self._rest()

    def take_beside(self) -> tuple[list[CallOutcome], Unstarted] | None:
        """Both, for another thread: only while a call is under way is it not this thread's to change."""
        with self.lock:
            return (self._ended(), self._rest()) if self.is_calling else None

    def _ended(self) -> list[CallOutcome]:
        outcomes, self.outcomes = self.outcomes, []
        return outcomes

    def _rest(self) -> Unstarted:
        rest = Unstarted(list(self.claimed), list(self.left), self.attempt)
        self.claimed.clear()
        self.left.clear()
        return rest
