"""`pipeweave tasks | deploys | pipelines`: list what is registered and loaded; store pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.pipelines_import import import_celery
from pipeweave.cli.support.connection import connected, connected_if_configured, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_task
from pipeweave.cli.support.rendering import (
    field,
    moment,
    show_answer,
    show_fields,
    show_json,
    show_list,
    text,
    when,
)
from pipeweave.cli.support.resource import Resource
from pipeweave.cli.support.schedules import schedules_of
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client


reason_option = click.option("--reason", help="For the audit.")


@click.group(cls=Resource, noun="task")
def tasks() -> None:
    """List the tasks, or remove one.

    Without a command, it lists them.
    """


@tasks.command("list")
@click.option("--service", help="Only this service's tasks.")
@click.option("--all", "shows_all", is_flag=True, help="Also those that PipeWeave brings.")
@json_option
@connected
def list_tasks(client: Client, service: str | None, shows_all: bool, as_json: bool) -> None:
    """List the tasks with code versions, workers and limits.

    The code version grows when the source of the task's own function changes, or its `version`; changes
    of what the function calls do not count. With --json all are listed.
    """
    cells = {
        Column("task"): field("id"),
        Column("service", drop=5): field("serviceId"),
        Column("code"): lambda each: f"v{each['codeVersion']}",
        Column("workers", wraps=True): _workers,
        Column("queue", drop=6): field("queue"),
        Column("hash", drop=10): _short("codeHash"),
        Column("attempts", drop=3): field("maxAttempts"),
        Column("timeout", drop=2): lambda each: f"{each['timeout']:g} s",
        Column("concurrency", drop=4): lambda each: each["concurrency"] or "unlimited",
        Column("rate", drop=7): field("rateLimit"),
        moment("paused since (UTC)", drop=1): lambda each: when(each["pausedAt"]),
        Column("priority", drop=8): field("priority"),
        Column("next", wraps=True, drop=9): field("allowedNext"),
    }
    none = "No tasks yet. `pipeweave worker --app YOUR_MODULE` registers them."
    from pipeweave.spec.unknown_tasks import BUILT_IN_TASKS

    rows = client.tasks(service)
    own = rows if shows_all or as_json else [each for each in rows if each["id"] not in BUILT_IN_TASKS]
    show_list("tasks", own or rows, cells, as_json=as_json, none=none, client=client)
    if own and len(own) < len(rows):
        click.echo(f"{len(rows) - len(own)} that PipeWeave brings are not shown: --all", err=True)


tasks.verb(
    "remove",
    """Remove a task that no live worker has.

    Its task runs that have not started are cancelled.
    """,
    "Removed task {taskId}; cancelled task runs: {cancelled:,}",
    click.option("--reason", help="Shown in the error of the cancelled task runs."),
)


@tasks.command(
    epilog=examples(
        "pipeweave tasks limits resize --concurrency 8 --reason 'a faster disk'",
        "pipeweave tasks limits resize --declared",
    )
)
@click.argument("task")
@click.option(
    "--concurrency", type=click.IntRange(min=0), metavar="N", help="Task runs at once; 0: no limit."
)
@click.option("--rate", metavar="100/m|none", help="Starts in a time; none: no limit.")
@click.option("--declared", is_flag=True, help="Let what the code declares hold again.")
@click.option("--reason", help="Shown with the task.")
@json_option
@connected
def limits(
    client: Client,
    task: str,
    concurrency: int | None,
    rate: str | None,
    declared: bool,
    reason: str | None,
    as_json: bool,
) -> None:
    """Show or set the limits of a task.

    Limits that are set hold instead of those that its code declares, across deployments. They are set as a
    whole: what is not given is as the code declares it.
    """
    is_given = concurrency is not None or rate is not None
    if declared and is_given:
        raise click.UsageError("give --declared, or --concurrency and --rate")
    if declared or is_given:
        entry = client.set_task_limits(task, concurrency=concurrency, rate_limit=rate, reason=reason)
    else:
        entry = client.task(task)
    if as_json:
        show_json(entry)
        return
    set_at = entry["limitsSetAt"]
    declared_limits = (entry["declaredConcurrency"] or "unlimited", entry["declaredRateLimit"] or "unlimited")
    shown = {
        "task": entry["id"],
        "concurrency": entry["concurrency"] or "unlimited",
        "rate": entry["rateLimit"] or "unlimited",
        "declared": "{}, {}".format(*declared_limits),
        "set (UTC)": set_at and f"{when(set_at)} by {entry['limitsSetBy']} {entry['limitsReason'] or ''}",
    }
    show_fields(shown.items())


@click.command()
@click.argument("task", required=False)
@json_option
@connected
def deploys(client: Client, task: str | None, as_json: bool) -> None:
    """Show which code versions the live workers have.

    With TASK, it names the workers that have it.
    """
    cells: dict[Column, Callable[[Mapping[str, Any]], Any]] = {
        Column("task"): field("taskId"),
        Column("service", drop=1): field("serviceId"),
        Column("code"): _code,
        Column("workers"): field("workerCount"),
        moment("since (UTC)", drop=2): lambda each: when(each["since"]),
    }
    rows = [each for each in client.deploys() if task in (None, each["taskId"])]
    if not rows and not as_json:
        require_task(client, task)
    if task is not None and not as_json:
        rows = [{**each, "worker": worker} for each in rows for worker in each["workers"]]
        cells = {Column("code"): _code, Column("worker"): lambda each: _process(each["worker"])}
    none = "No running worker has it. `pipeweave worker --app YOUR_MODULE` starts one."
    show_list("deploys", rows, cells, as_json=as_json, none=none, client=client)


def _workers(task: Mapping[str, Any]) -> str:
    if task["orphanedAt"] is not None:
        return "removed"
    if task["workerCount"] or task["lastSeen"] is None:
        return str(task["workerCount"])
    return f"none since {when(task['lastSeen'])}"


def _code(deploy: Mapping[str, Any]) -> str:
    version = "v?" if deploy["codeVersion"] is None else f"v{deploy['codeVersion']}"
    return version if deploy["isNewest"] else f"{version} (old)"


def _process(worker: str) -> str:
    """A worker id without the random end that makes it unique."""
    return worker.rpartition(":")[0] or worker


@click.group(cls=Resource)
def pipelines() -> None:
    """List, show and store pipelines; promote their versions.

    Without a command, it lists them.
    """


pipelines.add_command(import_celery)


@pipelines.command("list")
@json_option
@connected
def list_(client: Client, as_json: bool) -> None:
    """List the pipelines."""
    cells = {
        Column("pipeline"): field("id"),
        Column("version"): _current,
        moment("stored (UTC)", drop=1): lambda each: when(each.get("updatedAt")),
        Column("description", wraps=True): field("description"),
    }
    none = "No pipelines yet. Start a worker, or store one with `pipeweave pipelines put FILE`."
    show_list("pipelines", client.pipelines(), cells, as_json=as_json, none=none, client=client)


@pipelines.command()
@click.argument("pipeline")
@click.option(
    "--version",
    metavar="N",
    type=click.IntRange(min=1),
    help="The version to show. Defaults to the current one.",
)
@json_option
@connected
def show(client: Client, pipeline: str, version: int | None, as_json: bool) -> None:
    """Show a pipeline's steps, inputs and schedules."""
    definition = client.pipeline(pipeline, version)
    if as_json:
        show_json(definition)
        return
    spec = definition["spec"]
    shown = {
        "pipeline": definition["id"],
        "version": definition["version"],
        "current version": definition.get("currentVersion"),
        "promoted": "yes" if definition.get("promotedVersion") else "no, it is the newest",
        "description": spec.get("description"),
        "failure mode": spec.get("failureMode"),
        "stored (UTC)": when(definition.get("createdAt")),
        "spec hash": definition.get("specHash"),
        "schedules": schedules_of(client, definition["id"]),
    }
    show_fields(shown.items())
    click.echo()
    inputs = (spec.get("inputSchema") or {}).get("fields")
    if inputs:
        show_list("inputs", inputs, _input_cells(spec.get("defaults") or {}), as_json=False)
        click.echo()
    cells = {
        Column("step"): field("id"),
        Column("task"): field("task"),
        Column("needs", wraps=True): field("needs"),
        Column("map over", drop=1): lambda step: (step.get("map") or {}).get("over"),
    }
    show_list("steps", spec["steps"], cells, as_json=False)


