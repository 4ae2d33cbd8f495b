"""Statistics: adds up what the events of runs and attempts say, and reads the sums.

The tick counts (`fold`); API, screens and metrics read. None of these reads history, so none grows with it:

    window(now, begin, end)             a stretch of time in at most 300 steps, for those below
    pipeline_rows(tx, tenant, ids, …)   by pipeline, for a page of a list, in one statement: `documents.runs`
    task_rows(tx, tenant, ids, …)       by task, for a page of a list, in one statement: `documents.attempts`
    last_runs(tx, tenant, ids)          by pipeline: its newest runs, for a strip
    answers                             the documents of the endpoints
    queue(tx, tenant)                   what waits and runs now, by task
    as_of(tx)                           how current all of this is
    totals(tx)                          counters since the statistics began, for metrics
    rebuild(database)                   counts the past anew

`series` gives tallies instead of documents, to draw from; `histogram` the buckets of durations.
"""

from pipeweave.orchestrator.telemetry.statistics import answers, documents, histogram, series
from pipeweave.orchestrator.telemetry.statistics.answers import MOST_BUCKETS
from pipeweave.orchestrator.telemetry.statistics.open_queue import queue
from pipeweave.orchestrator.telemetry.statistics.place import AsOf, as_of
from pipeweave.orchestrator.telemetry.statistics.queue_rows import LAST, QUEUE_POINTS
from pipeweave.orchestrator.telemetry.statistics.rebuilding import rebuild
from pipeweave.orchestrator.telemetry.statistics.rows import POINTS, last_runs, pipeline_rows, task_rows
from pipeweave.orchestrator.telemetry.statistics.series import MOST_IDS, Series
from pipeweave.orchestrator.telemetry.statistics.tallies import Tally
from pipeweave.orchestrator.telemetry.statistics.totals import RunTotals, TaskTotals, Totals, totals
from pipeweave.orchestrator.telemetry.statistics.windows import MOST_POINTS, STEPS, StatsWindow, window

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
    "answers",
    "as_of",
    "documents",
    "histogram",
    "last_runs",
    "pipeline_rows",
    "queue",
    "rebuild",
    "series",
    "task_rows",
    "totals",
    "window",
]
