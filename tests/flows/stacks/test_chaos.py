"""A short fault test (`make chaos` is the long one): real processes die, and every proof holds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.pages import ROOT

from pipeweave.settings import environment

DEADLINE_S = 540
SECONDS, SEED = 31, 1869
# How long (s) a run may stand still on a machine that runs other tests, too.
WITHIN_S = 240
# Most of those that are over soon; the others stop something for seconds.
KINDS = {
    "child-killed",
    "worker-killed",
    "worker-vanished",
    "worker-deployed",
    "beat-killed",
    "beat-vanished",
    "api-killed",
    "api-vanished",
    "service-killed",
    "service-doubles",
    "service-fails",
    "service-babbles",
    "broker-wiped",
    "postgres-killed",
    "postgres-silent",
    "messages-doubled",
    "messages-lost",
    "chords-forgotten",
}


def test_no_fault_loses_or_repeats_work(tmp_path: Path) -> None:
    length = ("--seconds", str(SECONDS), "--seed", str(SEED), "--pace", "0.25", "--settle", "400")
    length += ("--broker", "alone")
    what = ("--within", str(WITHIN_S), "--only", ",".join(sorted(KINDS)), "--folder", str(tmp_path), "--json")
    what += ("--database", "alone")
    done = subprocess.run(
        [sys.executable, "-m", "chaos", *length, *what],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(done.stdout)
    assert report["ok"]
    assert report["figures"]["faults"].keys() == KINDS, "the plan has all of them"
    assert report["figures"]["taskRuns"]["completed"] > 0
    waits = report["figures"]["waits"]
    assert waits.keys() >= {"timer", "signal", "approval", "callback", "poll", "child"}, "runs wait for all"


def test_a_fault_that_does_not_exist_is_refused_with_the_names_of_those_that_do() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--only", "child-kiled"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert "child-killed" in done.stderr


def test_a_fault_that_the_broker_cannot_have_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "--only", "broker-failover", "--broker", "alone"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("there is no broker-failover with --broker alone")
