"""Serve the tasks of an app by HTTP: a worker without Celery, PostgreSQL or Redis.

Users import it from `pipeweave`, and `pipeweave http-worker` runs it. It imports the base modules,
`authoring`, `settings`, `storage` and `attempt`. What it says and hears is in docs/http-workers.md; nothing
here may rely on more than that page promises, for a worker in another language has no more.
"""

from __future__ import annotations

from pipeweave.http_worker.worker import HttpWorker

__all__ = ["HttpWorker"]
