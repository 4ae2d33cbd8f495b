"""`pipeweave demo`: start everything, run a real pipeline, show its report, stop everything."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipeweave.cli.support.connection import json_option
from pipeweave.cli.support.extras import check_up
from pipeweave.cli.support.rendering import show_json
from pipeweave.errors import AlreadyUp, PipeWeaveError

if TYPE_CHECKING:
    from pipeweave.client import Client, Run
    from pipeweave.up.options import UpOptions
    from pipeweave.up.stack import Announcement

PIPELINE = "stdlib-report"
APP = "pipeweave.demo.stdlib"
CONCURRENCY = 2
# Far longer than the demo takes; a demo that hangs must end, too.
DEADLINE_S = 600.0


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for all data. Defaults to a temporary folder that is removed at the end.",
)
@click.option("--keep", is_flag=True, help="Leave everything running afterwards.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Measure at most this many files; 0 for all files.",
)
@json_option
@click.pass_context
def demo(ctx: click.Context, data_dir: Path | None, keep: bool, limit: int, as_json: bool) -> None:
    """Start everything, run a real pipeline, stop everything.

    The pipeline measures the source of Python's standard library, each file as a task run.
    """
    from pipeweave.cli.support.dashboard import dashboard_lines, login_link
    from pipeweave.cli.support.demo_report import next_steps, show_report

    began = time.monotonic()
    with _stack(data_dir, keep=keep, is_quiet=as_json) as (folder, ready):
        with _client(ready) as client:
            run = _run(client, limit, is_quiet=as_json)
            # The stack's own folder is removed; a name of its own, as all users share the folder above.
            place = folder if keep or data_dir else Path(tempfile.mkdtemp(prefix="pipeweave-pictures-"))
            picture, timeline = _picture(client, run, place), _timeline(client, run, place)
        report = run.output if run.status == "completed" else None
        if as_json:
            link = login_link(ready, f"/ui/r/{run.id}") if keep else None
            summary = {"run": run.id, "status": run.status, "report": report}
            show_json({**summary, "picture": str(picture), "timeline": str(timeline), "dashboard": link})
        elif report is not None:
            show_report(report, run, time.monotonic() - began)
            click.echo(f"The pipeline's graph as a picture: {picture}")
            click.echo(f"When each step did what, as a picture: {timeline}")
            next_steps(folder, run, is_kept=keep)
            if keep:
                again = f"pipeweave open --data-dir {folder}"
                click.echo("\n".join(dashboard_lines(ready, f"/ui/r/{run.id}", again=again)))
        if report is None:
            raise PipeWeaveError(
                f"the demo's run ended {run.status}", hint="its first errors are printed above"
            )
    ctx.exit(0)


def _client(ready: Announcement) -> Client:
    from pipeweave.client import Client

    connection = ready.connection
    return Client(connection.url, connection.token, connection.tenant)


def _run(client: Client, limit: int, *, is_quiet: bool) -> Run:
    from pipeweave.cli.support.progress import follow

    run = client.trigger(PIPELINE, {"limit": limit})
    if is_quiet:
        return client.wait(run.id, DEADLINE_S)
    click.echo(f"\nRunning {PIPELINE}: each file of the standard library is one task run.\n")
    return follow(client, run.id, DEADLINE_S, shows_output=False)


def _picture(client: Client, run: Run, folder: Path) -> Path:
    """Draw the graph of the run's pipeline into a folder."""
    to = folder / f"{PIPELINE}.svg"
    client.draw_graph(PIPELINE, run.document["pipelineVersion"], to)
    return to


def _timeline(client: Client, run: Run, folder: Path) -> Path:
    """Draw when each step of the run did what, into a folder."""
    from pipeweave.cli.support.timeline_picture import write_picture

    to = folder / f"{PIPELINE}-timeline.svg"
    write_picture(client, run.id, to)
    return to


@contextmanager
def _stack(data_dir: Path | None, *, keep: bool, is_quiet: bool) -> Iterator[tuple[Path, Announcement]]:
    """Run the embedded stack for the block and stop it afterwards, even if the block raises.

    A temporary folder is removed, unless the block failed: then its logs are kept.
    """
    from pipeweave.up.control import stop
    from pipeweave.up.detached import run_detached

    check_up()
    folder = (data_dir or Path(tempfile.mkdtemp(prefix="pipeweave-demo-"))).absolute()
    say = (lambda _: None) if is_quiet else _say
    is_ours = True
    with _terminable():
        try:
            say(f"Starting PostgreSQL, Valkey, API, worker and beat in {folder} …")
            began = time.monotonic()
            try:
                ready = run_detached(_options(folder))
            except AlreadyUp:
                is_ours = False
                raise
            say(f"Ready in {time.monotonic() - began:.1f} s: {ready.connection.url}")
            yield folder, ready
        except PipeWeaveError:
            if is_ours and not data_dir:
                click.echo(f"The logs are kept in {folder / 'logs'}", err=True)
                data_dir = folder
            keep = False
            raise
        except BaseException:
            keep = False
            raise
        finally:
            if is_ours and not keep:
                with _undisturbed():
                    stop(folder)
                    if not data_dir:
                        shutil.rmtree(folder, ignore_errors=True)
                say("Everything is stopped." if data_dir else "Everything is stopped and removed.")


def _options(folder: Path) -> UpOptions:
    from pipeweave.up.options import UpOptions

    return UpOptions(
        data_dir=folder,
        host="127.0.0.1",
        port=0,
        workers=1,
        concurrency=CONCURRENCY,
        apps=(APP,),
        tenant="default",
        has_flower=False,
    )


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


@contextmanager
def _terminable() -> Iterator[None]:
    """End the block on SIGTERM as on Ctrl-C, so that nothing is left running."""

    def ask(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C while the stack stops; stopping has time limits of its own."""
    before = {each: signal.signal(each, signal.SIG_IGN) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, action in before.items():
            signal.signal(each, action)
