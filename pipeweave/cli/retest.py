"""`pipeweave retest`: call the code of today with the inputs of recorded runs, decide their steps again, and
compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments, redecisions
from pipeweave.cli.support.connection import connected_if_configured, json_option, required
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.redecisions import Redecisions
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.errors import NotFound
from pipeweave.spec.kinds import CALLED

if TYPE_CHECKING:
    from pipeweave.authoring import Task
    from pipeweave.client import Client, Document
    from pipeweave.testing.recorded_run import RecordedRun
    from pipeweave.testing.retesting import Retested

# Final statuses with an outcome: the others are not read in full.
WITH_OUTCOME = frozenset({"completed", "failed", "timeout"})
# Differences of one result that are shown.
MOST_DIFFERENCES = 10


@click.command(
    epilog=examples(
        "pipeweave retest latest --app shop.tasks",
        "pipeweave retest --pipeline nightly --last 20 --app shop.tasks",
        "pipeweave retest --from part-00001.ndjson.gz --app shop.tasks",
    )
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--app", "apps", required=True, multiple=True, metavar="MODULE", help="Where the code is.")
@click.option("--pipeline", help="With --last, --from or `latest`: of this pipeline.")
@click.option("--last", metavar="N", type=click.IntRange(1, 1_000), help="The newest completed runs.")
@click.option(
    "--only", multiple=True, metavar="TASK", help="Call only these tasks, and compare no decisions."
)
@click.option("--no-calls", is_flag=True, help="Compare what is decided alone: call no function.")
@click.option(
    "--from",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Runs of an archive or of exports; nothing is called.",
)
@json_option
@connected_if_configured
@click.pass_context
def retest(
    ctx: click.Context,
    client: Client | None,
    runs: tuple[str, ...],
    apps: tuple[str, ...],
    pipeline: str | None,
    last: int | None,
    only: tuple[str, ...],
    no_calls: bool,
    files: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Call today's code with the inputs of recorded runs.

    Each completed step is called here with what its attempt was called with, and its result and its choice of
    successors are compared. What each step came to is given to the rules of the pipeline of today: whether a
    step runs, into how many items it is mapped, with which params. Nothing is stored or sent: a call that
    connects to something or starts a process is skipped, with the reason. Exits 1 if a result or a decision
    differs, or a call fails.
    """
    from pipeweave.authoring.task_loading import load

    if not files and bool(runs) == (last is not None):
        raise click.UsageError("give either runs, or --last, or --from")
    if files and (last is not None or only):
        raise click.UsageError("--from calls nothing: it takes runs and --pipeline, not --last or --only")
    if only and no_calls:
        raise click.UsageError("--only calls tasks, --no-calls calls none")
    loaded = load(apps, may_lack_tasks=True)
    seen = _Comparisons(as_json)
    if files:
        for record in _of_files(files, runs, pipeline):
            seen.take_decisions(Redecisions(loaded, None).row(record))
    else:
        known = required(client)
        again = Redecisions(loaded, known)
        for run_id in _chosen(known, runs, pipeline, last):
            listed = list(known.task_runs(run_id))
            details = _details(known, listed, has_calls=not no_calls)
            for row in () if no_calls else _rows(run_id, details, loaded.tasks, only):
                seen.take_step(row)
            if not only:
                seen.take_decisions(again.row(again.recorded(run_id, listed, details)))
    ctx.exit(seen.close())


