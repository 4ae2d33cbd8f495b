"""Statistics: adds up what the events of runs and attempts say, and reads the sums.

The tick counts (`fold`); API, screens and metrics read. Each of these is one statement, whose cost does not
grow with history:

    as_of(tx)                           how current all of this is
    totals(tx)                          counters since the statistics began, for metrics
"""

from pipeweave.orchestrator.statistics.place import AsOf, as_of
from pipeweave.orchestrator.statistics.totals import RunTotals, TaskTotals, Totals, totals

__all__ = ["AsOf", "RunTotals", "TaskTotals", "Totals", "as_of", "totals"]
