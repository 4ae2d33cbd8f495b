"""Statistics: adds up what the events of runs and attempts say, and reads the sums.

The tick counts (`fold`); API, screens and metrics read. None of these reads history, so none grows with it:

    window(now, begin, end)    a stretch of time in at most 300 steps, for those below
    answers                    the documents of the endpoints
    rows                       what a page of a list shows, by pipeline and by task; the newest runs
    open_queue                 what waits and runs now, by task
    as_of(tx)                  how current all of this is
    totals(tx)                 counters since the statistics began, for metrics
    rebuild(database)          counts the past anew

`series` gives tallies instead of documents, to draw from; `histogram` the buckets of durations. The modules
that make documents are not imported here, because the tick, which counts, has no use for them.
"""

from pipeweave.orchestrator.telemetry.statistics import histogram, series
from pipeweave.orchestrator.telemetry.statistics.place import AsOf, as_of
from pipeweave.orchestrator.telemetry.statistics.rebuilding import rebuild
from pipeweave.orchestrator.telemetry.statistics.series import MOST_IDS, Series
from pipeweave.orchestrator.telemetry.statistics.tallies import Tally
from pipeweave.orchestrator.telemetry.statistics.totals import RunTotals, TaskTotals, Totals, totals
from pipeweave.orchestrator.telemetry.statistics.windows import (
    LAST,
    MOST_BUCKETS,
    MOST_POINTS,
    POINTS,
    QUEUE_POINTS,
    STEPS,
    StatsWindow,
    window,
)

__all__ = [
    "LAST",
    "MOST_BUCKETS",
    "MOST_IDS",
    "MOST_POINTS",
    "POINTS",
    "QUEUE_POINTS",
    "STEPS",
    "AsOf",
    "RunTotals",
    "Series",
    "StatsWindow",
    "Tally",
    "TaskTotals",
    "Totals",
    "as_of",
    "histogram",
    "rebuild",
    "series",
    "totals",
    "window",
]
