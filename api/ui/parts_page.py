"""The page of parts: everything that screens are made of, in each of its states, for whoever works on them.

It is only there where the setting `UI_PARTS` asks for it, and shows nothing of any tenant.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pipeweave.api.ui import charts
from pipeweave.api.ui.chart_parts import Chart, Stretch
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import Field
from pipeweave.api.ui.view import View
from pipeweave.orchestrator.domain import RunStatus, TaskStatus

screens = Screens("")

_BEGIN = datetime(2026, 6, 15, 6, tzinfo=UTC)
_HOURS = [_BEGIN + timedelta(hours=number) for number in range(12)]
_FIELDS = (
    (Field("name", "A text", about="What it is for, in a sentence."), "photos", ""),
    (Field("number", "A number", "number"), "twelve", "is no number"),
    (Field("chosen", "A choice", "choice", choices=[("a", "the first"), ("b", "the second")]), "b", ""),
    (Field("moment", "A time", "moment"), "2026-06-15T12:00:00Z", ""),
    (Field("yes", "A switch", "boolean"), "on", ""),
    (Field("json", "JSON", "json"), '{"folder": "/srv/photos"}', ""),
)
# Names as users choose them: as long as they may be, and turned round.
HOSTILE = ("n" * 200, "\u202edesrever-\u2066name", "\u05e9\u05dc\u05d5\u05dd-\U0001f4e6")


@screens.add("/parts", "parts.html")
def parts(view: View) -> ScreenPage:
    """Every part, in every state."""
    statuses = dict.fromkeys([*(each.value for each in RunStatus), *(each.value for each in TaskStatus)])
    shown = {
        "statuses": [*statuses, "warning"],
        "fields": _FIELDS,
        "bars": _bars(),
        "lines": _lines(),
        "point": charts.lines([_stretch(_HOURS[0])], {"p95": [1_200.0]}, "One point"),
        "spark": charts.sparkline([3, 1, 4, 1, 5, 9, 2, 6], "A course"),
        "strip": [
            {"status": status, "durationMs": 400.0 + 90 * number}
            for number, status in enumerate(["running", "failed", "partial", *["completed"] * 9])
        ],
        "names": ("photos", *HOSTILE),
    }
    return ScreenPage("Parts", shown)


def _stretch(at: datetime) -> Stretch:
    return Stretch(f"{at:%H:%M} UTC", at.isoformat())


def _bars() -> Chart:
    counts = [
        {"completed": 3 + number % 4, "failed": number % 5 == 4, "partial": number % 7 == 6}
        for number in range(len(_HOURS))
    ]
    return charts.stacked(list(zip(map(_stretch, _HOURS), counts, strict=True)), "How many ended")


def _lines() -> Chart:
    p50 = [400.0 + 60 * (number % 5) for number in range(len(_HOURS))]
    series = {"p50": p50, "p95": [2.2 * each for each in p50]}
    return charts.lines([_stretch(each) for each in _HOURS], series, "How long it took")
