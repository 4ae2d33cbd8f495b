"""The figures as a table, as a JSON document, and in RESULTS.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures

FOLDER = Path(__file__).parent
LATEST = FOLDER / "out" / "latest.json"
RESULTS = FOLDER / "RESULTS.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"

_HEADER = ("benchmark", "unit", "ours", "celery", "celery tuned", "ours / celery", "ours / tuned")

Row = tuple[str, ...]


def to_json(figures: Mapping[str, Figures]) -> dict[str, Any]:
    """By benchmark: the unit, the three figures, ours / theirs, and what more there is."""
    return {
        name: {
            "unit": each.unit,
            **{system: round(value, 3) for system, value in each.values.items()},
            "ratio": _rounded(each.ratio("celery")),
            "ratio_tuned": _rounded(each.ratio("celery_tuned")),
            **each.more,
        }
        for name, each in figures.items()
    }


def write_json(figures: Mapping[str, Figures], file: Path) -> None:
    """Write the document, making its folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(to_json(figures), indent=2) + "\n")


def table(figures: Mapping[str, Figures]) -> str:
    """For a terminal."""
    rows = [_HEADER, *_rows(figures)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_HEADER))]
    return "\n".join(_aligned(row, widths) for row in rows)


def markdown(figures: Mapping[str, Figures]) -> str:
    """For RESULTS.md, notes below."""
    lines = [_HEADER, ("---", "---", *["---:"] * 5), *_rows(figures)]
    notes = [f"{name}: {each.more['note']}." for name, each in figures.items() if "note" in each.more]
    return "\n".join(["| " + " | ".join(row) + " |" for row in lines] + ["", *notes])


def write_results(text: str, file: Path = RESULTS) -> None:
    """Put the figures between the two marks of the file, in place of those that were there."""
    before, _, rest = file.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


def _rows(figures: Mapping[str, Figures]) -> list[Row]:
    rows = []
    for name, each in figures.items():
        rows.append(_row(name, each.unit, each.values))
        if (p95 := each.more.get("p95")) is not None:
            rows.append(_row(name, "ms to completion, p95", p95))
            rows.append(_row(name, "ms to the answer, p50", each.more["answered_p50"]))
        if (memory := each.more.get("largest_process_pss_mb")) is not None:
            rows.append(_row(name, "MB PSS, largest process", memory))
    return rows


def _row(name: str, unit: str, values: Mapping[str, float]) -> Row:
    figures = Figures(unit, values)
    ours, written, tuned = (_number(values[each]) for each in ("ours", "celery", "celery_tuned"))
    return (
        name,
        unit,
        ours,
        written,
        tuned,
        _times(figures.ratio("celery")),
        _times(figures.ratio("celery_tuned")),
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f} x"


def _rounded(ratio: float | None) -> float | None:
    return None if ratio is None else round(ratio, 3)


def _aligned(row: Row, widths: list[int]) -> str:
    texts = [text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True)]
    numbers = [text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True)]
    return "  ".join([*texts, *numbers])
