"""Follow a run to its end: a live table on a terminal, one line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support.rendering import STYLES, is_terminal, text, width
from pipeweave.cli.support.run_view import show_end
from pipeweave.cli.support.steps import StepProgress, steps_of
from pipeweave.cli.support.tables import letters
from pipeweave.cli.support.waiting import why_waiting
from pipeweave.client.following import follow as follow_run
from pipeweave.client.waiting import RunWait
from pipeweave.errors import PipeWeaveError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from pipeweave.client import Client, Run

BAR_WIDTH = 24
REDRAWS_PER_SECOND = 8
SHOWN_STEPS = 20
# After this time without any change, say why the run does not go on; look again as often (s).
QUIET_S = 2.0

Tell = Callable[["Run"], None]
Say = Callable[[str], None]


def follow(client: Client, run_id: str, timeout: float | None = None, *, shows_output: bool = True) -> Run:
    """Show the progress of a run until it is final, then its end, its errors and (if wanted) its output.

    Raises:
        WaitTimeout: the run has not finished after `timeout` seconds.
    """
    final = _live(client, run_id, timeout) if is_terminal() else _lines(client, run_id, timeout)
    show_end(final, shows_output=shows_output)
    return final


class _Silence:
    """Says why a run does not go on, when nothing has changed for a while and whenever the reason changes."""

    def __init__(self, client: Client, say: Say) -> None:
        self._client, self._say = client, say
        self._last: object = None
        self._reason: tuple[str, ...] | None = None
        self._since = time.monotonic()

    def saw(self, run: Run) -> None:
        now = time.monotonic()
        if run.document != self._last:
            self._last, self._since, self._reason = run.document, now, None
        elif now - self._since >= QUIET_S and not run.is_final:
            self._since = now
            self._explain(run)

    def _explain(self, run: Run) -> None:
        try:
            waiting = why_waiting(self._client, run)
        except PipeWeaveError:
            return  # the next look at the run says what is wrong
        if waiting is not None and waiting.key != self._reason:
            self._reason = waiting.key
            self._say(waiting.line)


def _wait(client: Client, run_id: str, timeout: float | None, tell: Tell, say: Say) -> Run:
    waiting = RunWait(run_id, timeout, tell, on_pause=lambda sentence: say(text(sentence)))
    silence = _Silence(client, say)
    return follow_run(client, client.run, run_id, waiting, is_shown=True, on_look=silence.saw)


# --- lines ------------------------------------------------------------------------------------------------


def _lines(client: Client, run_id: str, timeout: float | None) -> Run:
    printed_keys: dict[str, tuple[object, ...]] = {}

    def tell(run: Run) -> None:
        for each in steps_of(run):
            key = _key(each)
            if (each.status != "pending" or each.is_retrying) and printed_keys.get(each.id) != key:
                printed_keys[each.id] = key
                click.echo(f"{each.id}  {_line(each)}")

    return _wait(client, run_id, timeout, tell, click.echo)


def _key(step: StepProgress) -> tuple[object, ...]:
    """When this changes, the step gets a further line: not for each item or percent, to keep logs short."""
    share = step.done * 4 // step.total if step.is_map and step.total else 0
    return step.status, step.attempt, share, int((step.progress or 0) // 25), step.message, step.child


def _line(step: StepProgress) -> str:
    if step.is_retrying:
        return step.detail() or "retry"
    parts = [step.status]
    if step.is_map and step.total:
        parts.append(step.counts())
    parts += [inside] if (inside := step.inside()) else []
    if step.is_final:
        parts += [f"attempt {step.attempts()}"] if step.attempt > 1 and not step.is_map else []
        return "  ".join([*parts, step.duration()])
    return "  ".join([*parts, *([step.reported() or ""] if step.reported() else [])])


# --- on a terminal ----------------------------------------------------------------------------------------


def _live(client: Client, run_id: str, timeout: float | None) -> Run:
    from rich.live import Live

    shown: list[Run] = []

    def picture() -> RenderableType:
        """Made anew at each redraw: durations and countdowns go on between two answers of the API."""
        return _picture(shown[-1]) if shown else ""

    def tell(run: Run) -> None:
        shown[:] = [run]

    with Live(get_renderable=picture, refresh_per_second=REDRAWS_PER_SECOND) as live:
        return _wait(client, run_id, timeout, tell, lambda line: live.console.out(line, highlight=False))


def _picture(run: Run) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    steps = steps_of(run)
    shown = shown_steps(steps)
    table = Table.grid(padding=(0, 2))
    for column in ("id", "status", "bar", "counts", "took", "detail"):
        table.add_column(no_wrap=column in ("id", "status", "took"), overflow="fold")
    bar = _bar_width(shown)
    for each in shown:
        table.add_row(
            Text(each.id),
            Text(each.status, style=STYLES.get(each.status, "")),
            _bar(each, bar) if bar else "",
            Text(each.counts(), style="red" if each.failed else ""),
            each.duration() if each.started_at else "",
            Text(text(each.detail()) if each.detail() else ""),
        )
    if len(steps) <= SHOWN_STEPS:
        return table
    done = sum(each.is_final for each in steps)
    return Group(table, Text(f"{done:,} of {len(steps):,} steps are done", style="bright_black"))


def _bar(step: StepProgress, size: int) -> RenderableType:
    from rich.progress_bar import ProgressBar

    share = (step.progress or 0) / 100 if not step.is_map and not step.is_final else step.done
    return ProgressBar(
        total=max(step.total, 1),
        completed=share,
        width=size,
        complete_style="cyan",
        finished_style="red" if step.failed else "green",
    )


def _bar_width(steps: list[StepProgress]) -> int:
    """The bars take what the texts leave; 0 for no bars."""
    texts = [
        max((letters(cell) for cell in cells), default=0)
        for cells in (
            [each.id for each in steps],
            [each.status for each in steps],
            [each.counts() for each in steps],
            [each.duration() for each in steps],
            [each.detail() or "" for each in steps],
        )
    ]
    left = width() - sum(texts[:-1]) - min(texts[-1], BAR_WIDTH) - 2 * len(texts)
    return min(BAR_WIDTH, left) if left >= 4 else 0


def shown_steps(steps: list[StepProgress]) -> list[StepProgress]:
    """The steps to show on a terminal: all, or if there are many, the running and failed steps."""
    if len(steps) <= SHOWN_STEPS:
        return steps
    wanted = [each for each in steps if each.started_at and (not each.is_final or each.failed)]
    return wanted[:SHOWN_STEPS]
