"""`pipeweave open`: log a browser in to the dashboard, and show it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.command("open", epilog=examples("pipeweave open", "pipeweave open latest", "pipeweave open --print"))
@click.argument("run", required=False)
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the link instead of opening a browser; so does --json."
)
@json_option
@connected
def open_(client: Client, run: str | None, is_printed: bool, as_json: bool) -> None:
    """Open the dashboard in a browser, logged in.

    RUN is the run to show: its id, the beginning of one, or `latest`. The link works once, within a minute,
    and has the rights of the token that this command uses.
    """
    import webbrowser

    path = None if run is None else f"/ui/r/{id_arguments.run(client, run)}"
    link = client.login_link(path)
    if as_json:
        show_json({"url": link})
    elif is_printed:
        click.echo(link)
    elif webbrowser.open(link):
        # The code is worth a login: it does not belong in a terminal that others see.
        click.echo(f"Opened {link.partition('#')[0]}")
    else:
        click.echo(link)
        click.echo("No browser was found: open the link within a minute.", err=True)
