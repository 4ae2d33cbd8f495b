"""The class of our Celery app: it uses the servers of our settings and leaves the process to others' apps.

The tasks of a worker may use Celery apps of their own. Celery's environment variables, its current app and
its default app are theirs; our app neither obeys nor sets them (docs/beside-your-celery.md).
"""

from __future__ import annotations

from typing import Any

from celery import Celery
from celery.app.amqp import AMQP


class OwnApp(Celery):
    """A Celery app that others in its process do not notice.

    Args:
        broker_url: Redis or Valkey, or sentinels with semicolons between them. Variables such as
            CELERY_BROKER_URL, which Celery lets win over an app's own URL, have no effect.
        amqp: what makes its connections; None for Celery's own class.
    """

    def __init__(self, broker_url: str, *, amqp: type[AMQP] | None = None) -> None:
        super().__init__(
            "pipeweave",
            loader="celery.loaders.app:AppLoader",
            broker=broker_url,
            # Only shown, and Celery masks one URL: `backend_cls` says it.
            backend=broker_url.partition(";")[0],
            set_as_current=False,
            amqp=amqp,
        )
        self._url = broker_url
        # Celery's own precedence: before the setting, which CELERY_RESULT_BACKEND replaces.
        self.backend_cls = broker_url

    def set_current(self) -> None:
        """Do nothing: Celery's worker calls this for its app, in every child."""

    def set_default(self) -> None:
        """Do nothing: Celery's worker calls this for its app."""

    def connection(self, hostname: str | None = None, *args: Any, **options: Any) -> Any:
        """As Celery's, to our broker."""
        return super().connection(hostname or self._url, *args, **options)

    def connection_for_read(self, url: str | None = None, **options: Any) -> Any:
        """As Celery's, to our broker."""
        return super().connection_for_read(url or self._url, **options)

    def connection_for_write(self, url: str | None = None, **options: Any) -> Any:
        """As Celery's, to our broker."""
        return super().connection_for_write(url or self._url, **options)
