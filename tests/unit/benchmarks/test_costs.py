"""What is counted as a statement and as a commit, and what is said of what a machine does not count."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import against, counters, report, tracing
from benchmarks.costs import count
from benchmarks.environment import CALLED
from benchmarks.figures import Figures
from benchmarks.statement_log import Recorded

LOG = [
    (7, "SELECT 1", 0.1),
    (7, "BEGIN; EXECUTE pw_1('x')\nprepare: PREPARE pw_1 AS SELECT 2", 0.1),
    (8, "BEGIN; PREPARE pw_4 AS SELECT 3", 0.1),
    (8, "EXECUTE pw_4", 0.1),
    (7, "EXECUTE pw_2", 0.1),
    (8, "ROLLBACK", 0.1),
    (7, "PREPARE pw_3 AS SELECT 4", 0.1),
    (7, "COMMIT", 0.1),
    (9, "SELECT 5", 0.1),
]


def test_statements_and_commits_are_counted_by_process() -> None:
    statements, commits = count(Recorded(LOG), {7: "worker", 8: "api"})
    assert statements == {"worker": 3, "api": 1}
    assert commits == {"worker": 2, "api": 0}


@pytest.mark.parametrize(
    ("said", "number"),
    [
        ("123456,,instructions,1000,100.00,0.5,insn per cycle\n", 123456.0),
        ("<not supported>,,instructions,0,100.00,,\n", None),
        ("<not counted>,,instructions,0,0.00,,\n", None),
        ("perf: command not found\n", None),
    ],
)
def test_instructions_that_a_machine_does_not_count_are_not_zero(said: str, number: float | None) -> None:
    assert counters.retired(said) == number


def test_system_calls_are_counted_by_name() -> None:
    traced = (
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        " 87.50    0.000350          35        10         2 read\n"
        " 12.50    0.000050          10         5           write\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.000400          26        15         2 total\n"
    )
    assert tracing.counted(traced) == {"read": 10, "write": 5}
    assert tracing.counted("") == {}


def test_what_a_child_counted_that_has_ended_is_not_taken_away() -> None:
    before = {"worker": {1: 10, 2: 500}, "api": None}
    after = {"worker": {1: 14, 3: 7}, "api": None}
    assert tracing.since(before, after) == {"worker": 11, "api": None}


def test_calls_of_python_functions_are_counted_in_a_process_and_in_its_children(tmp_path: Path) -> None:
    program = (
        "import os\n"
        "def called(times):\n"
        "    for _ in range(times): (lambda: None)()\n"
        "called(1000)\n"
        "if (child := os.fork()) == 0:\n"
        "    called(300)\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    variables = {"PYTHONPATH": str(CALLED), "COUNTED_CALLS": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], env=variables, check=True)
    child, parent = sorted(int.from_bytes(each.read_bytes(), sys.byteorder) for each in tmp_path.iterdir())
    assert 300 <= child < 1000 <= parent


def test_bytes_are_those_of_connections_that_are_still_open() -> None:
    listed = (
        'ESTAB 0 0 127.0.0.1:5001 127.0.0.1:5432 users:(("python",pid=42,fd=7)) cubic bytes_sent:900 x:1\n'
        "TIME-WAIT 0 0 127.0.0.1:5002 127.0.0.1:5432\n"
        'ESTAB 0 0 127.0.0.1:5003 127.0.0.1:5432 users:(("python",pid=43,fd=7)) cubic rtt:0.1\n'
    )
    assert counters.Sent.of(listed).by_connection == {(42, "127.0.0.1:5001", "127.0.0.1:5432"): 900}


def test_costs_are_shown_by_process_and_compared_by_process() -> None:
    costs = {"statements": {"api": 1.0, "worker": 2.0}, "instructions": {"api": None, "worker": None}}
    figures = {"cost_run": Figures("processor ms per run", {"ours": 3.0}, {"costs": costs})}
    header, statements, instructions = report.costs(figures).splitlines()
    assert header.split() == ["benchmark", "unit", "api", "worker"]
    assert statements.split() == ["cost_run", "statements", "1.00", "2.00"]
    assert instructions.count("not counted") == 2
    values = against.values_of(report.to_json(figures))
    assert values == {
        ("cost_run", "processor ms per run"): 3.0,
        ("cost_run", "statements, api"): 1.0,
        ("cost_run", "statements, worker"): 2.0,
    }


def test_a_comparison_takes_the_ratio_to_tuned_celery_along() -> None:
    figures = {"chain_50": Figures("ms per hop", {"ours": 1.5, "celery": 4.0, "celery_tuned": 3.0})}
    values = against.values_of(report.to_json(figures))
    assert values == {("chain_50", "ms per hop"): 1.5, ("chain_50", "of tuned Celery"): 0.5}


def test_a_comparison_shows_medians_their_ratio_and_the_least_and_greatest_of_the_turns() -> None:
    name = ("chain_50", "ms per hop")
    ours, theirs = ([{name: each} for each in turns] for turns in ((1.0, 3.0, 2.0), (2.0, 2.0, 4.0)))
    header, line = against.rows("v1", ours, theirs)
    assert header[2:] == ("this tree", "v1", "ratio", "least", "most")
    assert line == (*name, "2.00", "2.00", "1.00 x", "0.50 x", "1.50 x")
