"""`pipeweave worker check`: play the orchestrator against anybody's HTTP worker."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import is_terminal, show_json, text, width
from pipeweave.errors import FieldError, InvalidInput

if TYPE_CHECKING:
    from pipeweave.conformance import ContractFinding, Kit, SessionOptions, Trial

_COLOURS = {"pass": "green", "warn": "yellow", "fail": "red", "skip": "bright_black"}
# Of the columns with the level and the name of a check.
_INDENT = 26
_NARROWEST = 40


@click.command(
    epilog=examples(
        'pipeweave worker check --command "node worker.js"',
        "pipeweave worker check http://10.0.0.7:8080 --listen 10.0.0.1:8555",
    )
)
@click.argument("url", required=False)
@click.option("--command", help="Start the worker with this command, and stop it at the end.")
@click.option("--task", metavar="ID", help="The task to call. Defaults to the first that is registered.")
@click.option("--input", "input_text", metavar="JSON", default="{}", help="Its input.", show_default=True)
@click.option(
    "--slow-task", metavar="ID", help="A task that runs for more than two of its heartbeat intervals."
)
@click.option("--slow-input", metavar="JSON", default="{}", help="Its input.", show_default=True)
@click.option("--failing-task", metavar="ID", help="A task that fails.")
@click.option("--failing-input", metavar="JSON", default="{}", help="Its input.", show_default=True)
@click.option("--pending-task", metavar="ID", help="A task whose work goes on elsewhere.")
@click.option("--pending-input", metavar="JSON", default="{}", help="Its input.", show_default=True)
@click.option(
    "--only", metavar="NAME", multiple=True, help="Make only this check; may be given several times."
)
@click.option(
    "--skip", metavar="NAME", multiple=True, help="Leave this check out; may be given several times."
)
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Where the kit listens."
)
@click.option("--public-url", metavar="URL", help="How the worker reaches the kit. Defaults to --listen.")
@click.option(
    "--storage",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder that the worker shares, for storage tokens. Defaults to a temporary folder.",
)
@click.option(
    "--patience",
    metavar="S",
    type=click.FloatRange(0.1, 3600),
    default=15.0,
    show_default=True,
    help="Seconds that a report may take.",
)
@click.option(
    "--wait",
    metavar="S",
    type=click.FloatRange(0.1, 3600),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the registration.",
)
@json_option
@click.pass_context
def check(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Check an HTTP worker against the worker protocol.

    Plays an orchestrator, waits until the worker registers, and says of each rule whether the worker keeps
    it. URL is where the worker is; by default, the base URL that it registers. The worker needs the secret in
    PIPEWEAVE_SECRET_KEY; without it the kit makes one and prints it. Exits 1 if a check fails; warnings do
    not count.
    """
    from pipeweave.conformance import Kit

    with Kit(_options(options)) as kit:
        _announce(kit, options["command"], to_stderr=as_json)
        findings = []
        for finding in kit.findings():
            findings.append(finding)
            if not as_json:
                _show(finding)
    counts = Counter(each.verdict.level.value for each in findings)
    if as_json:
        show_json({"status": _worst(counts), "counts": counts, "checks": list(map(_document, findings))})
    else:
        _sum_up(counts)
    ctx.exit(1 if counts["fail"] else 0)


def _options(options: dict[str, Any]) -> SessionOptions:
    from pipeweave.conformance import SessionOptions, Trial
    from pipeweave.settings import environment, load

    return SessionOptions(
        url=_worker_url(options["url"]),
        task=Trial(options["task"], _json(options["input_text"], "--input")),
        slow_task=_trial(options, "slow"),
        failing_task=_trial(options, "failing"),
        pending_task=_trial(options, "pending"),
        listen=_address(options["listen"]),
        public_url=options["public_url"],
        command=options["command"],
        storage=str(options["storage"]) if options["storage"] else None,
        secret=load().secret_key or "",
        patience_s=options["patience"],
        wait_s=options["wait"],
        only=frozenset(options["only"]),
        skip=frozenset(options["skip"]),
        environment=environment(),
    )


def _trial(options: dict[str, Any], kind: str) -> Trial | None:
    from pipeweave.conformance import Trial

    task_id = options[f"{kind}_task"]
    return Trial(task_id, _json(options[f"{kind}_input"], f"--{kind}-input")) if task_id else None


def _json(text: str, option: str) -> Any:
    import orjson

    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"{option} is not JSON: {error}") from None


def _worker_url(text: str | None) -> str | None:
    if text is not None and not text.startswith(("http://", "https://")):
        raise InvalidInput(
            f"{text!r} is not the URL of a worker",
            errors=[FieldError("url", "must begin with http:// or https://")],
            hint="write it as http://127.0.0.1:8080",
        )
    return text


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidInput(f"--listen must be HOST:PORT, and is {text!r}", hint="write it as 0.0.0.0:8555")
    return host.strip("[]"), int(port)


def _announce(kit: Kit, command: str | None, *, to_stderr: bool) -> None:
    """Say how to start the worker, or that it is started."""
    if command is not None:
        click.echo(f"Starting {command}", err=to_stderr)
        return
    click.echo("Start your worker, or start it again, with", err=to_stderr)
    click.echo(f"  ORCHESTRATOR_URL={kit.orchestrator_url}", err=to_stderr)
    if kit.has_made_secret:
        click.echo(f"  PIPEWEAVE_SECRET_KEY={kit.secret}", err=to_stderr)


def _show(finding: ContractFinding) -> None:
    """Print a finding; below one that is no pass, what was expected and how to mend it."""
    level = finding.verdict.level.value
    shown = click.style(level.upper(), fg=_COLOURS[level]) if is_terminal() else level.upper()
    lines = _folded(text(finding.verdict.happened))
    click.echo(f"{shown}  {finding.check.name:<{_INDENT - 6}}{lines[0]}")
    if level in ("warn", "fail"):
        lines += _folded(f"expected: {finding.check.expected}")
    if finding.verdict.mend:
        lines += _folded(f"to do: {text(finding.verdict.mend)}")
    for line in lines[1:]:
        click.echo(" " * _INDENT + line)


def _folded(text: str) -> list[str]:
    from pipeweave.cli.support.tables import fold

    return fold(text, max(width() - _INDENT, _NARROWEST), breaks=True)


def _sum_up(counts: Counter[str]) -> None:
    said = (
        f"{counts['pass']} passed",
        f"{counts['warn']} warnings" if counts["warn"] != 1 else "1 warning",
        f"{counts['fail']} failed",
        f"{counts['skip']} skipped",
    )
    click.echo(f"{sum(counts.values())} checks: {', '.join(said)}")


def _worst(counts: Counter[str]) -> str:
    return next((level for level in ("fail", "warn") if counts[level]), "pass")


def _document(finding: ContractFinding) -> dict[str, Any]:
    return {
        "name": finding.check.name,
        "level": finding.verdict.level.value,
        "expected": finding.check.expected,
        "happened": finding.verdict.happened,
        "toDo": finding.verdict.mend,
    }
