"""Forecasts, compared with a model that walks every path."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.spec.forecast import FEW_RUNS, PastRun, forecast, percentile
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec

Edges = dict[str, set[str]]
NAMES = [f"s{number}" for number in range(6)]


def spec_of(edges: Edges) -> PipelineSpec:
    return PipelineSpec(
        "p", tuple(StepSpec(name, name, tuple(sorted(needs))) for name, needs in edges.items())
    )


DIAMOND = spec_of({"a": set(), "b": {"a"}, "c": {"a"}, "d": {"b", "c"}})


def run(**steps: float) -> PastRun:
    return PastRun(sum(steps.values()) + 100, steps)


@st.composite
def graphs(draw: st.DrawFn) -> Edges:
    return {
        name: draw(st.sets(st.sampled_from(NAMES[:place]))) if place else set()
        for place, name in enumerate(NAMES)
    }


durations = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1000).map(float))


def paths(edges: Edges, end: str) -> Iterator[list[str]]:
    yield [end]
    for each in edges[end]:
        yield from ([*path, end] for path in paths(edges, each))


@given(graphs(), st.lists(durations, min_size=1, max_size=5))
def test_it_agrees_with_a_walk_of_every_path(edges: Edges, past: list[dict[str, float]]) -> None:
    found = forecast(spec_of(edges), [PastRun(1, each) for each in past])
    usual = {step: spread.p50_ms or 0.0 for step, spread in found.steps.items()}
    every = [path for end in edges for path in paths(edges, end)]

    def longest(took: dict[str, float]) -> float:
        return max(sum(took[step] for step in path) for path in every)

    played = [longest({step: each.get(step, usual[step]) for step in edges}) for each in past]
    assert found.run.runs == len(past)
    assert found.run.p95_ms == pytest.approx(percentile(played, 0.95))
    assert sum(usual[step] for step in found.critical_path) == pytest.approx(longest(usual))
    assert list(found.critical_path) in every


@given(st.lists(st.integers(0, 100), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_one_of_the_values_and_covers_its_share(values: list[int], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(each <= found for each in values) >= share * len(values) - 1e-9


def test_what_goes_together_in_a_run_stays_together() -> None:
    """Never is one branch slow when the other one is: the run takes 110, and never 20 or 200."""
    past = [run(a=10, b=100, c=0, d=0), run(a=10, b=0, c=100, d=0)] * 10
    found = forecast(DIAMOND, past)
    assert (found.run.p50_ms, found.run.p95_ms) == (110, 110)
    assert found.past.p50_ms == 210


def test_a_skipped_step_takes_no_time_and_is_no_sample() -> None:
    past = [PastRun(10, {"a": 10, "b": 5, "d": 1}, frozenset({"c"})), run(a=10, b=5, c=50, d=1)]
    found = forecast(DIAMOND, past)
    assert found.steps["c"].runs == 1
    assert found.run.p50_ms == (16 + 61) / 2
    assert found.critical_path == ("a", "c", "d")


def test_a_step_without_history_takes_what_it_usually_takes_or_nothing() -> None:
    found = forecast(DIAMOND, [PastRun(10, {"a": 10, "c": 1}), PastRun(10, {"a": 10})])
    assert found.steps["b"].p50_ms is None
    assert found.run.p50_ms == 11
    assert [each["tooFewRuns"] for each in found.to_json()["steps"]] == [True] * 4


def test_without_any_run_nothing_is_known() -> None:
    shown = forecast(DIAMOND, []).to_json()
    assert (shown["runs"], shown["tooFewRuns"], shown["p50Ms"], shown["p95Ms"]) == (0, True, None, None)
    assert shown["pastRuns"] == {"p50Ms": None, "p95Ms": None}


def test_enough_runs_are_enough() -> None:
    assert forecast(DIAMOND, [run(a=1, b=1, c=1, d=1)] * FEW_RUNS).to_json()["tooFewRuns"] is False
    assert forecast(DIAMOND, [run(a=1, b=1, c=1, d=1)] * (FEW_RUNS - 1)).to_json()["tooFewRuns"] is True


def test_a_large_graph_takes_milliseconds() -> None:
    wide = spec_of({"a": set(), **{f"b{n}": {"a"} for n in range(4_000)}})
    found = forecast(wide, [PastRun(1, {"a": 1.0})] * FEW_RUNS)
    assert found.run.p50_ms == 1.0
