"""The option --data-dir of commands that look at a stack of this machine, and the folder it names."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from pipeweave.settings import load, stack_file

stack_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory of the stack. Defaults to PIPEWEAVE_DATA_DIR, else the nearest .pipeweave.",
)


def stack_folder(data_dir: Path | None) -> Path:
    """The data directory of the stack; one in a folder above the current folder is found, too."""
    return (data_dir or stack_file.folder_of(load().data_dir)).absolute()


def stack_command(name: str, data_dir: Path) -> str:
    """The command of this name for the stack of this data directory, to be typed in the current folder."""
    if stack_folder(None) == data_dir.absolute():
        return f"pipeweave {name}"
    return shlex.join(["pipeweave", name, "--data-dir", str(data_dir)])
