"""The first screen: what needs attention, what runs, what ended just now, and what runs came to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pipeweave.api.ui import figures, periods, words
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import RunStatus

screens = Screens("overview")

EVERY_S = 5.0
# Runs that are listed as under way, and task runs that wait.
UNDER_WAY = 10
# Of each status, so many that wait are looked at: of more, rows say that there are.
MOST_WAITING = 50
# Ended runs of this time are shown as ticks, the newest of them.
LANES_TIME = timedelta(minutes=30)
MOST_TICKS = 200
# A run with more task runs than this is listed without a bar, because they would have to be counted.
MOST_COUNTED = 1_000
# What has waited longer than this is a problem.
LONG_WAIT = timedelta(minutes=5)
# An enqueued run starts within a second.
LONG_START = timedelta(minutes=1)
GROUPS = 5
# How far back the counts of task runs go, from which the time of the answer is known.
WINDOW = timedelta(hours=24)
# Pipelines whose runs fail most, and runs of each.
FAILING, STRIP = 5, 20
_ENDED = sorted(each.value for each in RunStatus if each.is_final)
_OPEN = sorted(each.value for each in RunStatus if not each.is_final)
_WAITING = {"waiting", "queued", "ready", "pending"}
_TO_START = ("ready", "queued", "pending")
_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class OverviewProblem:
    """Something that needs attention.

    Args:
        mark: the status whose mark it has.
        path: of the screen that shows it.
    """

    mark: str
    text: str
    path: str


@screens.add("/", "overview.html", every_s=EVERY_S)
def overview(view: View) -> ScreenPage:
    """What needs attention, what waits and runs, and what ended in the last half hour."""
    queue = view.ask("queue.queue_status")
    # The time of PostgreSQL, from which the window of this answer is counted back.
    now = datetime.fromisoformat(queue["since"]) + WINDOW
    groups = view.ask("dead_letters.group_dead_letters", {"limit": str(GROUPS)})["groups"]
    workers = view.ask("workers.list_workers", {"limit": str(UNDER_WAY)})
    under_way = view.ask("runs.list_runs", {"status": _OPEN, "limit": str(UNDER_WAY)})["runs"]
    ended = _ended(view, now)
    enqueued = view.ask("enqueued.list_enqueued", {"status": "refused", "limit": "1"})
    shown = {
        "problems": [
            *_tick_problems(view.ask("system.health"), now),
            *_problems(queue, groups, workers["counts"], now),
            *_enqueued_problems(enqueued, now),
        ],
        "queue": queue,
        "oldest_ms": _age_ms(queue["oldestPending"], now),
        "workers": workers["workers"],
        "counts": workers["counts"],
        # Of the service that had none for longest.
        "uptime": min((each["share"] for each in workers["uptime"]), default=None),
        "under_way": _grouped([_with_progress(view, run) for run in under_way]),
        "waiting": waiting(view, queue["statuses"]),
        "lanes": _lanes(ended, now),
        "is_new": not (under_way or ended or queue["pending"]) and _is_new(view),
        "minutes": int(LANES_TIME.total_seconds() / _MINUTE_S),
        **_statistics(view),
    }
    return ScreenPage("Overview", shown)


def _statistics(view: View) -> dict[str, Any]:
    """What runs came to in the period that the address names, and which pipelines fail most."""
    period, statistics = figures.fitted(
        lambda period: view.ask_now_and_then("statistics.runs", period.query),
        periods.chosen(view, "6h"),
        is_chosen=view.has_any("window"),
    )
    summary = statistics["summary"]
    query = {"from": period.begin, "limit": str(FAILING), "recent": str(STRIP)}
    has_failed = summary["failed"] or summary["partial"]
    failing = view.ask_now_and_then("statistics.by_pipeline", query)["pipelines"] if has_failed else []
    return {
        "period": period.name,
        "periods": periods.PERIODS,
        "counted": statistics,
        "figures": summary,
        "sparks": figures.sparks(statistics),
        "per_hour": summary["ended"] / (periods.PERIODS[period.name] / timedelta(hours=1)),
        "chart": figures.ends(
            statistics,
            f"Runs that ended, {period.words}, each bar {statistics['bucket']}",
            link=lambda begin, end: view.url(
                "/runs", createdAfter=periods.text(begin), createdBefore=periods.text(end)
            ),
        ),
        "failing": failing,
    }


def _ended(view: View, now: datetime) -> list[Any]:
    # Whole minutes, so that pages of the same minute ask the same.
    since = (now - LANES_TIME).replace(second=0, microsecond=0).strftime("%Y-%m-%dT%H:%M:%SZ")
    query = {"status": _ENDED, "createdAfter": since, "limit": str(MOST_TICKS)}
    return list(view.ask("runs.list_runs", query)["runs"])


def _is_new(view: View) -> bool:
    """Whether the tenant has never had a run."""
    return not view.ask("runs.list_runs", {"limit": "1"})["runs"]


def _with_progress(view: View, run: Mapping[str, Any]) -> dict[str, Any]:
    if run["taskRunCount"] > MOST_COUNTED:
        return {**run, "counts": {}}
    answer, _ = view.inside.ask(view.caller, "runs.get_run", {"id": run["id"]}, {"taskRuns": "0"})
    return {**run, "counts": answer["counts"]}


def _grouped(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs, with how many are `alike`: of a pipeline, those that only wait are one, the oldest."""
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        is_waiting = bool(run["counts"]) and not set(run["counts"]) - _WAITING
        key = f"{run['pipelineId']} {run['status']}" if is_waiting else run["id"]
        rows[key] = {**run, "alike": rows[key]["alike"] + 1 if key in rows else 1}
    return list(rows.values())


