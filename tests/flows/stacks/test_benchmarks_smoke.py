"""The benchmarks run: tiny sizes, real processes, no figure looked at."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.pages import ROOT

from pipeweave.settings import environment

DEADLINE_S = 540

COMPARED = ["chain_3", "fan_8", "map_20", "diamonds_4", "single_run", "idle"]
ALONE = [
    "http_chain_3",
    "http_dispatches_6",
    "trigger",
    "trigger_batch",
    "chain_10ms",
    "conditions",
    "claim",
    "memory",
    "worker_of_8",
    "run_list",
    "run_page",
    "tick",
    "schedules",
    "enqueue",
    "watchers",
    "pages",
]
FLOORS = ["floor_commit", "floor_chain_10ms", "floor_message", "floor_request"]
COSTS = ["cost_run", "cost_hop", "cost_item", "cost_trigger", "cost_idle_second"]
SYSTEMS = {"ours", "celery", "celery_tuned"}


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """The document that a try in tiny sizes writes."""
    file = tmp_path_factory.mktemp("benchmarks") / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--smoke", "--history", "300", "--out", str(file)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, dict[str, object]] = json.loads(file.read_text())
    return found


def test_every_benchmark_has_a_figure_of_ours_and_of_both_baselines(
    figures: dict[str, dict[str, object]],
) -> None:
    assert list(figures) == COMPARED + ALONE + FLOORS + COSTS
    for name in COMPARED:
        assert {"unit", "ratio", "ratio_tuned", *SYSTEMS} <= figures[name].keys(), name


def test_runs_one_after_the_other_have_a_tail_and_the_others_a_slowest_round(
    figures: dict[str, dict[str, dict[str, float]]],
) -> None:
    assert figures["single_run"]["p999"].keys() == figures["single_run"]["slowest"].keys() == SYSTEMS
    for name in ("chain_3", "fan_8", "diamonds_4"):
        assert figures[name]["slowest_ms"].keys() == SYSTEMS, name


def test_each_benchmark_of_pipeweave_alone_has_a_figure_and_a_goal(
    figures: dict[str, dict[str, object]],
) -> None:
    for name in ALONE:
        assert {"unit", "ours", "goal"} <= figures[name].keys(), name


def test_costs_are_counted_by_process(figures: dict[str, dict[str, dict[str, dict[str, float]]]]) -> None:
    for name in COSTS:
        costs = figures[name]["costs"]
        assert costs["processor ms"].keys() == {"api", "worker", "beat", "postgresql", "broker"}
        assert costs["statements"].keys() == costs["commits"].keys() == {"api", "worker", "beat"}
    assert figures["cost_run"]["costs"]["statements"]["api"] >= 1
    assert figures["cost_hop"]["costs"]["commits"]["worker"] >= 1


def test_http_tasks_are_measured_next_to_a_bare_loop_of_posts(
    figures: dict[str, dict[str, float]],
) -> None:
    chain, wide = figures["http_chain_3"], figures["http_dispatches_6"]
    assert chain["ratio_bare"] == pytest.approx(chain["bare"] / chain["ours"], rel=0.02)
    assert wide["ratio_bare"] == pytest.approx(wide["ours"] / wide["bare"], rel=0.02)


def test_ours_is_measured_again_with_finished_runs_in_the_tables(
    figures: dict[str, dict[str, dict[str, float]]],
) -> None:
    for name, entry in figures.items():
        assert "ours" in entry["alone"], name
        assert {"ours", "ratio"} <= entry["with_history"].keys(), name


def test_ratios_are_ours_over_theirs(figures: dict[str, dict[str, float]]) -> None:
    entry = figures["fan_8"]
    assert entry["ratio"] == pytest.approx(entry["ours"] / entry["celery"], rel=0.02)
    assert entry["ratio_tuned"] == pytest.approx(entry["ours"] / entry["celery_tuned"], rel=0.02)


def test_a_benchmark_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--only", "chian"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert "chain_50" in done.stderr
