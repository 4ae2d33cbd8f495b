"""The `pipeweave` command: import the module of a command, run it, and print errors in one line.

This is a composition root: commands may import every room, but only inside functions, so that
`pipeweave --help` stays fast. Only the console script and `python -m pipeweave.cli` call it. No room may
import it, but `up` starts its commands as processes.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import click

from pipeweave.cli.support.extras import missing_extra
from pipeweave.cli.support.help_texts import write_groups
from pipeweave.cli.support.rendering import text
from pipeweave.errors import InvalidInput, PipeWeaveError, Unauthenticated
from pipeweave.settings import take_env_file, wants_colours
from pipeweave.suggestions import nearest

# The exit code that shells use for a command ended by Ctrl-C.
INTERRUPTED = 130
SHOWN_ERRORS = 5
# The API's hint names a header, which nobody sends by hand here.
_NO_TOKEN = "set PIPEWEAVE_API_TOKEN or --token; `pipeweave token create NAME` creates a token"

# Title of a group -> command -> "module:attribute". Importing all modules would take a second at every call.
GROUPS: dict[str, dict[str, str]] = {
    "Start here": {
        "up": "pipeweave.cli.stack:up",
        "down": "pipeweave.cli.stack:down",
        "ps": "pipeweave.cli.stack:ps",
        "restart": "pipeweave.cli.stack_processes:restart",
        "stop": "pipeweave.cli.stack_processes:stop",
        "start": "pipeweave.cli.stack_processes:start",
        "scale": "pipeweave.cli.stack_processes:scale",
        "logs": "pipeweave.cli.logs:logs",
        "open": "pipeweave.cli.open:open_",
        "docs": "pipeweave.cli.docs:docs",
        "demo": "pipeweave.cli.demo:demo",
        "init": "pipeweave.cli.init:init",
    },
    "Run and watch": {
        "trigger": "pipeweave.cli.runs:trigger",
        "debounce": "pipeweave.cli.debounce:debounce",
        "run": "pipeweave.cli.run:run",
        "dry-run": "pipeweave.cli.runs:dry_run",
        "status": "pipeweave.cli.runs:status",
        "watch": "pipeweave.cli.watch:watch",
        "state": "pipeweave.cli.runs:state",
        "output": "pipeweave.cli.runs:output",
        "ledger": "pipeweave.cli.ledger:ledger",
        "compare": "pipeweave.cli.compare:compare",
        "runs": "pipeweave.cli.runs_list:runs",
        "search": "pipeweave.cli.runs_list:search",
        "cancel": "pipeweave.cli.runs:cancel",
        "rerun": "pipeweave.cli.rerun:rerun",
        "signal": "pipeweave.cli.waits:signal",
        "waiting": "pipeweave.cli.waits:waiting",
        "approve": "pipeweave.cli.waits:approve",
        "reject": "pipeweave.cli.waits:reject",
        "replay": "pipeweave.cli.replay:replay",
        "retest": "pipeweave.cli.retest:retest",
        "pipelines": "pipeweave.cli.registry:pipelines",
        "eval": "pipeweave.cli.expressions:evaluate",
        "graph": "pipeweave.cli.graph:graph",
        "tasks": "pipeweave.cli.registry:tasks",
        "upload": "pipeweave.cli.storage:upload",
        "uploads": "pipeweave.cli.storage:uploads",
        "schedule": "pipeweave.cli.schedule:schedule",
        "triggers": "pipeweave.cli.triggers:triggers",
    },
    "When it fails": {
        "why": "pipeweave.cli.queue:why",
        "dlq": "pipeweave.cli.dlq:dlq",
        "doctor": "pipeweave.cli.doctor:doctor",
        "recover": "pipeweave.cli.recover:recover",
        "verify": "pipeweave.cli.verify:verify",
    },
    "Operate": {
        "queue": "pipeweave.cli.queue:queue",
        "enqueued": "pipeweave.cli.enqueued:enqueued",
        "pause": "pipeweave.cli.queue:pause",
        "resume": "pipeweave.cli.queue:resume",
        "limits": "pipeweave.cli.queue:limits",
        "wait": "pipeweave.cli.waits:wait",
        "maintenance": "pipeweave.cli.maintenance:maintenance",
        "services": "pipeweave.cli.services:services",
        "workers": "pipeweave.cli.workers:workers",
        "stats": "pipeweave.cli.stats:stats",
        "deploys": "pipeweave.cli.registry:deploys",
        "storage": "pipeweave.cli.storage:storage",
        "export": "pipeweave.cli.export:export",
        "bulk": "pipeweave.cli.bulk:bulk",
        "bundle": "pipeweave.cli.bundle:bundle",
    },
    "Processes": {
        "api": "pipeweave.cli.processes:api",
        "worker": "pipeweave.cli.processes:worker",
        "http-worker": "pipeweave.cli.http_worker:http_worker",
        "dispatcher": "pipeweave.cli.processes:dispatcher",
        "beat": "pipeweave.cli.processes:beat",
        "tick": "pipeweave.cli.maintenance:tick",
    },
    "Administer": {
        "db": "pipeweave.cli.db:db",
        "token": "pipeweave.cli.token:token",
        "tenant": "pipeweave.cli.tenant:tenant",
        "secrets": "pipeweave.cli.secrets:secrets",
        "audit": "pipeweave.cli.audit:audit",
        "config": "pipeweave.cli.config:config",
        "env": "pipeweave.cli.env:env",
    },
}
COMMANDS: dict[str, str] = {name: target for group in GROUPS.values() for name, target in group.items()}


class Commands(click.Group):
    """Imports a command's module when it is called, and prints every PipeWeaveError in one line on stderr."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, attribute = target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        commands = {name: self.get_command(ctx, name) for name in COMMANDS}
        # The terminal's width without the margin, the widest name and the gap after it.
        limit = formatter.width - 4 - max(map(len, COMMANDS))
        summaries = {name: each.get_short_help_str(limit) for name, each in commands.items() if each}
        write_groups(formatter, {title: list(names) for title, names in GROUPS.items()}, summaries)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            near = nearest(name, COMMANDS)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            needed = missing_extra(ctx.invoked_subcommand, error)
            if needed is None:
                raise
            click.echo(_one_line(needed), err=True)
            ctx.exit(1)
        except PipeWeaveError as error:
            click.echo(_one_line(error), err=True)
            ctx.exit(1)
        except UnicodeEncodeError as error:
            if (refused := _not_text(error)) is None:
                raise
            click.echo(_one_line(refused), err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)


