"""Histograms: quantiles are within 12 %, sums and means exact, and they add up."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeweave.orchestrator.telemetry.statistics import histogram
from pipeweave.orchestrator.telemetry.statistics.histogram import (
    BUCKETS,
    QUANTILE_ERROR,
    Durations,
    of_durations,
)

# From 1 ms to 27 hours.
DURATIONS = st.lists(st.floats(1, 97_000_000), min_size=1, max_size=200)


@example([79_432_824.0, 88_964_763.0], 0.01)  # both in the last bucket
@given(DURATIONS, st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_within_12_percent(found: list[float], share: float) -> None:
    exact = sorted(found)[math.ceil(share * len(found)) - 1]
    told = of_durations(found).quantile(share)
    assert told == pytest.approx(exact, rel=QUANTILE_ERROR)


@given(DURATIONS, DURATIONS)
def test_histograms_add_up(one: list[float], other: list[float]) -> None:
    together = of_durations(one)
    together.add(of_durations(other))
    at_once = of_durations(one + other)
    assert (together.buckets, together.least, together.most) == (
        at_once.buckets,
        at_once.least,
        at_once.most,
    )
    assert together.mean == pytest.approx(sum(one + other) / len(one + other))


@given(st.floats(0, 1e12))
def test_a_duration_is_between_the_edges_of_its_bucket(ms: float) -> None:
    bucket = histogram.bucket_of(ms)
    assert 0 <= bucket < BUCKETS
    assert histogram.lower_edge(bucket) * (1 - 1e-9) <= ms <= histogram.upper_edge(bucket) * (1 + 1e-9)


def test_what_is_shorter_or_longer_than_all_buckets_keeps_its_edges() -> None:
    short = of_durations([0.2, 0.4])
    assert short.quantile(1) == 0.4
    long = of_durations([2e9, 3e9])
    assert long.quantile(0.5) == 3e9


def test_nothing_has_no_quantile() -> None:
    nothing = Durations()
    assert (nothing.count, nothing.mean, nothing.quantile(0.5)) == (0, None, None)
