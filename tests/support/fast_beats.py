"""Ticks of schedules in processes that are killed, while their clock runs fast.

`python -m support.fast_beats` forks two processes. Each does the chore of schedules again and again, as the
tick of a beat does, until it is killed; then another one takes its place.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.starts.schedules import firing
from pipeweave.orchestrator.store.database import Database
from support.stored_values import VALUES

BEATS = 2


@dataclass(frozen=True, slots=True)
class FastClock:
    """A clock of all processes that runs `speed` times as fast as the real one, from `base` to `end`."""

    began: float
    base: datetime
    end: datetime
    speed: float

    def __call__(self) -> datetime:
        return min(self.end, self.base + timedelta(seconds=(time.time() - self.began) * self.speed))


def main(url: str, base: str, end: str, seconds: str, seed: str) -> int:
    """Kill and replace processes until the clock has run to its end. How many were killed."""
    first, last = datetime.fromisoformat(base), datetime.fromisoformat(end)
    clock = FastClock(time.time(), first, last, (last - first).total_seconds() / float(seconds))
    chance = random.Random(int(seed))
    beats = [_fork(url, clock) for _ in range(BEATS)]
    killed = 0
    while clock() < last:
        time.sleep(chance.uniform(0.01, 0.3))
        place = chance.randrange(BEATS)
        _kill(beats[place])
        beats[place] = _fork(url, clock)
        killed += 1
    for each in beats:
        _kill(each)
    print(killed)
    return killed


def _fork(url: str, clock: FastClock) -> int:
    if (child := os.fork()) == 0:
        try:
            _tick_for_ever(url, clock)
        finally:
            os._exit(1)
    return child


def _kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _tick_for_ever(url: str, clock: FastClock) -> None:
    database = Database(url, react=reactions_to, now=clock)
    while True:
        # A chore that fails for some schedules, or meets a deadlock, is done again by the next tick.
        with contextlib.suppress(PipeWeaveError):
            firing.run_once(database, VALUES)


if __name__ == "__main__":
    main(*sys.argv[1:])