def waiting(view: View, statuses: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What may start, and is not taken yet: of task runs of one task and pipeline the first in line."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for status in (each for each in _TO_START if statuses[each]["count"]):
        page = view.ask("queue.queue_items", {"status": status, "limit": str(MOST_WAITING)})
        for item in page["items"]:
            key = (status, item["taskId"], item["pipelineId"] or "")
            row = rows.setdefault(key, {**item, "alike": 0, "has_more": page["nextCursor"] is not None})
            row["alike"] += 1
    return list(rows.values())[:UNDER_WAY]


# --- problems ---------------------------------------------------------------------------------------------


def _tick_problems(health: Mapping[str, Any], now: datetime) -> Iterator[OverviewProblem]:
    """That nothing drives the deployment, or that a chore fails at each tick."""
    if not health.get("degraded"):
        return
    if health["failingChores"]:
        yield OverviewProblem(
            "failed", f"Chores of the tick fail: {', '.join(health['failingChores'])}", "/settings"
        )
        return
    age = _age_ms(health["lastTickAt"], now)
    since = "There was no tick yet" if age is None else f"The last tick was {words.duration(age)} ago"
    yield OverviewProblem("failed", f"{since}: is beat running? Lost work is not recovered", "/settings")


def _problems(
    queue: Mapping[str, Any], groups: Sequence[Any], workers: Mapping[str, int], now: datetime
) -> Iterator[OverviewProblem]:
    """What needs attention, the worst first."""
    alive = sum(workers.get(each, 0) for each in ("running", "stalled"))
    if queue["pending"] and not alive:
        yield OverviewProblem("failed", f"No worker is alive, and {_task_runs(queue['pending'])}", "/workers")
    if queue["dlq"]:
        more = " or more" if len(groups) == GROUPS else ""
        kinds = f" of {len(groups)} kinds{more}" if len(groups) > 1 else ""
        letters = "1 open dead letter" if queue["dlq"] == 1 else f"{queue['dlq']:,} open dead letters"
        yield OverviewProblem("failed", f"{letters}{kinds}: {_names(groups)}", "/dead-letters")
    if workers.get("crashed"):
        yield OverviewProblem("lost", f"Workers that crashed: {workers['crashed']}", "/workers?state=crashed")
    if workers.get("stalled"):
        yield OverviewProblem(
            "warning", f"Workers that are stalled: {workers['stalled']}", "/workers?state=stalled"
        )
    age = _age_ms(queue["oldestPending"], now)
    if age is not None and age > LONG_WAIT.total_seconds() * 1_000:
        yield OverviewProblem(
            "queued", f"The oldest task run has waited for {words.duration(age)}", "/queues"
        )
    if queue["pausedAt"]:
        reason = f": «{queue['pauseReason']}»" if queue["pauseReason"] else ""
        yield OverviewProblem("paused", f"All tasks are paused{reason}", "/queues")
    for task in queue["pausedTasks"][:GROUPS]:
        yield OverviewProblem("paused", f"{task} is paused", f"/tasks/{task}")


def _enqueued_problems(enqueued: Mapping[str, Any], now: datetime) -> Iterator[OverviewProblem]:
    age = _age_ms(enqueued["oldest"], now)
    if age is not None and age > LONG_START.total_seconds() * 1_000:
        number = f"{enqueued['waiting']:,}{'+' if enqueued['waitingIsCapped'] else ''}"
        text = f"Enqueued runs that wait to start: {number}, the oldest for {words.duration(age)}"
        yield OverviewProblem("queued", text, "/enqueued")
    for newest in enqueued["enqueuedRuns"]:
        refused_ms = _age_ms(newest["settledAt"], now)
        if refused_ms is not None and refused_ms < WINDOW.total_seconds() * 1_000:
            text = f"An enqueued run of {newest['pipelineId']} was refused: {newest['errorCode']}"
            yield OverviewProblem("failed", text, "/enqueued?status=refused")


def _names(groups: Sequence[Any]) -> str:
    return ", ".join(f"{each['taskId']} {each['errorCode']}" for each in groups[:3])


def _task_runs(number: int) -> str:
    return "1 task run waits" if number == 1 else f"{number:,} task runs wait"


# --- numbers ----------------------------------------------------------------------------------------------


def _age_ms(since: str | None, now: datetime) -> float | None:
    return None if since is None else max(0.0, (now - datetime.fromisoformat(since)).total_seconds() * 1_000)


def _lanes(ended: Sequence[Mapping[str, Any]], now: datetime) -> list[tuple[str, list[dict[str, Any]]]]:
    """Pipelines with their ended runs, each with its place in the half hour (0 to 1000)."""
    lanes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in ended:
        age = (now - datetime.fromisoformat(run["finishedAt"])) / LANES_TIME
        if age <= 1:
            lanes[run["pipelineId"]].append({**run, "x": round(1_000 * (1 - max(0.0, age)), 1)})
    return sorted(lanes.items())
