"""Writes metrics as text, in the format that the request asks for: that of Prometheus, or OpenMetrics."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from prometheus_client import exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.utils import floatToGoString as _as_go_writes_it
from werkzeug.datastructures import MIMEAccept

from pipeweave.orchestrator.metrics import FAMILIES, Family, Histogram, KeptMetrics, MetricKind, Samples

# Texts that are kept, each for some tenants and a format.
MOST_TEXTS = 64


class Format(Enum):
    """A format of the answer by its media type."""

    PROMETHEUS = "text/plain"
    OPENMETRICS = "application/openmetrics-text"


_PARAMETERS = {Format.PROMETHEUS: "version=0.0.4", Format.OPENMETRICS: "version=1.0.0"}
_WRITE: dict[Format, Callable[[Any], bytes]] = {
    Format.PROMETHEUS: exposition.generate_latest,
    Format.OPENMETRICS: openmetrics.generate_latest,
}


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is text in a format of its own."""

    content: bytes
    content_type: str


class MetricsText:
    """Writes the metrics of a deployment and of this process; what was written is kept as long as it is new.

    Args:
        kept: the metrics of the deployment.
        own: reads the metrics of this process.
    """

    def __init__(self, kept: KeptMetrics, own: Callable[[], Samples]) -> None:
        self._kept = kept
        self._own = own
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[frozenset[str] | None, Format], tuple[int, bytes]] = OrderedDict()

    def text(self, tenants: frozenset[str] | None, wanted: Format) -> Text:
        """The metrics as a token may see them.

        Args:
            tenants: those that the token may read; None: every tenant.
        """
        content_type = f"{wanted.value}; {_PARAMETERS[wanted]}; charset=utf-8"
        last = self._kept.get()
        key = tenants, wanted
        with self._lock:
            number, content = self._texts.get(key, (0, b""))
        if number != last.number:
            content = written(self._samples(last.samples, tenants), wanted)
            with self._lock:
                self._texts[key] = last.number, content
                self._texts.move_to_end(key)
                while len(self._texts) > MOST_TEXTS:
                    self._texts.popitem(last=False)
        return Text(content, content_type)

    def _samples(self, samples: Samples, tenants: frozenset[str] | None) -> Samples:
        shown = samples.of(tenants)
        if tenants is None:
            shown.merge(self._own())
        for family in FAMILIES:
            if tenants is None or family.is_of_tenants:
                shown.know(family)
        return shown


def wanted_format(accepted: MIMEAccept) -> Format:
    """The format that an Accept header prefers, of those that are written; else that of Prometheus."""
    for media_type, _ in accepted:
        kind = media_type.partition(";")[0].strip().lower()
        if kind == Format.OPENMETRICS.value:
            return Format.OPENMETRICS
        if kind in (Format.PROMETHEUS.value, "text/*", "*/*"):
            return Format.PROMETHEUS
    return Format.PROMETHEUS


def written(samples: Samples, wanted: Format) -> bytes:
    """Samples as text, in the order of the list of metrics."""
    return _WRITE[wanted](_Collected(samples))


class _Collected:
    """Samples, as prometheus_client asks for them."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for family in FAMILIES:
            if family in self._samples.values or family in self._samples.histograms:
                yield self._metric(family)

    def _metric(self, family: Family) -> Metric:
        metric = Metric(family.name, family.about, family.kind.value)
        if family.kind is MetricKind.HISTOGRAM:
            for labels, histogram in sorted(self._samples.histograms[family].items()):
                _add_histogram(metric, family, dict(zip(family.labels, labels, strict=True)), histogram)
        else:
            for labels, value in sorted(self._samples.values[family].items()):
                named = dict(zip(family.labels, labels, strict=True))
                metric.add_sample(family.shown_name, named, float(value))
        return metric


_le: Callable[[float], str] = _as_go_writes_it


def _add_histogram(metric: Metric, family: Family, labels: dict[str, str], histogram: Histogram) -> None:
    for bound, number in zip((*family.bounds, float("inf")), histogram.counts, strict=True):
        metric.add_sample(f"{family.name}_bucket", {**labels, "le": _le(bound)}, number)
    metric.add_sample(f"{family.name}_count", labels, histogram.counts[-1])
    metric.add_sample(f"{family.name}_sum", labels, histogram.total)
