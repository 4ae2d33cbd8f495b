"""What a worker may read beyond its dispatch: further upstream outputs, and URLs of its objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pipeweave.errors import FieldError, InvalidInput, NotFound
from pipeweave.orchestrator.dispatch import payload, services, tokens, upstream
from pipeweave.orchestrator.dispatch.object_urls import ObjectUrls
from pipeweave.orchestrator.dispatch.preparing import Preparing
from pipeweave.orchestrator.dispatch.reports import ReportReceiver
from pipeweave.orchestrator.dispatch.results import is_asset_key
from pipeweave.orchestrator.domain.json_shapes import iso
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun


def upstream_page(reports: ReportReceiver, dispatch_id: str, start: int) -> dict[str, Any]:
    """{upstreamRefs, upstreamNext}: a further page of the steps before an attempt's step.

    Raises:
        Unauthenticated, NotFound, StaleReport: see `ReportReceiver.attempt_of`.
        Unavailable: storage cannot be reached.
    """
    run, task_run = reports.attempt_of(dispatch_id)
    with reports.database.transaction() as tx:
        page = upstream.page(tx, run, task_run.step_id, start)
    backend = reports.values.backends.choose(run.tenant, run.pipeline_id)
    preparing = Preparing(reports.database, reports.values, reports.settings)
    stored = preparing.stored(run, page.steps, backend)
    urls = _urls(reports, run, task_run)
    return {
        "upstreamRefs": payload.upstream_refs(stored, urls),
        "upstreamNext": None if page.next is None else payload.next_page(dispatch_id, page.next),
    }


def urls(reports: ReportReceiver, dispatch_id: str, get: Sequence[str], put: Sequence[str]) -> dict[str, Any]:
    """{get, put, expiresAt}: URLs of objects of an attempt.

    Args:
        get: paths of the attempt's own folder.
        put: keys of assets.

    Raises:
        Unauthenticated, NotFound, StaleReport: see `ReportReceiver.attempt_of`.
        InvalidInput: a path is not the attempt's own, or a key is not possible.
    """
    run, task_run = reports.attempt_of(dispatch_id)
    made = _urls(reports, run, task_run)
    if made is None:
        raise NotFound(
            "the service of this attempt reaches values by a storage token",
            hint='register with "storageAccess": "urls" to get URLs',
        )
    own = f"runs/{dispatch_id}/"
    faults = [
        FieldError(f"get[{at}]", "is not a path of this attempt", "invalid", f"{own}…")
        for at, path in enumerate(get)
        if not path.startswith(own)
    ]
    faults += [
        FieldError(f"put[{at}]", "is not the key of an asset", "invalid")
        for at, key in enumerate(put)
        if not is_asset_key(key)
    ]
    if faults:
        raise InvalidInput(f"{faults[0].field} {faults[0].message}", errors=faults[:100])
    return {
        "get": {path: made.get(path) for path in get},
        "put": {
            key: {"path": (path := payload.asset_path(dispatch_id, key)), "url": made.put(path)}
            for key in put
        },
        "expiresAt": iso(datetime.fromtimestamp(made.expires_at, UTC)),
    }


def _upload(urls: ObjectUrls, path: str) -> dict[str, str]:
    return {"path": path, "url": urls.put(path)}


def _urls(reports: ReportReceiver, run: RunHeader, task_run: TaskRun) -> ObjectUrls | None:
    with reports.database.statements() as tx:
        service = services.read(tx, run.tenant, task_run.task_id)
    if service is None or service.storage_access != "urls":
        return None
    backends = reports.values.backends
    return ObjectUrls.for_attempt(
        backends,
        tokens.secret_of(reports.settings),
        backends.choose(run.tenant, run.pipeline_id),
        service.timeout_of(run, task_run.step_id),
        reports.database.now().timestamp(),
    )
