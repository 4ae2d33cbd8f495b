"""Builds the body of a dispatch (pure): what a worker of any language needs to run one attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeweave import ids
from pipeweave.orchestrator.dispatch import item_inputs
from pipeweave.orchestrator.dispatch.object_urls import ObjectUrls
from pipeweave.orchestrator.dispatch.secret_params import DispatchSecrets
from pipeweave.orchestrator.dispatch.services import DispatchService
from pipeweave.orchestrator.domain import tracing
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun

# What workers of the protocol know this code as.
_WIRE_CODES = {"HEARTBEAT_LOST": "TIMEOUT"}


@dataclass(frozen=True, slots=True)
class StoredUpstream:
    """The output of a step before, at a path that the worker can read.

    Args:
        assets: key -> {path, size, type}; the path is that in the dispatch's backend.
    """

    output_path: str
    assets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


# Of most steps before one.
NO_ASSETS: Mapping[str, Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class PreparedDispatch:
    """All that one dispatch says.

    Args:
        dispatch_id: the `runId` of the worker.
        token: the storage token; None when the worker gets URLs.
        callback_url: where the result of the attempt is reported if it goes on elsewhere.
        secrets: those that the params name; None for none.
        upstream: by step, in the order in which assets with one key win: the last one.
        upstream_next: where the next page of `upstream` begins; None when there is none.
    """

    run: RunHeader
    task_run: TaskRun
    service: DispatchService
    dispatch_id: str
    input_path: str
    upstream: Mapping[str, StoredUpstream]
    upstream_next: int | None = None
    previous_attempts: Sequence[Mapping[str, Any]] = ()
    uploads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    token: str | None = None
    urls: ObjectUrls | None = None
    callback_url: str | None = None
    secrets: DispatchSecrets | None = None

    def body(self) -> bytes:
        """The JSON of the dispatch."""
        said: dict[str, Any] = {
            "runId": self.dispatch_id,
            "taskId": self.task_run.task_id,
            **self._places(),
            "attempt": self.task_run.attempt,
            "codeVersion": self.task_run.code_version,
            "codeHash": self.task_run.code_hash,
            "inputPath": self.input_path,
            "upstreamRefs": upstream_refs(self.upstream, self.urls),
            "previousAttempts": [_previous(each) for each in self.previous_attempts],
            "heartbeatIntervalMs": self.service.heartbeat_interval_ms,
            "timeout": self.service.timeout_of(self.run, self.task_run.step_id),
            "tenant": self.run.tenant,
            "traceId": self.run.trace_id,
        }
        if self.run.triggered_by is not None:
            said["triggeredBy"] = self.run.triggered_by.to_json()
        if self.callback_url is not None:
            said["callbackUrl"] = self.callback_url
        if self.token is not None:
            said["storageToken"] = self.token
        if self.upstream_next is not None:
            said["upstreamNext"] = next_page(self.dispatch_id, self.upstream_next)
        if self.task_run.map_index is not None:
            said["mapIndex"] = self.task_run.map_index
            if (name := self._map_name()) is not None:
                said["mapName"] = name
        if self.uploads:
            said["uploads"] = _uploads(self.uploads, self.urls)
        if self.urls is not None:
            said |= self._urls(self.urls)
        if self.secrets is not None:
            said |= {"secrets": self.secrets.values, "secretParams": self.secrets.params}
        return orjson.dumps(said)

    @property
    def traceparent(self) -> str:
        """The header of the same name: the call belongs to the span of the attempt."""
        run, task_run = self.run, self.task_run
        return tracing.traceparent_of(run.id, run.traceparent, task_run.id, task_run.attempt)

    def _map_name(self) -> str | None:
        step = self.run.plan[self.run.plan.ordinals[self.task_run.step_id]].step
        return item_inputs.item_name(step, self.service.parameters)

    def _places(self) -> dict[str, Any]:
        if self.run.pipeline_id is None:
            return {}
        return {
            "pipelineRunId": ids.show(ids.RUN, self.run.id),
            "pipelineId": self.run.pipeline_id,
            "stepId": self.task_run.step_id,
        }

    def _urls(self, urls: ObjectUrls) -> dict[str, Any]:
        return {
            "inputUrl": urls.get(self.input_path),
            "upload": {
                "output": urls.put(output_path(self.dispatch_id)),
                "logs": urls.put(logs_path(self.dispatch_id)),
            },
        }


def upstream_refs(upstream: Mapping[str, StoredUpstream], urls: ObjectUrls | None) -> dict[str, Any]:
    """The member `upstreamRefs` of a dispatch: step -> {outputPath, assets}."""
    return {
        step_id: _upstream_ref(each, urls)
        if each.assets or urls is not None
        else {"outputPath": each.output_path}
        for step_id, each in upstream.items()
    }


def _upstream_ref(upstream: StoredUpstream, urls: ObjectUrls | None) -> dict[str, Any]:
    reference: dict[str, Any] = {"outputPath": upstream.output_path}
    assets = {key: dict(each) for key, each in upstream.assets.items()}
    if urls is not None:
        reference["outputUrl"] = urls.get(upstream.output_path)
        for each in assets.values():
            each["url"] = urls.get(each["path"])
    if assets:
        reference["assets"] = assets
    return reference


def _uploads(uploads: Mapping[str, Mapping[str, Any]], urls: ObjectUrls | None) -> Mapping[str, Any]:
    if urls is None:
        return uploads
    return {upload_id: {**each, "url": urls.get(each["path"])} for upload_id, each in uploads.items()}


def _previous(attempt: Mapping[str, Any]) -> dict[str, Any]:
    code = attempt["errorCode"]
    return {
        "attempt": attempt["attempt"],
        "error": attempt["error"],
        "errorCode": _WIRE_CODES.get(code, code),
        "timestamp": attempt["timestamp"],
    }


def next_page(dispatch_id: str, start: int) -> str:
    """Where a worker finds the next page of upstreamRefs, below the orchestrator's URL."""
    return f"/api/task-runs/{dispatch_id}/upstream?start={start}"


def output_path(dispatch_id: str) -> str:
    """Where an attempt writes its output."""
    return f"runs/{dispatch_id}/output.json"


def logs_path(dispatch_id: str) -> str:
    """Where an attempt writes its log."""
    return f"runs/{dispatch_id}/logs.jsonl"


def asset_path(dispatch_id: str, key: str) -> str:
    """Where an attempt writes an asset."""
    return f"runs/{dispatch_id}/assets/{key}"
