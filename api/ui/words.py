"""Filters of the templates: times, durations, sizes and numbers as people read them, and JSON."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from markupsafe import Markup, escape

from pipeweave.api.http import RecordedCall
from pipeweave.api.ui.clock_times import on_clocks
from pipeweave.ids import ENGINE_TASK_PREFIX
from pipeweave.orchestrator.domain import stored_lines
from pipeweave.spec import seen

# Keys of steps that the engine decides, with what they are called.
ENGINE_WORDS = {
    **{each: each for each in ("choice", "transform", "gather", "signal", "approval", "sleep")},
    **dict.fromkeys(("sleepMs", "sleepUntil"), "sleep"),
    **{each: each for each in ("pipeline", "loop")},
}
# Filter name -> function.
FILTERS: dict[str, Callable[..., Any]] = {"on_clocks": on_clocks, "seen": seen}


def _filter(function: Callable[..., Any]) -> Callable[..., Any]:
    FILTERS[function.__name__] = function
    return function


def is_engine(task_id: str) -> bool:
    """Whether the engine decides such a step itself, so that there is no task."""
    return task_id.startswith(ENGINE_TASK_PREFIX)


@_filter
def task_word(task_id: str) -> str:
    """The id of a task, or the word of a step that the engine decides: `choice` of `pipeweave:choice`."""
    return task_id.removeprefix(ENGINE_TASK_PREFIX)


@_filter
def step_word(step: Mapping[str, Any]) -> str:
    """What a step of a document is: `task`, `map`, or the word of what the engine decides."""
    if step.get("map"):
        return "map"
    engine = next((each for each in ENGINE_WORDS if each in step), None)
    return ENGINE_WORDS[engine] if engine else "task"


@_filter
def duration(ms: float | None) -> str:
    """`412 ms`, `41.2 s`, `12 min 5 s`, `3 h 20 min`, `12 d 4 h`; nothing for None."""
    if ms is None:
        return ""
    if ms < 1_000:
        return f"{ms:.0f} ms" if ms >= 1 else "< 1 ms"
    seconds = ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 59.95 else "1 min"
    for size, big, small in ((60, "min", "s"), (3_600, "h", "min"), (86_400, "d", "h")):
        step = {60: 1, 3_600: 60, 86_400: 3_600}[size]
        if seconds < {60: 3_600, 3_600: 86_400, 86_400: float("inf")}[size]:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {big} {rest // step} {small}" if rest // step else f"{whole} {big}"
    raise AssertionError("the last size has no end")


@_filter
def moment(text: str | None, *, on_clock: bool = False) -> Markup:
    """A time as the API writes it, as a `<time>`: in UTC here, and in the reader's zone once scripts run.

    Args:
        on_clock: as a clock shows it, also if it is young; others say how long ago they were.
    """
    if not text:
        return Markup("")
    at = datetime.fromisoformat(text).astimezone(UTC)
    shown, exact = at.strftime("%Y-%m-%d %H:%M:%S"), " data-exact" if on_clock else ""
    # Nothing in it is anybody's text.
    name = f"{shown[:10]}T{shown[11:]}.{at.microsecond // 1_000:03d}Z"
    return Markup(f'<time datetime="{name}" title="{shown} UTC"{exact}>{shown}</time>')


@_filter
def later(text: str, ms: float) -> str:
    """A time as the API writes it, so many milliseconds later."""
    return (datetime.fromisoformat(text) + timedelta(milliseconds=ms)).isoformat()


@_filter
def minute(text: str) -> Markup:
    """A time as `moment` shows it, of which only the minute matters: the page stays the same for as long."""
    shown: Markup = moment(datetime.fromisoformat(text).replace(second=0, microsecond=0).isoformat())
    return shown


@_filter
def number(value: float | None) -> str:
    """`12,340`; nothing for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.2f}"


