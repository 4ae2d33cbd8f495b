"""Read a dispatch: the body of `POST /tasks/{taskId}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from pipeweave.errors import FieldError, InvalidInput, MalformedJson

# What an id must be, because it becomes a part of paths.
_RUN_ID = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~-]{1,300}\Z")
_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One attempt that the orchestrator hands to this worker; the members as docs/http-workers.md names them.

    Args:
        run_id: the id of the attempt, which its reports and its paths repeat.
        map_index: of an item of a map, from 0; None outside a map.
        map_name: the member of the input that is the item; None when the item itself is the input.
        timeout_s: how long the attempt may take (s); None for no limit.
        secrets: the values of secrets by their names.
        secret_params: parameter -> the name of the secret that it takes.
        callback_url: where the result is reported if the work goes on elsewhere; one that begins with `/` is
            below the orchestrator's URL.
        heartbeat_s: a heartbeat is due at least this often (s).
    """

    run_id: str
    task_id: str
    attempt: int
    tenant: str
    input_path: str
    pipeline_run_id: str | None = None
    pipeline_id: str | None = None
    step_id: str | None = None
    code_version: int = 1
    code_hash: str = ""
    storage_token: str | None = field(default=None, repr=False)
    input_url: str | None = field(default=None, repr=False)
    output_url: str | None = field(default=None, repr=False)
    logs_url: str | None = field(default=None, repr=False)
    upstream_refs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    upstream_next: str | None = None
    previous_attempts: tuple[Mapping[str, Any], ...] = ()
    heartbeat_s: float = 60.0
    timeout_s: float | None = None
    map_index: int | None = None
    map_name: str | None = None
    uploads: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    triggered_by: Mapping[str, Any] | None = None
    trace_id: str = ""
    callback_url: str | None = field(default=None, repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_params: Mapping[str, str] = field(default_factory=dict)


def parse(body: bytes) -> Dispatch:
    """Read the body of a dispatch. Unknown members are left alone.

    Raises:
        MalformedJson: the body is not JSON.
        InvalidInput: with one FieldError for each member that is missing or of a wrong type.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidInput("the body must be a JSON object", errors=[_wrong("", "is not one", "object")])
    read = _DispatchReader(document)
    dispatch = Dispatch(
        run_id=read.run_id(),
        task_id=read.text("taskId", ""),
        attempt=read.whole("attempt", 1),
        tenant=read.text("tenant", ""),
        input_path=read.text("inputPath", _MISSING),
        pipeline_run_id=read.text("pipelineRunId", None),
        pipeline_id=read.text("pipelineId", None),
        step_id=read.text("stepId", None),
        code_version=read.whole("codeVersion", 1),
        code_hash=read.text("codeHash", ""),
        storage_token=read.text("storageToken", None),
        input_url=read.text("inputUrl", None),
        output_url=read.url("output"),
        logs_url=read.url("logs"),
        upstream_refs=read.objects("upstreamRefs"),
        upstream_next=read.text("upstreamNext", None),
        previous_attempts=read.attempts(),
        heartbeat_s=read.number("heartbeatIntervalMs", 60_000.0) / 1000,
        timeout_s=read.number("timeout", None),
        map_index=read.whole("mapIndex", None),
        map_name=read.text("mapName", None),
        uploads=read.objects("uploads"),
        triggered_by=read.object("triggeredBy"),
        trace_id=read.text("traceId", ""),
        callback_url=read.text("callbackUrl", None),
        secrets=read.texts("secrets"),
        secret_params=read.texts("secretParams"),
    )
    if read.errors:
        first = read.errors[0]
        raise InvalidInput(f"the dispatch is not valid: {first.field} {first.message}", errors=read.errors)
    return dispatch


class _DispatchReader:
    """Reads members of a document, and notes those that are wrong."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.errors: list[FieldError] = []

    def run_id(self) -> str:
        run_id: str = self.text("runId", _MISSING)
        if run_id and not _RUN_ID.match(run_id):
            self.errors.append(_wrong("runId", "may hold only letters, digits and . _ ~ -", "string"))
        return run_id

    def text(self, name: str, default: Any) -> Any:
        value = self._document.get(name)
        if isinstance(value, str):
            return value
        return self._default(name, value, default, "a text")

    def whole(self, name: str, default: Any) -> Any:
        value = self._document.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        return self._default(name, value, default, "a whole number from 0")

    def number(self, name: str, default: Any) -> Any:
        value = self._document.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
        return self._default(name, value, default, "a number above 0")

    def objects(self, name: str) -> dict[str, Mapping[str, Any]]:
        value = self._document.get(name)
        if isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()):
            return value
        fallback: dict[str, Mapping[str, Any]] = self._default(name, value, {}, "an object of objects")
        return fallback

    def texts(self, name: str) -> Mapping[str, str]:
        value = self._document.get(name)
        if isinstance(value, dict) and all(isinstance(each, str) for each in value.values()):
            return value
        self._default(name, value, {}, "an object of texts")
        return {}

    def object(self, name: str) -> Mapping[str, Any] | None:
        value = self._document.get(name)
        if isinstance(value, dict):
            return value
        self._default(name, value, None, "an object")
        return None

    def attempts(self) -> tuple[Mapping[str, Any], ...]:
        value = self._document.get("previousAttempts")
        if isinstance(value, list) and all(isinstance(each, dict) for each in value):
            return tuple(value)
        self._default("previousAttempts", value, (), "a list of objects")
        return ()

    def url(self, name: str) -> str | None:
        upload = self._document.get("upload")
        url = upload.get(name) if isinstance(upload, dict) else None
        return url if isinstance(url, str) else None

    def _default(self, name: str, value: Any, default: Any, expected: str) -> Any:
        if value is not None:
            self.errors.append(_wrong(name, f"must be {expected}", expected))
        elif default is _MISSING:
            self.errors.append(FieldError(name, "is missing", "missing", expected))
        return "" if default is _MISSING else default


def _wrong(name: str, message: str, expected: str) -> FieldError:
    return FieldError(name, message, "invalid_type", expected)
