"""`pipeweave schedule import-celery`: make schedules of the entries of a Celery app's `beat_schedule`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.beat_entries import PREFIX, BeatEntry, NotImportable, entries_of
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import field, show_list
from pipeweave.cli.support.schedules import times_of
from pipeweave.cli.support.tables import Column
from pipeweave.errors import InputValidationFailed, InvalidInput

if TYPE_CHECKING:
    from pipeweave.client import Client

SOURCE = "celery"
# What a stored schedule and its request have in common, with the defaults of a request.
_COMPARED: dict[str, Any] = {
    **dict.fromkeys(("pipelineId", "cron", "everyMs", "at", "input", "startAt", "endAt")),
    "timeZone": "UTC",
    "missedPolicy": "one",
    "overlapPolicy": "allow",
    "jitterMs": 0,
}


def _mapping(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    pairs = [each.partition("=") for each in value]
    if wrong := [name for name, mark, id in pairs if not (name and mark and id)]:
        raise click.BadParameter(f"{wrong[0]!r} is not TASK=PIPELINE", ctx, param)
    return {name: id for name, _, id in pairs}


@click.command(
    "import-celery",
    epilog=examples(
        "pipeweave schedule import-celery --app proj.celery:app --dry-run",
        "pipeweave schedule import-celery --app proj --map proj.report=nightly",
    ),
)
@click.option("--app", required=True, metavar="APP", help="The Celery app, such as proj.celery:app.")
@click.option(
    "--map",
    "mapping",
    multiple=True,
    callback=_mapping,
    metavar="TASK=PIPELINE",
    help="The pipeline for a Celery task; without it, the one with the name of the task, or its last part.",
)
@click.option("--time-zone", metavar="ZONE", help="Of the cron lines; the app's own without it.")
@click.option("--dry-run", is_flag=True, help="Only print what would be stored.")
@json_option
@connected
@click.pass_context
def import_celery(
    ctx: click.Context,
    client: Client,
    app: str,
    mapping: dict[str, str],
    time_zone: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import the schedules of Celery beat.

    Each entry of the app's beat_schedule becomes the schedule celery:NAME. The same import again changes
    nothing; a schedule that somebody has changed stays as it is. Exits 1 if an entry was skipped.
    """
    if time_zone is not None:
        _check_zone(ctx, time_zone)
    entries = entries_of(_celery_app(app), time_zone)
    target = _Target(client, mapping, dry_run)
    rows = [target.put(each) for each in entries]
    rows += target.left_over({each.id for each in entries})
    _show(rows, as_json, dry_run)
    ctx.exit(1 if any(each["state"] == "skipped" for each in rows) else 0)


def _check_zone(ctx: click.Context, name: str) -> None:
    from pipeweave.spec import timetable

    try:
        timetable.zone(name)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param_hint="--time-zone") from None


def _celery_app(name: str) -> Any:
    """Import a Celery app, as `celery -A` does.

    Raises:
        InvalidInput: it cannot be imported, or is no Celery app.
    """
    from celery import Celery
    from celery.app.utils import find_app

    from pipeweave.authoring.import_errors import described

    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        app = find_app(name)
        if not isinstance(app, Celery):
            raise TypeError(f"{name} is no Celery app")
        # `add_periodic_task` is often called when the app is ready.
        app.finalize()
        app.conf.beat_schedule  # noqa: B018
    except Exception as error:
        hint = "--app takes what `celery -A` takes, such as proj.celery:app"
        raise InvalidInput(f"{name} cannot be loaded: {described(error)}", hint=hint) from error
    return app


