"""The client of the HTTP API.

    from pipeweave import Client

    client = Client()
    run = client.trigger("stdlib-report", {"limit": 100})
    print(client.wait(run, check=True).output)

Methods return the API's documents unchanged (camelCase). If the API answers with a problem document, the
client raises the class of `pipeweave.errors` that the document's code names.
"""

from __future__ import annotations

from pathlib import Path

from pipeweave.client.access import AccessMethods
from pipeweave.client.bulk import BulkMethods
from pipeweave.client.bundles import BundleMethods
from pipeweave.client.dead_letters import DeadLetters
from pipeweave.client.exports import ExportMethods
from pipeweave.client.http import Transport
from pipeweave.client.operations import OperationMethods
from pipeweave.client.queue import QueueMethods
from pipeweave.client.registry import RegistryMethods
from pipeweave.client.run_questions import RunQuestionMethods
from pipeweave.client.runs import RunMethods
from pipeweave.client.schedules import ScheduleMethods
from pipeweave.client.statistics import StatisticsMethods
from pipeweave.client.storage import StorageMethods
from pipeweave.client.triggers import TriggerMethods
from pipeweave.client.waits import WaitMethods
from pipeweave.client.workers import WorkerMethods
from pipeweave.settings import connecting, load_for_client


class Client(
    RunMethods,
    RunQuestionMethods,
    BulkMethods,
    BundleMethods,
    QueueMethods,
    RegistryMethods,
    ScheduleMethods,
    TriggerMethods,
    WaitMethods,
    StorageMethods,
    ExportMethods,
    OperationMethods,
    WorkerMethods,
    StatisticsMethods,
    AccessMethods,
):
    """A client of one orchestrator for one tenant. Thread safe; reuses its connections.

    What is not given comes from the environment (PIPEWEAVE_ORCHESTRATOR_URL, PIPEWEAVE_API_TOKEN,
    PIPEWEAVE_TENANT), and without a URL there, from the stack that `pipeweave up` runs in this folder or in a
    folder above it. The token of a stack is sent to no other URL.

    Args:
        url: the API's URL, e.g. `http://127.0.0.1:3000`.
        token: bearer token (`pipeweave token create`).
        tenant: the tenant of every request; only needed for a token that is valid for several tenants.
        timeout: seconds without an answer after which a request raises Unavailable.
        data_dir: the data directory of a stack (`pipeweave up --data-dir`) to use instead of a URL.

    Raises:
        InvalidInput: the URL is no http or https URL, or both `url` and `data_dir` are given.
        InvalidSetting: one of the environment variables is invalid.
        Unavailable: nothing names an orchestrator, or no stack runs in `data_dir`.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        tenant: str | None = None,
        timeout: float = 30.0,
        *,
        data_dir: str | Path | None = None,
    ) -> None:
        folder = Path(data_dir) if data_dir else None
        connection = connecting.orchestrator(
            load_for_client(), url=url, token=token, tenant=tenant, data_dir=folder
        )
        super().__init__(Transport(connection.url, connection.token, connection.tenant, timeout))
        self._dlq = DeadLetters(self._http)

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def tenant_name(self) -> str | None:
        """The tenant of every request; None: the token's only tenant."""
        return self._http.tenant

    @property
    def dlq(self) -> DeadLetters:
        """The dead letters: task runs that failed and are not retried any more."""
        return self._dlq

    def close(self) -> None:
        """Close the pooled connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
