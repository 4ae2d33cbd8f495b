"""The bars beside the steps of a run: when each waited and worked, all on one axis.

A run that is not wide shows what its timeline tells: waits, attempts that failed, and how many items of a map
ran at a time. Of a wide one, the bars are when each step began and ended, which its document says already.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from pipeweave.api.ui.view import View
from pipeweave.orchestrator.timeline import PhaseKind, colour_of
from pipeweave.spec import seen

# Up to so many task runs, the timeline of a run is read for its bars.
MOST_DETAILED = 1_000
# Places of an axis, and how high a row of bars is.
WIDTH, HEIGHT = 1_000.0, 16.0
# An axis of which more than this share is idle leaves idle times out; each that is longer than the second
# share is drawn as the third.
_MOSTLY_IDLE, _LONG, _SHORT = 0.5, 0.04, 0.03
_BINS = "40"
_LANE_KINDS = (PhaseKind.ITEMS.value,)


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing that a row shows.

    Args:
        kind: `bar`, `tick` for a failure, `area` for a map, or `gap` for an idle time that is left out.
        words: the class of its colour, and more.
        path: of an area.
    """

    kind: str
    x: float
    width: float
    words: str = ""
    path: str = ""


@dataclass(frozen=True, slots=True)
class Gantt:
    """The axis and the rows: step id -> what its row shows.

    Args:
        labels: times of the axis with their places in percent.
    """

    labels: Sequence[tuple[float, float]]
    rows: Mapping[str, Sequence[Mark]]


class _Axis:
    """Places of times; idle times may be left out."""

    def __init__(self, total_ms: float, busy: Iterable[tuple[float, float]]) -> None:
        self.total_ms = max(total_ms, 0.001)
        self.gaps = _gaps(self.total_ms, busy)
        left_out = sum(end - begin for begin, end in self.gaps)
        short = (self.total_ms - left_out) * _SHORT
        self._corners = [(0.0, 0.0)]
        for begin, end in self.gaps:
            at, place = self._corners[-1]
            self._corners += [(begin, place + begin - at), (end, place + begin - at + max(short, 0.001))]
        at, place = self._corners[-1]
        self._corners.append((self.total_ms, place + self.total_ms - at))

    def place(self, ms: float) -> float:
        """From 0 to WIDTH."""
        whole = self._corners[-1][1]
        for (begin, low), (end, high) in pairwise(self._corners):
            if ms <= end:
                share = (ms - begin) / (end - begin) if end > begin else 0.0
                return WIDTH * max(0.0, low + share * (high - low)) / whole
        return WIDTH

    def labels(self) -> list[tuple[float, float]]:
        """Its ends, and each time at which an idle one ends."""
        inner = [end for _, end in self.gaps if 120 < self.place(end) < 850]
        return [(ms, self.place(ms) / 10) for ms in (0.0, *inner, self.total_ms)]


