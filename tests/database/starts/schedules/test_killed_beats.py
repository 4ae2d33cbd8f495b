"""Two beats that are killed at any moment, while their clock runs fast, double and skip no due time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.pages import ROOT
from support.run_driver import RunDriver
from support.stored_values import VALUES

from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.starts.schedules import firing, storing
from pipeweave.orchestrator.starts.schedules.storing import ScheduleSpec
from pipeweave.orchestrator.store.database import Database

BASE = datetime(2027, 3, 28, 0, 30, tzinfo=UTC)  # half an hour before the clocks of Berlin change
SPAN = timedelta(hours=2)
MINUTE = timedelta(minutes=1)
# How long this takes; a longer form kills more often and takes more schedules: SCHEDULE_TEST_SECONDS=120.
SECONDS = float(os.environ.get("SCHEDULE_TEST_SECONDS", "4"))
SETS = max(1, int(SECONDS / 4))

BERLIN = ZoneInfo("Europe/Berlin")
Due = Callable[[datetime], bool]
# The rules, and what they mean for one second, said without the code that is tested. None is due more often
# than the 100 times that are made up for at most.
RULES: dict[str, tuple[dict[str, Any], Due]] = {
    "minute": ({"cron": "*/2 * * * *"}, lambda t: t.minute % 2 == 0 and t.second == 0),
    "second": (
        {"cron": "15,45 */3 * * * *"},
        lambda t: t.minute % 3 == 0 and t.second in (15, 45),
    ),
    "berlin": (
        {"cron": "*/4 1-3 * * *", "time_zone": "Europe/Berlin"},
        lambda t: (here := t.astimezone(BERLIN)).hour in (1, 2, 3) and here.minute % 4 == 0 and t.second == 0,
    ),
    "every": ({"every_ms": 77_000, "start_at": BASE}, lambda t: (t - BASE).total_seconds() % 77 == 0),
    "jitter": (
        {"cron": "*/2 * * * *", "jitter_ms": 50_000},
        lambda t: t.minute % 2 == 0 and t.second == 0,
    ),
    "bounds": (
        {
            "cron": "* * * * *",
            "start_at": BASE + timedelta(minutes=20),
            "end_at": BASE + timedelta(minutes=90),
        },
        lambda t: t.second == 0 and timedelta(minutes=20) <= t - BASE <= timedelta(minutes=90),
    ),
    "once": ({"at": BASE + 47 * MINUTE}, lambda t: t == BASE + 47 * MINUTE),
}
OVERLAP = ("allow", "skip", "queue", "cancel-old")


def names() -> dict[str, tuple[str, str]]:
    """The schedules: id -> rule and overlap policy."""
    listed = [(rule, policy) for rule in RULES for policy in OVERLAP]
    return {f"{rule}-{policy}-{number}": (rule, policy) for number in range(SETS) for rule, policy in listed}


def due_times(rule: str) -> set[datetime]:
    seconds = range(1, int(SPAN.total_seconds()) + 1)
    start = BASE if rule == "every" else None
    found = {moment for at in seconds if RULES[rule][1](moment := BASE + timedelta(seconds=at))}
    return found - {start}


@pytest.mark.parametrize("seed", [1])
def test_killed_beats_double_and_skip_nothing(fresh_database: Database, seed: int) -> None:
    url = fresh_database.url
    standing = Database(url, react=reactions_to, now=lambda: BASE)
    driver = RunDriver(standing)
    driver.store({"a": []}, id="files")
    for id, (rule, policy) in names().items():
        spec = ScheduleSpec("files", missed="all", overlap=policy, **RULES[rule][0])
        standing.run(lambda tx, id=id, spec=spec: storing.put(tx, driver.tenant, id, spec))  # type: ignore[misc]

    ended = BASE + SPAN
    killed = run_beats(url, seed, ended)
    assert killed > SECONDS

    # One further tick that nobody kills; jitter lets some times start later.
    last = Database(url, react=reactions_to, now=lambda: ended + MINUTE)
    firing.run_once(last, VALUES)
    firing.run_once(last, VALUES)
    rows = driver.rows("SELECT schedule_id, scheduled_at, outcome, run_id FROM schedule_fires")
    fires: dict[str, Counter[datetime]] = {id: Counter() for id in names()}
    for each in rows:
        fires[each.schedule_id][each.scheduled_at] += 1
    for id, (rule, _) in names().items():
        found = {at: count for at, count in fires[id].items() if at <= ended}
        assert found == dict.fromkeys(due_times(rule), 1), (id, killed)
    check_runs(driver, rows)
    for each in (standing, last):
        each.dispose()


def run_beats(url: str, seed: int, ended: datetime) -> int:
    command = [sys.executable, "-m", "support.fast_beats", url, BASE.isoformat(), ended.isoformat()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [*command, str(SECONDS), str(seed)], env=environment, stdout=subprocess.PIPE, check=True, timeout=600
    )
    return int(done.stdout.split()[-1])


def check_runs(driver: RunDriver, rows: list[Any]) -> None:
    """Each time that fired has a run, each run is of one time; who cancels the old leaves one run open."""
    runs = {each.id: each for each in driver.rows("SELECT id, status, triggered_id, metadata FROM runs")}
    fired = {each.run_id: each for each in rows if each.run_id is not None}
    assert fired.keys() == runs.keys()
    assert all(runs[id].triggered_id == each.schedule_id for id, each in fired.items())
    assert len({(each.schedule_id, each.scheduled_at) for each in fired.values()}) == len(runs)
    open_runs = Counter(each.triggered_id for each in runs.values() if each.status in ("pending", "running"))
    by_policy = {id: policy for id, (_, policy) in names().items()}
    assert {open_runs[id] for id, policy in by_policy.items() if policy != "allow"} == {1}
    waiting = Counter(each.schedule_id for each in rows if each.outcome == "waiting")
    assert {by_policy[id] for id in waiting} <= {"queue"}
    assert max(waiting.values(), default=1) == 1