class _Target:
    """The schedules of a deployment, into which entries are stored."""

    def __init__(self, client: Client, mapping: Mapping[str, str], is_dry: bool) -> None:
        self.client = client
        self.mapping = mapping
        self.is_dry = is_dry
        self.pipelines = {each["id"] for each in client.pipelines()}
        self.tasks = {each["id"] for each in client.tasks() if each["orphanedAt"] is None}
        self.stored = {each["id"]: each for each in client.schedules()}

    def put(self, entry: BeatEntry) -> dict[str, Any]:
        """Store an entry, and say what became of it."""
        row = {"schedule": entry.id, "entry": entry.name, "task": entry.task, "pipeline": None}
        row |= {"times": None, "state": "skipped", "why": entry.reason}
        if entry.reason is not None:
            return row
        try:
            pipeline = self.pipeline(entry)
            task_input = self.input(entry, pipeline)
        except NotImportable as error:
            return {**row, "why": str(error)}
        body = {"pipelineId": pipeline, **entry.times} | ({"input": task_input} if task_input else {})
        row |= {"pipeline": pipeline, "times": times_of({"cron": None, "everyMs": None, **entry.times})}
        row["why"] = f"left out: {', '.join(entry.options)}" if entry.options else None
        return {**row, **self._store(entry, pipeline, body)}

    def _store(self, entry: BeatEntry, pipeline: str, body: dict[str, Any]) -> dict[str, Any]:
        before = self.stored.get(entry.id)
        if before is not None and before.get("source") != SOURCE:
            return {"state": "kept", "why": "somebody has changed it"}
        if before is not None and _is_same(before, body):
            return {"state": "unchanged"}
        if not self.is_dry:
            try:
                self._send(entry.id, pipeline, body)
            except (InputValidationFailed, InvalidInput) as error:
                return {"state": "skipped", "why": error.detail}
        return {"state": "new" if before is None else "changed"}

    def _send(self, schedule_id: str, pipeline: str, body: dict[str, Any]) -> None:
        if pipeline not in self.pipelines:
            self.client.put_pipeline(pipeline, {"steps": [{"task": pipeline}]})
            self.pipelines.add(pipeline)
        self.client.put_schedule(schedule_id, {**body, "source": SOURCE})

    def pipeline(self, entry: BeatEntry) -> str:
        """The pipeline for an entry's task; that of a task of ours has its id and is stored if needed."""
        mapped = self.mapping.get(entry.task)
        names = [mapped] if mapped is not None else [entry.task, entry.task.rpartition(".")[2]]
        for known in (self.pipelines, self.tasks):
            for name in names:
                if name in known:
                    return name
        if mapped is not None:
            raise NotImportable(f"there is no pipeline or task {mapped!r}")
        raise NotImportable("its task is neither a pipeline nor a task here: see --map")

    def input(self, entry: BeatEntry, pipeline: str) -> dict[str, Any]:
        """The input that stands for an entry's arguments, by the names of the pipeline's inputs."""
        if not entry.args:
            return dict(entry.kwargs)
        names = self._input_names(pipeline) if pipeline in self.pipelines else []
        if len(names) < len(entry.args):
            raise NotImportable(f"its args have no names: pipeline {pipeline} has {len(names)} named inputs")
        by_place = dict(zip(names, entry.args, strict=False))
        if both := sorted(by_place.keys() & entry.kwargs):
            raise NotImportable(f"{both[0]} is given by args and by kwargs")
        return {**by_place, **entry.kwargs}

    def _input_names(self, pipeline: str) -> list[str]:
        schema = self.client.pipeline(pipeline)["spec"].get("inputSchema") or {}
        return [str(each["name"]) for each in schema.get("fields", [])]

    def left_over(self, ids: set[str]) -> list[dict[str, Any]]:
        """What an earlier import has stored of entries that the app has no more."""
        return [
            {
                "schedule": id,
                "entry": None,
                "task": None,
                "pipeline": each["pipelineId"],
                "times": times_of(each),
            }
            | {"state": "left", "why": "no longer in beat_schedule: delete it"}
            for id, each in self.stored.items()
            if each.get("source") == SOURCE and id.startswith(PREFIX) and id not in ids
        ]


def _is_same(stored: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    def comparable(fields: Mapping[str, Any], name: str) -> Any:
        value = fields.get(name, _COMPARED[name])
        return value.replace(".000Z", "Z") if name == "startAt" and isinstance(value, str) else value

    return all(comparable(stored, name) == comparable(body, name) for name in _COMPARED)


def _show(rows: list[dict[str, Any]], as_json: bool, is_dry: bool) -> None:
    cells = {
        Column("schedule", wraps=True): field("schedule"),
        Column("pipeline", drop=2, wraps=True): field("pipeline"),
        Column("times", drop=1): field("times"),
        Column("state"): field("state"),
        Column("why", wraps=True): field("why"),
    }
    show_list("schedules", rows, cells, as_json=as_json, none="The app has no beat_schedule.")
    if is_dry and not as_json:
        click.echo("Nothing was stored (--dry-run).")
