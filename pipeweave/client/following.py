"""Look at a run whenever it may have changed, until it is final. `Client.wait` and the commands use it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from pipeweave.client.models import Run
from pipeweave.client.paging import Methods
from pipeweave.client.streaming import ENDS, RunSignal
from pipeweave.client.waiting import RunWait
from pipeweave.errors import RunEnqueued, Unavailable


def follow(
    client: Methods,
    look: Callable[[str], Run],
    run_id: str,
    waiting: RunWait,
    *,
    is_shown: bool,
    on_look: Callable[[Run], None] = lambda run: None,
) -> Run:
    """Wait until a run is final.

    Args:
        look: reads the run.
        waiting: says how long to pause, and when to give up.
        is_shown: somebody sees each change, not only the end.
        on_look: called with each answer.
    """
    with closing(signal_of(client, run_id, is_shown=is_shown)) as signal:
        while True:
            waiting.asks()
            try:
                current_run = look(run_id)
            except Unavailable as error:
                time.sleep(waiting.pause_after_outage(error))
                continue
            except RunEnqueued:
                time.sleep(waiting.pause_before_start())
                continue
            waiting.saw(current_run)
            on_look(current_run)
            if current_run.is_final:
                return current_run
            signal.pause(*waiting.pause_after(current_run))


def signal_of(client: Methods, run_id: str, *, is_shown: bool) -> RunSignal:
    """What wakes a wait for a run."""
    return RunSignal(client._http, run_id, None if is_shown else (*ENDS, "run.paused"))