@_filter
def uptime(share: float) -> str:
    """A share of time in percent, never rounded up to all of it: `99.97 %`."""
    return "100 %" if share >= 1 else f"{math.floor(share * 10_000) / 100:.2f} %"


@_filter
def bytesize(value: float | None) -> str:
    """`412 bytes`, `1.5 KiB`, `20 MiB`; nothing for None."""
    if value is None:
        return ""
    if value < 1_024:
        return f"{value:.0f} bytes"
    size = float(value)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1_024
        if size < 1_024 or unit == "TiB":
            break
    return f"{size:.1f} {unit}" if size < 10 else f"{size:.0f} {unit}"


@_filter
def pretty(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False)


@_filter
def queue(name: str) -> str:
    """The name of a queue without what all of a tenant have in common: `mailer/gpu` of
    `pipeweave.default.mailer/gpu`.
    """
    own, apart, rest = name.partition("#")
    shown = own.split(".", 2)[-1].replace("!http", "HTTP dispatches")
    if rest.startswith("waiting#"):
        return f"waits for a worker with {rest.removeprefix('waiting#')}"
    return f"{shown}, for one code" if apart else shown


@_filter
def short(id: str) -> Markup:
    """An id with its middle left out, and the whole id for the pointer and for programs."""
    prefix, _, rest = id.partition("_")
    text = f"{prefix}_{rest[:4]}…{rest[-6:]}" if len(rest) > 12 else id
    return Markup('<span class="id" title="{}">{}</span>').format(id, text)


# Controls that turn the direction of what follows them, to the end of the line or block.
_TURNING = {code: f"[U+{code:04X}]" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}


@_filter
def unturned(text: str) -> str:
    """A text whose controls of direction are shown, and turn nothing: `[U+202E]`."""
    return text.translate(_TURNING)


@_filter
def sentence(error: Any) -> str:
    """An error of a run or task run in one line."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("detail") or json.dumps(error, ensure_ascii=False)
    lines = str(error or "").strip().splitlines()
    return unturned(lines[0][:300]) if lines else ""


@_filter
def curl(asked: RecordedCall, tenant: str, host: str) -> str:
    """A request as a command for a shell."""
    query = "&".join(f"{name}={value}" for name, value in asked.query)
    url = f"{host}{asked.path}" + (f"?{query}" if query else "")
    parts = ["curl", *([] if asked.method == "GET" else ["-X", asked.method])]
    parts += ["-H", '"Authorization: Bearer $PIPEWEAVE_API_TOKEN"', "-H", shlex.quote(f"X-Tenant: {tenant}")]
    if asked.body is not None:
        body = json.dumps(asked.body, ensure_ascii=False)
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(body)]
    return " ".join([*parts, shlex.quote(url)])


@_filter
def lines(text: str) -> Markup:
    """Text whose parts between backticks are code."""
    pieces = unturned(str(text)).split("`")
    shown = (
        Markup("<code>{}</code>").format(each) if index % 2 else escape(each)
        for index, each in enumerate(pieces)
    )
    return Markup("").join(shown)


@_filter
def compact(value: Any) -> str:
    """A value as JSON in one line, cut after 200 characters."""
    text = unturned(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 200 else f"{text[:199]}…"


@_filter
def digest(text: str) -> str:
    """A short hash of a text, for the id of an element that must be made anew when the text changes."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


@_filter
def waited(task_run: Mapping[str, Any]) -> float:
    """How long a task run was queued before it began (ms)."""
    queued, began = (datetime.fromisoformat(task_run[name]) for name in ("queuedAt", "startedAt"))
    return max(0.0, (began - queued).total_seconds() * 1_000)


@_filter
def clock(text: str) -> Markup:
    """A time of the day to the millisecond, for rows whose order matters: in UTC here, and in the
    reader's zone once scripts run (static/js/time.js). What says no time stays as it is.
    """
    at = stored_lines.moment_in(text)
    if at is None:
        return escape(text)
    whole = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{0}" title="{0}" data-clock>{1}</time>').format(whole, whole[11:23])
