"""`pipeweave http-worker`: serve the tasks of an app by HTTP."""

from __future__ import annotations

from pathlib import Path

import click

from pipeweave.cli.support.help_texts import examples


# No --json: a process writes to its log and prints no result.
@click.command(
    epilog=examples(
        "pipeweave http-worker --app shop.py --service shop",
        "pipeweave http-worker --app shop.py --service shop --storage-access urls",
    )
)
@click.option(
    "--app",
    "apps",
    multiple=True,
    required=True,
    metavar="MODULE|FILE|FOLDER",
    help="Module, file or folder with tasks; may be given several times.",
)
@click.option("--service", required=True, help="The service to register as.")
@click.option("--host", default="0.0.0.0", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=3001,
    show_default=True,
    help="Port to listen on; 0 for a free one.",
)
@click.option("--base-url", help="Where the orchestrator reaches this worker. Defaults to its address.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="Attempts at once.",
)
@click.option(
    "--storage-access",
    type=click.Choice(["token", "urls"]),
    default="token",
    show_default=True,
    help="How values are read and written: with credentials in a token, or by URLs for single objects.",
)
@click.option("--version", help="Version of the service. Defaults to a hash of its tasks' code.")
@click.option(
    "--grace",
    type=click.FloatRange(0, 3600),
    default=30.0,
    show_default=True,
    help="Seconds that attempts under way get after SIGTERM to finish; then others take them over.",
)
@click.option("--temp-dir", type=click.Path(file_okay=False, path_type=Path), help="For temporary files.")
@click.option("--url", help="The orchestrator's URL. Defaults to PIPEWEAVE_ORCHESTRATOR_URL.")
@click.option("--tenant", help="The tenant to register for; by default the only tenant of the token.")
def http_worker(
    apps: tuple[str, ...],
    service: str,
    host: str,
    port: int,
    base_url: str | None,
    concurrency: int,
    storage_access: str,
    version: str | None,
    grace: float,
    temp_dir: Path | None,
    url: str | None,
    tenant: str | None,
) -> None:
    """Serve the tasks of an app by HTTP, without Celery.

    The token (scope orchestrator:worker) is PIPEWEAVE_API_TOKEN, the worker secret PIPEWEAVE_SECRET_KEY.
    """
    from pipeweave.authoring.task_loading import load
    from pipeweave.http_worker import HttpWorker

    HttpWorker(
        service,
        url,
        tasks=load(apps).tasks.values(),
        version=version,
        host=host,
        port=port,
        base_url=base_url,
        concurrency=concurrency,
        tenant=tenant,
        storage_access="urls" if storage_access == "urls" else "token",
        temp_dir=temp_dir,
        grace_s=grace,
    ).run()
