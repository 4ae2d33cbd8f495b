"""Define Orchestrator, a whole orchestrator inside a program.

from pipeweave import Orchestrator

with Orchestrator(database_url="postgresql://…", secret_key="…") as orchestrator:
    with orchestrator.create_server("127.0.0.1", 3000):
        ...
"""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pipeweave.embedding import given_settings
from pipeweave.embedding.server import EmbeddedServer
from pipeweave.errors import Conflict, InvalidInput
from pipeweave.settings import Settings, load

if TYPE_CHECKING:
    from flask import Flask

    from pipeweave.orchestrator.deployment import Deployment
    from pipeweave.storage import Storage
    from pipeweave.workers.loops import Loops

SERVERLESS = "serverless"


class Orchestrator:
    """An orchestrator to embed. Thread safe.

    Without a broker no Celery workers can join: its ticks dispatch to HTTP workers. With one, it is an API
    and a beat among others.

    Args:
        settings: the settings; None to take `values`, or without values the environment.
        serverless: start no threads: the program calls `tick`, or somebody POSTs to `/api/tick`.
            MODE=serverless among the settings says the same.
        values: settings by the names of the fields of Settings, such as `database_url`, `secret_key` or
            `storage_backends`. The environment is not read then.

    Raises:
        InvalidSetting: a setting is missing or wrong.
        InvalidInput: `settings` and `values` are both given.
    """

    def __init__(self, settings: Settings | None = None, *, serverless: bool = False, **values: Any) -> None:
        if settings is not None and values:
            raise InvalidInput("settings are given twice, as an object and by name", hint="give one of them")
        chosen_settings = settings or (given_settings.read(values) if values else load())
        self._ticks_itself = not serverless and chosen_settings.mode != SERVERLESS
        if serverless or chosen_settings.broker_url is None:
            # Nobody takes messages: the tick dispatches.
            chosen_settings = replace(chosen_settings, mode=SERVERLESS)
        self.settings = chosen_settings
        self._deployment: Deployment | None = None
        self._application: Flask | None = None
        self._loops: Loops | None = None
        self._servers: list[EmbeddedServer] = []

    def migrate(self) -> None:
        """Create the schema, or run the pending migrations: `pipeweave db migrate`.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        from pipeweave.orchestrator.deployment import migrate
        from pipeweave.settings import connecting

        migrate.upgrade(connecting.database(self.settings))

    def start(self) -> Orchestrator:
        """Connect, check the schema, and begin to tick unless it is serverless.

        Raises:
            SchemaOutdated: the database has no schema, or an older one: call `migrate`.
            InvalidSetting: processes of the deployment run with another storage, key or networks.
            MissingExtra: spans are to be sent, and the packages of the extra `otel` are not installed.
            Unavailable: PostgreSQL cannot be reached.
            Conflict: it is started already.
        """
        from pipeweave.orchestrator.deployment import Deployment, schema_check, shared_settings
        from pipeweave.workers.loops import Loops

        if self._deployment is not None:
            raise Conflict("the orchestrator is started already")
        deployment = Deployment.open(self.settings, has_deadlines=True)
        try:
            schema_check.require_current(deployment.database)
            who = f"program@{socket.gethostname()}"
            shared_settings.require_same(deployment.database, self.settings, who)
            loops = Loops(deployment) if self._ticks_itself else None
        except BaseException:
            deployment.close()
            raise
        self._deployment, self._loops = deployment, loops
        if loops is not None:
            loops.start()
        return self

    def stop(self) -> None:
        """Stop its servers and the ticks, and close all connections. It may be started again."""
        if self._application is not None:
            self._application.extensions["pipeweave.hub"].close()
        for server in self._servers:
            server.stop()
        self._servers.clear()
        if self._loops is not None:
            self._loops.stop()
            self._loops = None
        if self._deployment is not None:
            self._deployment.close()
            self._deployment = self._application = None

    def __enter__(self) -> Orchestrator:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wsgi_app(self) -> Flask:
        """The API as a WSGI application, for a server of the program's own.

        Raises:
            Conflict: the orchestrator is not started.
        """
        from pipeweave.api import create_app

        if self._application is None:
            self._application = create_app(self.settings, self._started())
        return self._application

    def create_server(self, host: str = "127.0.0.1", port: int = 3000) -> EmbeddedServer:
        """A server of the API, to be started; `stop` of the orchestrator stops it, too.

        Args:
            host: the address to listen on.
            port: the port to listen on; 0 for any that is free.

        Raises:
            Conflict: the orchestrator is not started.
            PortInUse: another program listens there.
            InvalidInput: this machine has no such address.
            MissingExtra: the packages of the extra `http` are not installed.
        """
        server = EmbeddedServer(self.wsgi_app(), host, port)
        self._servers.append(server)
        return server

    def tick(self) -> dict[str, int]:
        """Run one tick: a bounded pass that starts due work, repairs losses, and without a broker dispatches
        to HTTP workers.

        Returns:
            How much it did, by kind; all zero when nothing was due, or another tick is under way.

        Raises:
            Conflict: the orchestrator is not started.
            Unavailable: PostgreSQL cannot be reached.
        """
        from pipeweave.orchestrator.recovery import tick

        return tick.run_once(self._started()).counts()

    def get_storage_backend(self, id: str | None = None) -> Storage:
        """A storage backend; None for the default.

        Raises:
            Conflict: the orchestrator is not started.
            InvalidSetting: there is no backend with this id.
        """
        backends = self._started().values.backends
        return backends.get(backends.default_id if id is None else id)

    def can_accept_tasks(self) -> bool:
        """Whether new work is accepted: no maintenance is under way or waited for.

        Raises:
            Conflict: the orchestrator is not started.
            Unavailable: PostgreSQL cannot be reached.
        """
        from pipeweave.orchestrator.state import deployment_mode

        with self._started().database.reading() as tx:
            return deployment_mode.mode(tx) == deployment_mode.RUNNING

    def create_token(
        self, name: str, *, tenant: str = "default", scopes: Collection[str] = ("write",)
    ) -> str:
        """Make an access token, as `pipeweave token create` does; it cannot be read again.

        Args:
            name: a label for people.
            tenant: the tenant that it is valid for; `*` for every tenant.
            scopes: of `read`, `write`, `admin`, `worker` and `tick`.

        Raises:
            Conflict: the orchestrator is not started.
            InvalidInput: a name, tenant or scope is wrong.
        """
        from pipeweave.orchestrator.registry import ensure_tenant
        from pipeweave.orchestrator.security import access_tokens

        full = [f"orchestrator:{scope.removeprefix('orchestrator:')}" for scope in scopes]
        with self._started().database.transaction() as tx:
            if tenant != access_tokens.EVERY_TENANT:
                ensure_tenant(tx, tenant)
            return access_tokens.create_token(tx, name=name, tenants=[tenant], scopes=full)

    def _started(self) -> Deployment:
        if self._deployment is None:
            raise Conflict("the orchestrator is not started", hint="call start(), or use it with `with`")
        return self._deployment