def _input_cells(defaults: Mapping[str, Any]) -> dict[Column, Callable[[Any], Any]]:
    import json

    def default(each: Any) -> str | None:
        return json.dumps(defaults[each["name"]]) if each["name"] in defaults else None

    return {
        Column("input"): lambda each: each["name"],
        Column("type"): lambda each: "any" if each["type"] == "json" else each["type"],
        Column("required"): lambda each: "yes" if each.get("required") else "no",
        Column("default", wraps=True): default,
    }


@pipelines.command(epilog=examples("pipeweave pipelines put nightly.yaml"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@connected
def put(client: Client, file: Path, as_json: bool) -> None:
    """Store the pipelines of a YAML or JSON file.

    An unchanged pipeline keeps its version. A pipeline that another one runs is stored before it.
    """
    from pipeweave.cli.support.documents import callees_first, read_documents

    specs = callees_first(read_documents(file))
    stored = [client.put_pipeline(spec.id, spec.to_json()) for spec in specs]
    for answer in stored:
        for each in answer.get("warnings", ()):
            said = f"warning: {answer['pipelineId']}: {each['code']}: {each['message']}"
            click.echo(text(said), err=True)
    cells = {
        "pipeline": field("pipelineId"),
        "version": field("version"),
        "state": lambda each: "new" if each["isNew"] else "unchanged",
        "spec hash": _short("specHash"),
    }
    show_list("pipelines", stored, cells, as_json=as_json)


@pipelines.command(epilog=examples("pipeweave pipelines check nightly.yaml"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@json_option
@connected_if_configured
@click.pass_context
def check(ctx: click.Context, client: Client | None, file: Path, as_json: bool) -> None:
    """Check the pipelines of a file without storing them.

    It tells every mistake at once. Exits 1 if there is one. Without an orchestrator, it checks all but
    whether tasks and pipelines exist and take their params.
    """
    from pipeweave.cli.support.documents import named_documents
    from pipeweave.spec.checked_document import check_document

    check_one = check_document if client is None else client.check_pipeline
    checked = {name: check_one(each) for name, each in named_documents(file).items()}
    if client is None:
        click.echo("tasks and pipelines were not looked up: no orchestrator is configured", err=True)
    if as_json:
        show_json(next(iter(checked.values())) if len(checked) == 1 else checked)
    for name, answer in checked.items() if not as_json else ():
        click.echo(f"{text(name)}: {'valid' if answer['valid'] else 'not valid'}")
        for each in answer["errors"]:
            click.echo(f"  {text(each['field'])}: {text(each['message'])}")
        for each in answer["warnings"]:
            click.echo(f"  {each['code']}: {text(each['message'])}")
    ctx.exit(0 if all(each["valid"] for each in checked.values()) else 1)


def _source(version: Mapping[str, Any]) -> str:
    """How a version came: with which bundle, if a server that knows bundles says so."""
    bundle = version.get("bundle")
    return f"bundle {bundle['id']} {bundle['version']}" if bundle else version["source"]


@pipelines.command()
@click.argument("pipeline")
@json_option
@connected
def versions(client: Client, pipeline: str, as_json: bool) -> None:
    """List a pipeline's versions, newest first."""
    cells = {
        Column("version"): field("version"),
        Column("current"): lambda each: "current" if each["isCurrent"] else "",
        moment("stored (UTC)"): lambda each: when(each.get("createdAt")),
        Column("source", drop=1): _source,
        Column("spec hash"): _short("specHash"),
    }
    show_list("versions", client.versions(pipeline), cells, as_json=as_json)


@pipelines.command(
    epilog=examples("pipeweave pipelines promote nightly 3", "pipeweave pipelines promote nightly latest")
)
@click.argument("pipeline")
@click.argument("version", metavar="VERSION|latest")
@reason_option
@json_option
@connected
def promote(client: Client, pipeline: str, version: str, reason: str | None, as_json: bool) -> None:
    """Make a version the current one.

    Triggers, schedules and hooks take it, also when newer versions are stored. `latest` follows the newest
    version again.
    """
    if version != "latest" and not version.isdecimal():
        raise click.BadParameter("give a number, or `latest`", param_hint="VERSION")
    number = None if version == "latest" else int(version)
    show_answer(client.promote_pipeline(pipeline, number, reason=reason), as_json, _show_current)


@pipelines.command(epilog=examples("pipeweave pipelines rollback nightly --reason 'too slow'"))
@click.argument("pipeline")
@reason_option
@json_option
@connected
def rollback(client: Client, pipeline: str, reason: str | None, as_json: bool) -> None:
    """Go back to the version that was current before.

    Without an earlier promotion, it is the version before the newest.
    """
    left = client.pipeline(pipeline)["version"]
    answer = client.rollback_pipeline(pipeline, expected_version=left, reason=reason)
    show_answer(answer, as_json, _show_current)


def _show_current(answer: Mapping[str, Any]) -> None:
    newest = "the newest" if answer["promotedVersion"] is None else f"the newest is {answer['latestVersion']}"
    click.echo(text(f"{answer['pipelineId']}: version {answer['version']} is current ({newest})"))


def _current(pipeline: Mapping[str, Any]) -> str:
    version, newest = pipeline["version"], pipeline["latestVersion"]
    return str(version) if version == newest else f"{version} (newest {newest})"


def _short(name: str) -> Callable[[Mapping[str, Any]], str]:
    """A cell that shows the first letters of a hash."""
    return lambda each: str(each.get(name) or "")[:12]
