"""`pipeweave pipelines import-celery`: write a canvas of Celery as the document of a pipeline."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from pipeweave.cli.support.celery_canvas import document_of
from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json
from pipeweave.errors import InvalidInput


@click.command(
    "import-celery",
    epilog=examples(
        "pipeweave pipelines import-celery nightly shop.flows:nightly > nightly.yaml",
        "pipeweave pipelines import-celery album shop.flows:album --input folder",
    ),
)
@click.argument("pipeline")
@click.argument("canvas")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME",
    help="An input for an argument that the canvas would be called with; several in their order.",
)
@json_option
def import_celery(pipeline: str, canvas: str, inputs: tuple[str, ...], as_json: bool) -> None:
    """Write a canvas of Celery as a pipeline.

    CANVAS is MODULE:NAME of a signature (a chain, group or chord), or of a function that makes one. The
    steps call the Celery tasks in your own workers, by the adapter `celery`. Nothing is stored:
    `pipeweave pipelines put` stores the file.
    """
    import yaml

    from pipeweave.spec.document import parse_spec

    document = document_of(_canvas(canvas), pipeline, inputs)
    parse_spec(document)
    if as_json:
        show_json(document)
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110), nl=False)


def _canvas(place: str) -> Any:
    """Import what `module:name` names.

    Raises:
        InvalidInput: it is not there, or cannot be imported or called.
    """
    from pipeweave.authoring.import_errors import described

    module, mark, name = place.partition(":")
    hint = "MODULE:NAME is a signature of Celery, such as shop.flows:nightly"
    if not (module and mark and name):
        raise InvalidInput(f"{place!r} names no object of a module", hint=hint)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        value: Any = importlib.import_module(module)
        for part in name.split("."):
            value = getattr(value, part)
        # A signature can be called, too: that would run it.
        return value() if callable(value) and not isinstance(value, dict) else value
    except Exception as error:
        raise InvalidInput(f"{place} cannot be loaded: {described(error)}", hint=hint) from error