def _not_text(error: UnicodeEncodeError) -> InvalidInput | None:
    """The error for an argument whose bytes are no UTF-8: Python makes half of a surrogate pair of each."""
    if not "\udc80" <= error.object[error.start] <= "\udcff":
        return None
    shown = ascii(error.object[:100])
    return InvalidInput(f"the argument {shown} is not UTF-8 text", hint="write it in UTF-8")


def _one_line(error: PipeWeaveError) -> str:
    further = error.further_errors
    # What the detail counts as further errors is listed after it.
    detail = re.sub(r" \(and \d+ more\)$", "", error.detail) if further else error.detail
    parts = [f"pipeweave: {error.code}: {detail.removesuffix('.')}"]
    shown = [f"{each.field}: {each.message}" if each.field else each.message for each in further]
    parts += shown[:SHOWN_ERRORS]
    if len(shown) > SHOWN_ERRORS:
        parts.append(f"and {len(shown) - SHOWN_ERRORS} more")
    if hint := _NO_TOKEN if error.code == Unauthenticated.code else error.hint:
        parts.append(hint)
    return text("; ".join(parts))


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="`pipeweave COMMAND --help` says more about a command.",
)
@click.version_option(package_name="pipeweave", prog_name="pipeweave")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Durable, observable pipelines on Celery."""
    if not wants_colours():
        ctx.color = False
    take_env_file()
