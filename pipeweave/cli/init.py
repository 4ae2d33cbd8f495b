"""`pipeweave init`: write the files of a new project."""

from __future__ import annotations

import re
from pathlib import Path

import click

from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json
from pipeweave.cli.support.scaffold import files
from pipeweave.errors import Conflict, InvalidId, Unavailable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


@click.command(epilog=examples("pipeweave init hello", "pipeweave init hello --full"))
@click.argument("name", required=False)
@click.option(
    "-d",
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to. Defaults to ./NAME, or to this folder if no name is given.",
)
@click.option(
    "--full", is_flag=True, help="Also a package, a Dockerfile, a compose file and a workflow of tests."
)
@json_option
def init(name: str | None, folder: Path | None, full: bool, as_json: bool) -> None:
    """Write a project: tasks, a pipeline and tests.

    Files that exist are never overwritten.
    """
    place = folder or Path(name or ".")
    named = place.resolve().name if name is None else name
    if not _NAME.match(named):
        raise InvalidId(
            f"{named!r} cannot be a project's name",
            hint="start with a letter or digit and continue with letters, digits, . _ or -",
        )
    written = _write(place, _with_deployment(files(named), named) if full else files(named))
    if as_json:
        show_json({"name": named, "directory": str(place.resolve()), "files": written})
        return
    click.echo(f"Wrote {', '.join(written)} to {place}")
    click.echo("Next:")
    if place.resolve() != Path.cwd():
        click.echo(f"  cd {place}")
    click.echo("  python -m pytest")
    click.echo("  pipeweave up --app tasks.py --reload")
    click.echo(f"  pipeweave trigger {named} --wait    (in a second terminal)")


def _with_deployment(contents: dict[str, str], name: str) -> dict[str, str]:
    from pipeweave.cli.support import scaffold_full

    further = scaffold_full.files(name)
    return contents | further | {"README.md": contents["README.md"] + further["README.md"]}


def _write(place: Path, contents: dict[str, str]) -> list[str]:
    existing = [file for file in contents if (place / file).exists()]
    if existing:
        raise Conflict(
            f"{place} already holds {', '.join(existing)}", hint="nothing was written; choose another --dir"
        )
    try:
        for file, content in contents.items():
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            with (place / file).open("x", encoding="utf-8") as target:
                target.write(content)
    except OSError as error:
        raise Unavailable(f"{place} cannot be written: {error.strerror}") from error
    return list(contents)
