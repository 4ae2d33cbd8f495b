"""`pipeweave docs`: the pages of help, which come with the API."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import click

from pipeweave.cli.support.connection import data_dir_option, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json


@click.command(
    "docs", epilog=examples("pipeweave docs", "pipeweave docs dead letters", "pipeweave docs --print")
)
@click.argument("words", nargs=-1)
@click.option(
    "--print", "is_printed", is_flag=True, help="Print the address instead of opening it; so does --json."
)
@click.option("--url", help="The orchestrator's URL, e.g. http://127.0.0.1:3000.")
@data_dir_option
@json_option
def docs(
    words: tuple[str, ...], is_printed: bool, url: str | None, data_dir: Path | None, as_json: bool
) -> None:
    """Open the pages of help in a browser, or search them.

    WORDS are what to search for. The pages are those of the version that the API has, and need no token.
    """
    import webbrowser

    from pipeweave.settings import connecting, load_for_client

    address = connecting.orchestrator(load_for_client(), url=url, data_dir=data_dir)
    link = f"{address.url.rstrip('/')}/help/"
    if words:
        link += f"?{urlencode({'q': ' '.join(words)})}"
    if as_json:
        show_json({"url": link})
    elif is_printed or not webbrowser.open(link):
        click.echo(link)
    else:
        click.echo(f"Opened {link}")
