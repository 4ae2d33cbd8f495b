"""Metrics: numbers of a whole deployment for Prometheus, read from PostgreSQL and kept for some seconds.

Called by `api`, which writes them as text. `catalogue` lists the metrics, `reading` reads them, `samples`
bounds their labels. This room must never write to PostgreSQL, and a reading must not cost more as history
grows.
"""

from pipeweave.orchestrator.metrics.catalogue import FAMILIES, Family, MetricKind
from pipeweave.orchestrator.metrics.kept import KeptMetrics
from pipeweave.orchestrator.metrics.reading import read
from pipeweave.orchestrator.metrics.samples import Histogram, Samples

__all__ = ["FAMILIES", "Family", "Histogram", "KeptMetrics", "MetricKind", "Samples", "read"]
