"""`pipeweave doctor`: check every part of a deployment and say how to fix it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support.connection import data_dir_option, json_option
from pipeweave.cli.support.rendering import is_terminal, show_json, text
from pipeweave.errors import InvalidSetting, PipeWeaveError
from pipeweave.settings import Settings, connecting, load

if TYPE_CHECKING:
    from pipeweave.orchestrator.diagnosis import doctor as checkup

COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}
_BADNESS = ("ok", "warning", "error")


@click.command()
@click.option("--database-url", help="postgresql://user:password@host:port/database")
@data_dir_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, database_url: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Check every part of a deployment, and say what to fix.

    Exits 1 if a check fails; warnings do not count.
    """
    from pipeweave.orchestrator.diagnosis import checks
    from pipeweave.orchestrator.diagnosis import doctor as checkup

    settings, problem = _settings(database_url, data_dir)
    findings = []
    for finding in checkup.examine(settings, checks.checks(problem)):
        findings.append(finding)
        if not as_json and finding.verdict.line != checkup.NOT_CHECKED:
            _show(finding)
    left_out = [each.name for each in findings if each.verdict.line == checkup.NOT_CHECKED]
    if left_out and not as_json:
        counted = "1 check needs" if len(left_out) == 1 else f"{len(left_out)} checks need"
        click.echo(f"{counted} what failed: {', '.join(left_out)}")
    worst = max((each.level.value for each in findings), key=_BADNESS.index)
    if as_json:
        show_json({"status": worst, "checks": list(map(_document, findings))})
    ctx.exit(1 if worst == "error" else 0)


def _settings(database_url: str | None, data_dir: Path | None) -> tuple[Settings, PipeWeaveError | None]:
    """Load the settings; if they are invalid, return defaults and the error."""
    problem: PipeWeaveError | None = None
    try:
        settings = load()
    except InvalidSetting as error:
        settings, problem = Settings(), error
    try:
        return connecting.deployment(settings, database_url=database_url, data_dir=data_dir), problem
    except InvalidSetting:
        # No database is configured; one of the checks reports that.
        return replace(settings, database_url=None), problem


def _show(finding: checkup.Finding) -> None:
    level = f"{finding.level.value:<8}"
    level = click.style(level, fg=COLOURS[finding.level.value]) if is_terminal() else level
    hint = f"; {text(finding.verdict.hint)}" if finding.verdict.hint else ""
    click.echo(f"{level} {finding.name:<19} {text(finding.verdict.line)}{hint}")


def _document(finding: checkup.Finding) -> dict[str, Any]:
    return {
        "name": finding.name,
        "level": finding.level.value,
        "detail": finding.verdict.line,
        "hint": finding.verdict.hint,
    }
