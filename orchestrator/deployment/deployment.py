"""Opens one process's connections to the database, the storage and the broker of a deployment."""

from __future__ import annotations

from dataclasses import dataclass, field

from celery import Celery

from pipeweave.errors import InvalidSetting
from pipeweave.orchestrator.deployment.nobodys_joins import sender_of
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.deployment.without_broker import WithoutBroker
from pipeweave.orchestrator.kept import LogEndings
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.orchestrator.store import doomed_objects
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.settings import Settings
from pipeweave.storage import Backends


@dataclass(frozen=True, slots=True)
class Deployment:
    """One process's connections to the database, the storage and the broker of a deployment.

    Args:
        log_endings: what was read last of the logs of attempts.
    """

    settings: Settings
    database: Database
    values: Values
    publisher: Publisher
    log_endings: LogEndings = field(default_factory=LogEndings, compare=False)

    @property
    def has_broker(self) -> bool:
        """Whether messages are sent; a serverless deployment may do without."""
        return not isinstance(self.publisher, WithoutBroker)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        pool_size: int | None = None,
        app: Celery | None = None,
        has_deadlines: bool = False,
        session_name: str | None = None,
    ) -> Deployment:
        """Set up this process's connections; each is opened when it is first used.

        Args:
            settings: `database_url` and `broker_url` are needed.
            pool_size: database connections; `DB_POOL_MAX` by default, 0 for a process that forks.
            app: a worker passes its own Celery app; by default one is made from the settings.
            has_deadlines: give up statements that wait for locks or take long (see `Database`): for the API.
            session_name: of the database connections (see `Database`).

        Raises:
            InvalidSetting: a URL is missing.
        """
        if not settings.database_url:
            raise InvalidSetting(
                "DATABASE_URL is not set",
                hint="set it to postgresql://user:password@host:port/name, or use `pipeweave up`",
            )
        has_broker = settings.broker_url is not None or settings.mode != "serverless"
        size = settings.db_pool_max if pool_size is None else pool_size
        database = Database(
            settings.database_url,
            pool_size=size,
            react=reactions_to,
            has_deadlines=has_deadlines,
            session_name=session_name,
        )
        values = Values(
            Backends.of(settings), is_doomed=lambda where: doomed_objects.is_doomed(database, where)
        )
        publisher: Publisher = WithoutBroker(database, values)
        if has_broker:
            publisher = Publisher(app or make_celery(settings), clock=lambda: database.now().timestamp())
        database.sender = sender_of(publisher, database, values)
        return cls(settings, database, values, publisher)

    def close(self) -> None:
        """Close every connection."""
        self.database.dispose()
        self.publisher.close()