def _gaps(total_ms: float, busy: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The long idle times, if most of the time is idle."""
    idle, at, least = [], 0.0, _LONG * total_ms
    for begin, end in (*sorted(busy), (total_ms, total_ms)):
        if begin - at > least:
            idle.append((at, begin))
        if end > at:
            at = end
    return idle if sum(end - begin for begin, end in idle) > _MOSTLY_IDLE * total_ms else []


def gantt_of(view: View, run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Gantt | None:
    """The bars of these steps; None of a run that has not begun."""
    if run["startedAt"] is None:
        return None
    if run["taskRunCount"] <= MOST_DETAILED:
        document = view.ask("run_times.get_timeline", {"limit": "1000", "bins": _BINS}, id=run["id"])
        total, times = document["totalMs"], document["steps"]
        busy = [(bar["fromMs"], bar["toMs"]) for each in times for bar in each["bars"]]
    else:
        began = datetime.fromisoformat(run["createdAt"])
        total = _since(began, run["finishedAt"]) if run["finishedAt"] else _since(began, view.now.isoformat())
        # The axis follows from all steps; only those that are shown get bars.
        busy = _busy(began, total, run["steps"])
        times = [_of_document(began, total, each) for each in steps]
    is_open = run["finishedAt"] is None
    end = _rounded(total) if is_open else total
    axis = _Axis(end, [*busy, (total, end)])
    shown = {each["id"]: each for each in steps}
    rows = {
        each["stepId"]: _marks(axis, each, shown[each["stepId"]], total, end)
        for each in times
        if each["stepId"] in shown
    }
    return Gantt(axis.labels(), rows)


def _rounded(total_ms: float) -> float:
    """The end of the axis of a run that goes on: the page stays the same until that is reached."""
    unit = float(10 ** math.floor(math.log10(max(total_ms, 1_000)))) / 5
    return math.ceil(max(total_ms, 1_000) / unit) * unit


def _since(began: datetime, at: str) -> float:
    return max(0.0, (datetime.fromisoformat(at) - began).total_seconds() * 1_000)


def _busy(began: datetime, total: float, steps: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """When each step that has begun was under way."""
    read, zero = datetime.fromisoformat, began.timestamp()
    return [
        (
            (read(each["startedAt"]).timestamp() - zero) * 1_000,
            (read(each["finishedAt"]).timestamp() - zero) * 1_000 if each["finishedAt"] else total,
        )
        for each in steps
        if each["startedAt"] is not None
    ]


def _of_document(began: datetime, total: float, step: Mapping[str, Any]) -> dict[str, Any]:
    """A step with one bar, as a timeline tells of steps."""
    bars = []
    if step["startedAt"] is not None:
        end = _since(began, step["finishedAt"]) if step["finishedAt"] else total
        kind = "failedWork" if step["status"] in ("failed", "timeout") else "work"
        bars.append({"kind": kind, "fromMs": _since(began, step["startedAt"]), "toMs": end})
    return {"stepId": step["id"], "status": step["status"], "bars": bars, "lane": None}


def _marks(
    axis: _Axis, times: Mapping[str, Any], step: Mapping[str, Any], total: float, end: float
) -> list[Mark]:
    """What a row shows. An attempt that failed and was tried again is hollow: what failed for good is red."""
    marks = [Mark("gap", axis.place(a), axis.place(b) - axis.place(a)) for a, b in axis.gaps]
    lane = times["lane"]
    for bar in times["bars"]:
        if lane and bar["kind"] in _LANE_KINDS:
            continue
        # What goes on reaches the end of the axis.
        until = end if bar["toMs"] >= total and step["finishedAt"] is None else bar["toMs"]
        left = axis.place(bar["fromMs"])
        is_hollow = bar["kind"] == "failedWork" and step["status"] not in ("failed", "timeout", "cancelled")
        colour = colour_of(PhaseKind(bar["kind"]), times["status"])
        words = f"{colour} k-{bar['kind']}" + (" hollow" if is_hollow else "")
        marks.append(Mark("bar", left, max(3.0, axis.place(until) - left), words))
    if lane:
        marks += _lane(axis, lane, seen(step["status"]), "f-failed" if step["failed"] else "f-failed hollow")
    return marks


def _lane(axis: _Axis, lane: Mapping[str, Any], status: str, tick: str) -> list[Mark]:
    """How many items of a map ran at a time, and a tick in these words where attempts failed."""
    running, begin = lane["running"], lane["fromMs"]
    wide = (lane["toMs"] - begin) / len(running)
    highest = max(running, default=0.0) or 1.0
    places = [axis.place(begin + at * wide) for at in range(len(running) + 1)]
    tops = [HEIGHT - max(1.0, value / highest * (HEIGHT - 2)) for value in running]
    steps = "".join(f"V{top:.1f}H{right:.1f}" for top, right in zip(tops, places[1:], strict=True))
    path = f"M{places[0]:.1f} {HEIGHT:g}{steps}V{HEIGHT:g}Z"
    colour = colour_of(PhaseKind.ITEMS, status)
    area = Mark("area", places[0], max(3.0, places[-1] - places[0]), f"{colour} k-items", path)
    ticks = [
        Mark("tick", max(0.0, (places[at] + places[at + 1]) / 2 - 1.5), 3.0, tick)
        for at, count in enumerate(lane["failed"])
        if count
    ]
    return [area, *ticks]
