"""Define the options of `pipeweave up` and their defaults."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pipeweave.settings import Settings

_FOLDER, _FILE = "pipelines", "tasks.py"
HOW_TO_ADD_TASKS = f"put them in ./{_FILE} or ./{_FOLDER}/, or name them with --app MODULE|FILE|FOLDER"
MOST_WORKERS = 64
"""A stack has at most so many workers."""


@dataclass(frozen=True, slots=True)
class UpOptions:
    """The options of one stack.

    Args:
        data_dir: the folder that holds everything.
        host: the address the API listens on.
        port: the port that the API listens on; 0 chooses a free port.
        workers: the number of worker processes; 0 if there are no tasks to load.
        concurrency: task runs at once in each worker.
        apps: modules, files or folders with tasks.
        tenant: the tenant that workers register for.
        secret_key: the user's secret key; None for the folder's.
        has_flower: true to run Flower, too.
        mode: `standalone`, or `serverless`, which runs no beat.
        is_reloading: true to restart the workers when files of their apps change.
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
    is_reloading: bool = False

    @property
    def has_dispatcher(self) -> bool:
        """Whether a dispatcher runs: where no worker dispatches, nor the tick (MODE=serverless)."""
        return not self.workers and self.mode == "standalone"

    @property
    def url(self) -> str:
        """The API's URL on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"


def default_apps(cwd: Path) -> tuple[str, ...]:
    """The folder ./pipelines, else the file ./tasks.py, if it exists."""
    if (cwd / _FOLDER).is_dir():
        return (_FOLDER,)
    return (_FILE,) if (cwd / _FILE).is_file() else ()


def default_concurrency(settings: Settings) -> int:
    """MAX_CONCURRENCY if it is set, else the number of processors."""
    return settings.max_concurrency if "max_concurrency" in settings.named else os.cpu_count() or 1
