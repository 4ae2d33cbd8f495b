"""What `pipeweave up` was asked for, and where it looks for tasks when nobody says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pipeweave.settings import Settings, explain

_FOLDER, _FILE = "pipelines", "tasks.py"
HOW_TO_ADD_TASKS = f"put them in ./{_FILE} or ./{_FOLDER}/, or name them with --app MODULE|FILE|FOLDER"


@dataclass(frozen=True, slots=True)
class UpOptions:
    """What to run.

    Args:
        data_dir: the folder that holds everything.
        host: the address the API listens on.
        port: the port the API listens on; 0 takes a free one.
        workers: worker processes; 0 when there are no tasks to load.
        concurrency: task runs each worker runs at a time.
        apps: where the tasks are.
        tenant: the tenant that workers register for and the token is good for.
        secret_key: the user's own; None takes the folder's.
        has_flower: whether Flower runs too.
        mode: `standalone`, or `serverless`, where no beat runs.
    """

    data_dir: Path
    host: str
    port: int
    workers: int
    concurrency: int
    apps: tuple[str, ...]
    tenant: str
    secret_key: str | None = None
    has_flower: bool = True
    mode: str = "standalone"

    @property
    def url(self) -> str:
        """Where this machine finds the API."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"


def default_apps(cwd: Path) -> tuple[str, ...]:
    """The folder ./pipelines or the file ./tasks.py, whichever is there; else nothing."""
    if (cwd / _FOLDER).is_dir():
        return (_FOLDER,)
    return (_FILE,) if (cwd / _FILE).is_file() else ()


def default_concurrency(settings: Settings) -> int:
    """MAX_CONCURRENCY where somebody set it, else one task run per processor."""
    chosen = next(row.source for row in explain() if row.name == "MAX_CONCURRENCY")
    return settings.max_concurrency if chosen != "default" else os.cpu_count() or 1
