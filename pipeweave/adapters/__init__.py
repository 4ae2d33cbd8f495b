"""The adapters that PipeWeave brings: `http`, `webhook`, `storage`, `log` and `celery`.

`pipeweave worker --app pipeweave.adapters` runs them, and the workers of `pipeweave up` do, beside the user's
tasks, which take their place where they have the same id. They import the base modules, `authoring`,
`settings` and `sending`, and reach the deployment only by what a worker lends them (`Context.deployment`).
They must never send anything to an address that DISPATCH_NETWORKS does not allow, nor write a secret, a URL
or a header to a log, an error or a row.
"""

from __future__ import annotations

from pipeweave.adapters.celery import CeleryAdapter
from pipeweave.adapters.http import HttpAdapter
from pipeweave.adapters.log import LogAdapter
from pipeweave.adapters.storage import StorageAdapter
from pipeweave.adapters.webhook import WebhookAdapter

__all__ = ["CeleryAdapter", "HttpAdapter", "LogAdapter", "StorageAdapter", "WebhookAdapter"]
