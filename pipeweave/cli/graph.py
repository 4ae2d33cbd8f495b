"""`pipeweave graph`: draw the graph of a pipeline or a run, in the terminal or as an SVG file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave import ids
from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json, text
from pipeweave.errors import Unavailable

if TYPE_CHECKING:
    from pipeweave.client import Client

# Letters of a line of the drawing.
WIDTH = 80


@click.command(
    epilog=examples(
        "pipeweave graph report", "pipeweave graph report --svg report.svg", "pipeweave graph latest"
    )
)
@click.argument("pipeline", metavar="PIPELINE|RUN")
@click.option("--version", "number", type=click.IntRange(min=1), help="Defaults to the newest version.")
@click.option(
    "--view",
    type=click.Choice(["pattern", "all"]),
    help="All steps, or one box for the steps of each task and level. Defaults to all up to 150 steps.",
)
@click.option(
    "--direction",
    type=click.Choice(["right", "down"]),
    help="Of the SVG file: from left to right, or from the top down. Defaults to right.",
)
@click.option(
    "--svg",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Write an SVG file instead.",
)
@json_option
@connected
def graph(
    client: Client,
    pipeline: str,
    number: int | None,
    view: str | None,
    direction: str | None,
    svg: Path | None,
    as_json: bool,
) -> None:
    """Draw the graph of a pipeline or of a run.

    That of a run has the status of each step. A circle is a step, a diamond a map; the lines lead from each
    step to those that need it. RUN is an id with its `prun_`, the beginning of one, or `latest`.
    """
    from pipeweave.cli.support.graph_text import graph_lines
    from pipeweave.cli.support.steps import seen_status

    statuses: dict[str, str] = {}
    body: str | None = None
    if pipeline == id_arguments.LATEST or pipeline.startswith(f"{ids.RUN}_"):
        run = client.run(id_arguments.run(client, pipeline)).document
        pipeline, version = str(run["pipelineId"]), int(run["pipelineVersion"])
        body = run.get("body")
        statuses = {each["id"]: seen_status(each) for each in run["steps"]}
    else:
        version = number or int(client.pipeline(pipeline)["version"])
    if svg is not None:
        try:
            size = client.draw_graph(pipeline, version, svg, view=view, direction=direction, body=body)
        except OSError as error:
            raise Unavailable(f"{svg} cannot be written: {error.strerror}") from error
        if as_json:
            show_json({"file": str(svg), "bytes": size})
        else:
            click.echo(text(f"{svg}: {pipeline}, version {version}"))
        return
    pipeline_graph = client.graph(pipeline, version, view=view, layout=as_json, body=body)
    if as_json:
        show_json(pipeline_graph)
        return
    shown = "their pattern" if pipeline_graph["view"] == "pattern" else "all steps"
    steps, edges = pipeline_graph["stepCount"], pipeline_graph["edgeCount"]
    counted = f"{steps:,} step{'s' if steps != 1 else ''}, {edges:,} edge{'s' if edges != 1 else ''}"
    place = f" {body}" if body else ""
    click.echo(text(f"{pipeline} v{version}{place}: {counted}; {shown}"))
    # Its names have no letters that a terminal takes for a command, and its blanks are the drawing.
    for line in graph_lines(pipeline_graph, WIDTH, statuses):
        click.echo(line)
