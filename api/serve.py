"""Runs the API as a gunicorn server with threads, because psycopg2 blocks the calling thread."""

from __future__ import annotations

import errno
import functools
import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.config import Config
from gunicorn.glogging import Logger

from pipeweave.api import create_app
from pipeweave.api.http import addresses
from pipeweave.api.http.headers import REQUEST_ID
from pipeweave.api.server import ServerWorker, memory
from pipeweave.api.server.deadlines import KEEP_ALIVE_S, MAX_CONNECTIONS, MAX_REQUEST_LINE
from pipeweave.errors import PortInUse, StartFailed
from pipeweave.orchestrator.deployment import (
    Deployment,
    json_logs,
    process_memory,
    schema_check,
    shared_settings,
)
from pipeweave.settings import Settings
from pipeweave.storage import Seats

THREADS = 8
# Seconds that running requests may take after TERM; open streams are closed then, too.
GRACEFUL_TIMEOUT_S = 5
# Seconds without a heartbeat of a server process after which gunicorn replaces it.
WORKER_TIMEOUT_S = 60
# Seconds between two looks for such processes.
LOOK_EVERY_S = 5.0
# The access log has the path without the query, and no headers, because both may hold secrets.
ACCESS_FORMAT = '%s "%s %s" %s %s %dms %s'
_MILLISECOND = timedelta(milliseconds=1)


def serve(
    settings: Settings, host: str | None = None, port: int | None = None, *, processes: int = 1
) -> None:
    """Serve until a signal stops the process. Never returns.

    Args:
        settings: the URLs of PostgreSQL and the broker, CORS origins, pool size.
        host: the address to listen on; None: the address in the settings.
        port: the port to listen on; None: the port in the settings.
        processes: the number of server processes, each with THREADS threads and its own connections.

    Raises:
        InvalidSetting: a URL is missing. Checked before gunicorn starts processes that would end at once.
        SchemaOutdated: the database has no schema, or an older one.
        InvalidSetting: processes of the deployment run with another storage, key or networks.
        PortInUse: another process listens on the port.
        StartFailed: this host does not have the address, or does not allow the port.
    """
    deployment = Deployment.open(settings, pool_size=0)
    _refuse_used_port(host or settings.host, settings.port if port is None else port)
    json_logs.configure(settings)
    json_logs.leave_out_places()
    schema_check.require_current_if_reachable(deployment.database)
    shared_settings.require_same_if_reachable(deployment.database, settings, f"api@{socket.gethostname()}")
    deployment.close()
    process_memory.limit_malloc_heaps()
    process_memory.freeze_loaded_objects()
    _ApiServer(settings, options(settings, host, port, processes)).run()


def _refuse_used_port(host: str, port: int) -> None:
    """Say it at once: gunicorn tries for five seconds, and logs each try."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                hint = "stop the process that listens there, or choose another port with --port"
                raise PortInUse(f"port {port} on {host} is in use", hint=hint) from None
            raise StartFailed(
                f"the API cannot listen on port {port} of {host}: {error.strerror or error}",
                hint="choose another --host or --port",
            ) from None


def options(settings: Settings, host: str | None, port: int | None, processes: int) -> dict[str, Any]:
    """The configuration of gunicorn."""
    return {
        "bind": f"{_bracketed(host or settings.host)}:{settings.port if port is None else port}",
        "workers": processes,
        "worker_class": f"{ServerWorker.__module__}.{ServerWorker.__name__}",
        "threads": THREADS,
        "timeout": WORKER_TIMEOUT_S,
        "graceful_timeout": GRACEFUL_TIMEOUT_S,
        "keepalive": KEEP_ALIVE_S,
        "worker_connections": MAX_CONNECTIONS,
        # It would make a thread wait for the client.
        "sendfile": False,
        "preload_app": False,
        "limit_request_line": MAX_REQUEST_LINE,
        "control_socket_disable": True,
        "proc_name": "pipeweave-api",
        **_memory_limit(settings, processes),
        "logger_class": f"{__name__}.{AccessLog.__name__}",
        "accesslog": "-",
        "errorlog": "-",
    }


def _memory_limit(settings: Settings, processes: int) -> dict[str, Any]:
    """Each server process has its share of API_MAX_MEMORY."""
    limit_bytes = settings.api_max_memory * 10**6 // processes
    return {"post_worker_init": memory.watch(limit_bytes)} if limit_bytes else {}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class AccessLog(Logger):
    """Writes gunicorn's log lines through our logging, and redacts the tokens in worker paths
    (`/w/{tenant}/{token}/`), and those of callbacks.
    """

    def setup(self, cfg: Config) -> None:
        # gunicorn sets levels of its own, which are not those of LOG_LEVEL and LOG_LEVELS.
        levels = {each: each.getEffectiveLevel() for each in (self.error_log, self.access_log)}
        super().setup(cfg)
        for logger, level in levels.items():
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(max(logging.INFO, level))

    def access(self, resp: Any, req: Any, environ: Mapping[str, Any], request_time: timedelta) -> None:
        """Write the line of a request. gunicorn would first copy every header and variable of it, and `info`
        would look for the line of code that calls it.
        """
        written = self.access_log
        if not written.isEnabledFor(logging.INFO):
            return
        said = (
            environ.get("REMOTE_ADDR", "-"),
            environ.get("REQUEST_METHOD", "-"),
            redacted(str(environ.get("PATH_INFO", "-"))),
            str(resp.status).partition(" ")[0],
            resp.sent,
            request_time // _MILLISECOND,
            dict(resp.headers).get(REQUEST_ID, "-"),
        )
        written.handle(written.makeRecord(written.name, logging.INFO, "", 0, ACCESS_FORMAT, said, None))


# Most requests ask for the same few paths.
@functools.lru_cache(maxsize=256)
def redacted(path: str) -> str:
    """The path with `***` in place of a token, and with line breaks escaped."""
    return addresses.without_token(quote(path, safe="/~:@!$&'()*+,;=", encoding="latin-1", errors="replace"))


class _Parent(Arbiter):
    """gunicorn's parent process, which looks at its children more rarely: their ends and signals wake it."""

    def wait_for_signals(self, timeout: float | None = 1.0) -> list[int]:
        """Wait for a signal, or until it is time to look for children that hang."""
        return super().wait_for_signals(LOOK_EVERY_S)


class _ApiServer(BaseApplication):
    def __init__(self, settings: Settings, gunicorn_options: Mapping[str, Any]) -> None:
        self._settings = settings
        self._options = gunicorn_options
        super().__init__()

    def run(self) -> None:
        """Serve until a signal stops the process."""
        _Parent(self).run()

    def load_config(self) -> None:
        config: Config = self.cfg
        for name, value in self._options.items():
            config.set(name, value)

    def load(self) -> Any:
        # Called after the fork, because processes must not share connections.
        pool = min(self._settings.db_pool_max, THREADS)
        app = create_app(replace(self._settings, db_pool_max=pool))
        # Threads that wait for a store must leave others to those who need none.
        app.extensions["pipeweave"].values.backends.share(Seats(THREADS // 2))
        process_memory.freeze_loaded_objects()
        return app