class _Comparisons:
    """Counts what was compared, and prints or collects it."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.counts: Counter[str] = Counter()
        self.decided: Counter[str] = Counter()
        self._steps: list[dict[str, Any]] = []
        self._decisions: list[dict[str, Any]] = []

    def take_step(self, row: dict[str, Any]) -> None:
        self.counts[row["verdict"]] += 1
        if self.as_json:
            self._steps.append(row)
        else:
            _show(row)

    def take_decisions(self, row: dict[str, Any]) -> None:
        word = "uncompared" if row["why"] else "different" if row["changes"] else "same"
        self.decided[word] += 1
        if self.as_json:
            self._decisions.append(row)
        else:
            redecisions.show(row)

    def close(self) -> int:
        """Print the sums; gives the exit code."""
        if self.as_json:
            show_json({"counts": dict(self.counts), "steps": self._steps, "decisions": self._decisions})
        else:
            if self.counts:
                click.echo(_sums(self.counts, "same", "different", "failed", "skipped"), err=True)
            if self.decided:
                said = _sums(self.decided, "same", "different", "uncompared")
                click.echo(f"decisions of runs: {said}", err=True)
        return int(bool(self.counts["different"] or self.counts["failed"] or self.decided["different"]))


def _sums(counts: Counter[str], *names: str) -> str:
    return ", ".join(f"{counts[name]:,} {name}" for name in names)


def _chosen(client: Client, runs: tuple[str, ...], pipeline: str | None, last: int | None) -> Iterator[str]:
    if last is None:
        yield from (id_arguments.run(client, each, pipeline) for each in runs)
    else:
        for each in client.runs(status="completed", pipeline_id=pipeline, limit=last).items:
            yield each["id"]


def _of_files(
    files: tuple[Path, ...], references: tuple[str, ...], pipeline: str | None
) -> Iterator[RecordedRun]:
    """The runs of files: those of a pipeline, those that are named by their ids or the beginnings of them."""
    from pipeweave.cli.support.recorded_files import runs_of

    records = runs_of(files)
    for reference in references:
        if not any(each.run["id"].startswith(reference) for each in records):
            raise NotFound(f"the files have no run {reference[:100]}")
    for each in records:
        is_named = not references or each.run["id"].startswith(references)
        if is_named and each.run["pipelineId"] is not None and pipeline in (None, each.run["pipelineId"]):
            yield each


def _details(client: Client, listed: list[Document], *, has_calls: bool) -> dict[str, Document]:
    """The task runs in full of which the calls, or the decisions, are compared."""
    return {
        each["id"]: client.task_run(each["id"], load=True)
        for each in listed
        if each["status"] in WITH_OUTCOME and (has_calls or each["mapIndex"] is None)
    }


def _rows(
    run_id: str, details: Mapping[str, Document], tasks: Mapping[str, Task[..., Any]], only: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    from pipeweave.testing.retesting import retest as call_again

    completed = [each for each in details.values() if each["status"] == "completed"]
    outputs = {each["stepId"]: each["output"] for each in completed if each.get("mapIndex") is None}
    for each in completed:
        if each["kind"] in CALLED and (not only or each["taskId"] in only):
            yield _row(run_id, each, call_again(tasks.get(each["taskId"]), each, outputs))


def _row(run_id: str, recorded: Document, outcome: Retested) -> dict[str, Any]:
    from dataclasses import asdict

    from pipeweave.orchestrator.domain import json_differences

    row = {
        "run": run_id,
        "step": recorded["stepId"],
        "mapIndex": recorded.get("mapIndex"),
        "task": recorded["taskId"],
        "verdict": outcome.verdict,
        "why": outcome.why,
    }
    if outcome.verdict != "different":
        return row
    changes, is_complete = json_differences.differences(recorded["output"], outcome.output, MOST_DIFFERENCES)
    chosen = None if outcome.run_next is None else list(outcome.run_next)
    return row | {
        "differences": [asdict(each) for each in changes],
        "isComplete": is_complete,
        "choice": None if chosen == recorded["selectedNext"] else [recorded["selectedNext"], chosen],
    }


def _show(row: Mapping[str, Any]) -> None:
    index = "" if row["mapIndex"] is None else f"[{row['mapIndex']}]"
    why = f": {row['why']}" if row["why"] else ""
    click.echo(text(f"{row['run']} {row['step']}{index} {row['verdict']}{why}"))
    for each in row.get("differences", ()):
        click.echo("  " + text(f"{each['path'] or 'output'}: {each['before']!r} -> {each['after']!r}"))
    if row.get("choice"):
        click.echo("  " + text("chose: {} -> {}".format(*row["choice"])))
    if row.get("isComplete") is False:
        click.echo("  and more")
