"""Compares the decisions of recorded runs with those that an app's definitions lead to, and shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.rendering import text
from pipeweave.errors import NotFound, PipeWeaveError

if TYPE_CHECKING:
    from pipeweave.authoring.task_loading import Loaded
    from pipeweave.client import Client, Document
    from pipeweave.spec import PipelineSpec
    from pipeweave.testing.recorded_run import RecordedRun

# Of one run: changes, and of one change of params or outputs, differences; and rounds of a loop.
MOST_CHANGES = 100
MOST_DIFFERENCES = 10
MOST_ROUNDS = 100
# Steps that are named of those that are not decided.
MOST_NAMED = 10


class Redecisions:
    """Compares runs one after the other.

    Args:
        loaded: the tasks and pipelines of the app.
        client: knows earlier versions of pipelines, and the rounds of loops; None: nothing does.
    """

    def __init__(self, loaded: Loaded, client: Client | None) -> None:
        self._specs = {spec.id: spec for spec, _ in loaded.pipelines}
        self._options = {id: each.spec for id, each in loaded.tasks.items()}
        self._client = client
        self._before: dict[tuple[str, int], PipelineSpec | None] = {}

    def recorded(self, run_id: str, listed: list[Document], details: Mapping[str, Document]) -> RecordedRun:
        """A run of the deployment with its task runs, in full where they are known."""
        from pipeweave.testing.recorded_run import RecordedRun

        assert self._client is not None, "it has listed them"
        run = self._client.run(run_id, load=True).document
        full = [details.get(each["id"], each) for each in listed]
        return RecordedRun.of(run, full, self._rounds(run, listed))

    def row(self, record: RecordedRun) -> dict[str, Any]:
        """What is decided otherwise in a run, as it is printed."""
        from pipeweave.testing.decision_changes import decided_again

        run = record.run
        row = {"run": run["id"], "pipeline": run["pipelineId"], "changes": [], "undecided": {}, "why": ""}
        spec = self._specs.get(run["pipelineId"])
        why = record.why_not() if spec else f"the app has no pipeline {run['pipelineId']}"
        if spec is None or why is not None:
            return row | {"why": why}
        try:
            decided = decided_again(record, spec, self._version(run), self._options)
        except PipeWeaveError as error:
            return row | {"why": error.detail}
        shown = [_change(asdict(each)) for each in decided.changes[:MOST_CHANGES]]
        return row | {
            "changes": shown,
            "isComplete": len(shown) == len(decided.changes),
            "undecided": decided.undecided,
        }

    def _version(self, run: Mapping[str, Any]) -> PipelineSpec | None:
        """The definition of a run's version; None if nothing knows it."""
        from pipeweave.spec import parse_spec

        key = run["pipelineId"], run["pipelineVersion"]
        if self._client is not None and key not in self._before:
            try:
                self._before[key] = parse_spec(self._client.pipeline(*key)["spec"])
            except NotFound:
                self._before[key] = None
        return self._before.get(key)

    def _rounds(self, run: Mapping[str, Any], listed: list[Document]) -> dict[str, list[Any]]:
        """The outputs of the rounds of loops, by step; a loop with very many of them is left out."""
        from pipeweave.spec import LoopStep

        spec, client = self._specs.get(run["pipelineId"]), self._client
        if spec is None or client is None:
            return {}
        loops = {each.id for each in spec.steps if isinstance(each.decides, LoopStep) and not each.has_items}
        rounds: dict[str, list[Any]] = {}
        for each in listed:
            if each["stepId"] in loops and each["status"] == "completed":
                page = client.children(run["id"], limit=MOST_ROUNDS, task_run_id=each["id"])
                ended = [one["id"] for one in page.items if one["status"] in ("completed", "partial")]
                if page.next_cursor is None:
                    rounds[each["stepId"]] = [client.run(id, load=True).output for id in reversed(ended)]
        return rounds


def _change(change: dict[str, Any]) -> dict[str, Any]:
    """A change with the differences of its values, where these are long."""
    from pipeweave.orchestrator.domain import json_differences

    if change["what"] not in ("params", "output"):
        return change
    differences, is_whole = json_differences.differences(
        change.pop("then"), change.pop("now"), MOST_DIFFERENCES
    )
    return change | {"differences": [asdict(each) for each in differences], "isWhole": is_whole}


def show(row: Mapping[str, Any]) -> None:
    """Print what is decided otherwise in a run; nothing if all is the same."""
    run = row["run"]
    if row["why"]:
        click.echo(text(f"{run} decisions not compared: {row['why']}"))
    for each in row["changes"]:
        click.echo(text(f"{run} step {each['step']}: {each['said']}"))
        for one in each.get("differences", ()):
            click.echo("  " + text(f"{one['path'] or each['what']}: {one['before']!r} -> {one['after']!r}"))
        if each.get("isWhole") is False:
            click.echo("  and more")
    if row.get("isComplete") is False:
        click.echo(f"{run} and more")
    for why, steps in row["undecided"].items():
        more = f" and {len(steps) - MOST_NAMED:,} more" if len(steps) > MOST_NAMED else ""
        click.echo(text(f"{run} not decided {why}: {', '.join(steps[:MOST_NAMED])}{more}"))
