"""Write the figures as a table, as a JSON document, and into RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures

FOLDER = Path(__file__).parent
LATEST = FOLDER / "out" / "latest.json"
RESULTS = FOLDER / "RESULTS.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

_HEADER = ("benchmark", "unit", "ours", "celery", "celery tuned", "ours / celery", "ours / tuned", "goal")
# Columns of text are aligned left, columns of numbers right.
_TEXTS = ("benchmark", "unit", "goal")

Row = tuple[str, ...]
Measured = Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Again:
    """PipeWeave measured alone, twice by the same processes: without something, and with it.

    Args:
        what: that something: `history` (in tables that were empty) or `pages` (that are open).
    """

    without: Measured
    beside: Measured
    what: str = "history"

    @property
    def header(self) -> tuple[str, ...]:
        """Of the columns that tell it."""
        return ("alone", f"with {self.what}", "with / without")


def to_json(figures: Measured, again: Again | None = None) -> dict[str, Any]:
    """By benchmark: the unit, the figures, the ratios to plain Celery, and further entries.

    Args:
        figures: of all systems.
        again: shown below `alone` and `with_history` (or `with_pages`), with the ratio of the two.
    """
    return {
        name: {**_entry(each), **(_history_entry(name, again) if again else {})}
        for name, each in figures.items()
    }


def _entry(figures: Figures) -> dict[str, Any]:
    ratios = {"ratio": "celery", "ratio_tuned": "celery_tuned"}
    return {
        "unit": figures.unit,
        **{system: round(value, 3) for system, value in figures.values.items()},
        **{name: _rounded(figures.ratio(to)) for name, to in ratios.items() if to in figures.values},
        **figures.more,
    }


def _history_entry(name: str, again: Again) -> dict[str, Any]:
    before, after = again.without[name], again.beside[name]
    alone, shown = ({k: v for k, v in _entry(each).items() if k != "goal"} for each in (before, after))
    without = before.values["ours"]
    ratio = _rounded(after.values["ours"] / without if without else None)
    return {"alone": alone, f"with_{again.what}": {**shown, "ratio": ratio}}


def write_json(figures: Measured, file: Path, again: Again | None = None) -> None:
    """Write the document, making its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(to_json(figures, again), indent=2) + "\n")


def table(figures: Measured, again: Again | None = None) -> str:
    """The figures for a terminal."""
    return aligned(_rows(figures, again))


def costs(figures: Measured) -> str:
    """What each process costs, for a terminal; empty when no costs were measured."""
    rows: list[Row] = []
    for name, each in figures.items():
        for cost, by_process in each.more.get("costs", {}).items():
            rows = rows or [("benchmark", "unit", *by_process)]
            cells = (by_process.get(process, "") for process in rows[0][2:])
            rows.append((name, cost, *map(_cost, cells)))
    return aligned(rows) if rows else ""


def aligned(rows: Sequence[Row]) -> str:
    """Rows, the first of which is the header, in columns of one width."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return "\n".join(_aligned(row, widths, rows[0]) for row in rows)


def markdown(figures: Measured, again: Again | None = None) -> str:
    """The figures for RESULTS.md, with notes below."""
    header, *rows = _rows(figures, again)
    lines = [header, tuple("---" if name in _TEXTS else "---:" for name in header), *rows]
    notes = [f"{name}: {each.more['note']}." for name, each in figures.items() if "note" in each.more]
    return "\n".join(["| " + " | ".join(row) + " |" for row in lines] + ["", *notes])


def write_results(text: str, file: Path = RESULTS) -> None:
    """Replace the figures between the two marks of the file."""
    before, _, rest = file.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _rows(figures: Measured, again: Again | None) -> list[Row]:
    """The header, and the lines of every benchmark."""
    rows: list[Row] = [(*_HEADER, *again.header) if again else _HEADER]
    for name, each in figures.items():
        before, after = (_lines(m[name]) for m in (again.without, again.beside)) if again else ({}, {})
        for unit, (values, goal) in _lines(each).items():
            row = _row(name, unit, values, goal)
            rows.append((*row, *_history_cells(before[unit], after[unit])) if again else row)
    return rows


Line = tuple[Mapping[str, float], str]


def _lines(figures: Figures) -> dict[str, Line]:
    """What is shown of one benchmark: unit -> the figures and their goal."""
    more = figures.more
    lines: dict[str, Line] = {figures.unit: (figures.values, more.get("goal", ""))}
    if "p95" in more:
        lines["ms to completion, p95"] = (more["p95"], more.get("goal_p95", ""))
        lines["ms to completion, p99.9"] = (more["p999"], "")
        lines[f"ms to completion, the slowest of {more['runs']:,}"] = (
            more["slowest"],
            more.get("goal_slowest", ""),
        )
        lines["ms to the answer, p50"] = (more["answered_p50"], "")
    if "slowest_ms" in more:
        lines["ms, the slowest"] = (more["slowest_ms"], "")
    if "largest_process_pss_mb" in more:
        lines["MB PSS, largest process"] = (more["largest_process_pss_mb"], more.get("goal_pss", ""))
    if "pss_before_work" in more:
        lines["MB PSS, before work"] = (more["pss_before_work"], "")
    return lines


def _row(name: str, unit: str, values: Mapping[str, float], goal: str) -> Row:
    figures = Figures(unit, values)
    shown = (number(values[each]) if each in values else "" for each in ("ours", "celery", "celery_tuned"))
    ratios = (times(figures.ratio(to)) for to in ("celery", "celery_tuned"))
    return (name, unit, *shown, *ratios, goal)


def _history_cells(before: Line, after: Line) -> Row:
    without, ours = before[0]["ours"], after[0]["ours"]
    return (number(without), number(ours), times(ours / without if without else None))


def _cost(value: float | str | None) -> str:
    return value if isinstance(value, str) else "not counted" if value is None else number(value)


def number(value: float) -> str:
    """A figure with as many digits as matter."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def times(ratio: float | None) -> str:
    """A ratio; empty without one."""
    return "" if ratio is None else f"{ratio:.2f} x"


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)


def _aligned(row: Row, widths: list[int], header: Row) -> str:
    cells = zip(row, widths, header, strict=True)
    return "  ".join(
        text.ljust(width) if name in _TEXTS else text.rjust(width) for text, width, name in cells
    )
