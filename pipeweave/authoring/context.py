"""Define Context, which a task receives besides its parameters, and TaskResult, which it may return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeweave.authoring.attempt_files import AttemptFiles
from pipeweave.authoring.deployment_means import DeploymentMeans
from pipeweave.authoring.secret_means import SecretMeans
from pipeweave.errors import InvalidInput, InvalidSetting, SecretDenied
from pipeweave.json_conversion import to_json_value

Progress = Callable[[float, str | None], None]


@dataclass(slots=True, kw_only=True)
class Context:
    """The attempt of a task run that the task's function is called for.

    Args:
        run_id: id of the run (`prun_…`).
        task_run_id: id of the task run (`trun_…`).
        task_id: id of the task.
        pipeline_id: id of the pipeline; None for a standalone task.
        step_id: id of the step; None for a standalone task.
        attempt: number of the attempt, from 1.
        input: the step's params if it has any, else the run's input.
        params: the step's params with every reference resolved; None if the step has no params.
        upstream: output by step id, of every ancestor that completed; loaded on access.
        previous_attempts: failed attempts of this task run, oldest first: attempt, error, errorCode,
            timestamp (ISO 8601).
        item: the item of a map.
        map_index: the item's 0-based index in the list; None outside a map.
        map_name: the parameter that takes the item, if the step names it.
        code_version: the code version of the task when the task run was queued.
        code_hash: the hash of the task's source.
        tenant: the tenant of the run.
        triggered_by: what began the run: kind (`api`, `schedule`, `webhook`, `event`, `rerun`, `redrive`,
            `transaction`, `parent`), id and actor; None if that is not known.
        trace_id: the trace of the run, 32 hexadecimal digits: W3C Trace Context, OpenTelemetry.
        on_progress: called with the arguments of `progress`.
        files: the attempt's assets, uploads and temporary files; None if it was called as a plain function.
        cancelled: whether the attempt was cancelled or taken away; None if nothing can do that.
        make_callback_url: makes the attempt's `callback_url`; None if nobody could report to it.
        deployment: what the actions that PipeWeave brings use of the deployment; None outside of its workers.
        secrets: gives the values of secrets, and hides them; None if the function was called as a plain one.
    """

    run_id: str = ""
    task_run_id: str = ""
    task_id: str = ""
    pipeline_id: str | None = None
    step_id: str | None = None
    attempt: int = 1
    input: Any = None
    params: Mapping[str, Any] | None = None
    upstream: Mapping[str, Any] = field(default_factory=dict)
    previous_attempts: Sequence[Mapping[str, Any]] = ()
    item: Any = None
    map_index: int | None = None
    map_name: str | None = None
    code_version: int = 1
    code_hash: str = ""
    tenant: str = ""
    triggered_by: Mapping[str, Any] | None = None
    trace_id: str = ""
    on_progress: Progress | None = None
    files: AttemptFiles | None = None
    cancelled: Callable[[], bool] | None = None
    make_callback_url: Callable[[], str] | None = None
    deployment: DeploymentMeans | None = field(default=None, repr=False)
    secrets: SecretMeans | None = field(default=None, repr=False)
    _callback_url: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def callback_url(self) -> str:
        """The URL by which another system reports the result of this attempt, once, by POST: for a task
        that hands its work on and returns `Suspend.callback()`. Whoever has the URL may report; keep it out
        of logs.

        Raises:
            InvalidSetting: the deployment lacks the setting PIPEWEAVE_ORCHESTRATOR_URL or
                PIPEWEAVE_SECRET_KEY, or the function was called as a plain function.
        """
        if self.make_callback_url is None:
            raise InvalidSetting("this Context has no callback URL: no orchestrator has begun the attempt")
        if self._callback_url is None:
            self._callback_url = self.make_callback_url()
        return self._callback_url

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose lines carry the ids of this attempt, and the members of `extra`."""
        ids = {
            "run_id": self.run_id,
            "task_run_id": self.task_run_id,
            "pipeline_id": self.pipeline_id,
            "step_id": self.step_id,
            "task_id": self.task_id,
            "attempt": self.attempt,
            "tenant": self.tenant,
            "trace_id": self.trace_id,
        }
        return _NamedLines(_logger(self.task_id), ids)

    def progress(self, percent: float, message: str | None = None) -> None:
        """Report the progress of the task; lists, the UI and `--wait` show it.

        Args:
            percent: 0 to 100.
            message: what the task is doing now; a date, a path or another value that results write as text
                is written as text, too.

        Raises:
            InvalidInput: percent is not a number from 0 to 100, or the message cannot be stored as text.
        """
        if isinstance(percent, bool) or not isinstance(percent, (int, float)) or not 0 <= percent <= 100:
            raise InvalidInput(f"progress must be a number from 0 to 100, not {percent!r}")
        if message is not None:
            message = _message(message)
            message = message if self.secrets is None else self.secrets.masks.text(message)
        if self.on_progress is not None:
            self.on_progress(float(percent), message)

    def secret(self, name: str) -> str:
        """The value of a secret of the tenant, as the deployment's SECRETS say where it is. From now on it is
        replaced by `***` in what this attempt logs, reports, raises and returns.

        Args:
            name: as in `${secret.NAME}`.

        Raises:
            SecretNotFound: there is none of this name; another attempt may find it.
            SecretDenied: it may not be read here, or an HTTP worker was not given it.
            Unavailable: where it is kept cannot be reached.
        """
        if self.secrets is None:
            raise SecretDenied(
                "this Context has no secrets: the function was called as a plain function",
                hint="call it in a test with pipeweave.testing.run_task(…, secrets={…})",
            )
        return self.secrets.get(name)

    @property
    def is_cancelled(self) -> bool:
        """Whether nobody waits for the result any more: the run was cancelled, the time limit is exceeded, or
        the attempt was taken away. A task that runs long should look from time to time, clean up and return.
        """
        return self.cancelled is not None and self.cancelled()

    @property
    def temp_dir(self) -> Path:
        """A folder for this attempt alone. It is made on first use and deleted after the call."""
        return self._files().temp_dir

    def add_asset(self, key: str, value: Any) -> None:
        """Keep a value beside the output: later steps read it with `get_asset`, the API serves it.

        Assets are stored when the task has succeeded; a failed attempt stores none. A second value under the
        same key replaces the first.

        Args:
            key: 1 to 200 letters, digits and . _ ~ : @ -, such as `report.pdf`.
            value: bytes (type `binary`), a text (`text`), or any other JSON value (`json`).

        Raises:
            InvalidInput: the key is invalid, the value is neither text, bytes nor JSON, or there are too many
                assets.
        """
        self._files().add(key, value)

    def add_asset_from_path(self, key: str, path: str | Path) -> None:
        """Keep the content of a file beside the output, with type `binary`; it is copied at once.

        Raises:
            InvalidInput: the key is invalid, the file does not exist or is too large, or there are too many
                assets.
        """
        self._files().add_path(key, Path(path))

    def get_asset(self, key: str) -> Any:
        """The value of an asset: of this attempt, else of the steps before it; of two with the same key, that
        of a direct predecessor. bytes, a text or a JSON value, by the asset's type.

        Raises:
            NotFound: there is no such asset.
            Unavailable: the storage cannot be reached.
        """
        return self._files().get(key)

    def get_asset_path(self, key: str) -> Path:
        """A file with the content of an asset, which is never held in memory as a whole.

        The file is deleted after the call.

        Raises:
            NotFound, Unavailable: as `get_asset`.
        """
        return self._files().get_path(key)

    def upload(self, upload_id: str) -> Path:
        """A file with the content of an upload that the run's input names (`tmp_…`); deleted after the call.

        Raises:
            NotFound: the run's input does not name this upload, or it was deleted.
            Unavailable: the storage cannot be reached.
        """
        return self._files().upload(upload_id)

    def _files(self) -> AttemptFiles:
        if self.files is None:
            raise InvalidInput(
                "this Context has no files: the function was called as a plain function",
                hint="call it in a test with pipeweave.testing.run_task",
            )
        return self.files


def _message(message: Any) -> str:
    text, faults = to_json_value(message)
    if faults or not isinstance(text, str):
        raise InvalidInput(f"the progress message must be text without U+0000, not {message!r:.200}")
    return text


# A member of `extra` with such a name makes the standard library raise KeyError.
_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class _NamedLines(logging.LoggerAdapter[logging.Logger]):
    """Adds its ids to the `extra` of each call. A reserved name such as `name` becomes `extra_name`."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        fields = kwargs.get("extra") or {}
        free = {f"extra_{key}" if key in _RESERVED else key: value for key, value in fields.items()}
        return msg, {**kwargs, "extra": {**free, **(self.extra or {})}}


@lru_cache(maxsize=1024)
def _logger(task_id: str) -> logging.Logger:
    return logging.getLogger(f"pipeweave.task.{task_id}" if task_id else "pipeweave.task")


@dataclass(frozen=True, slots=True)
class TaskResult:
    """An output together with the choice of successors: `return TaskResult(rows, run_next=["report"])`.

    Args:
        output: the output that successors get; a JSON value.
        run_next: ids of the successors that may run; None for all, [] for none. A step that none of its
            predecessors chose is skipped.
    """

    output: Any = None
    run_next: Sequence[str] | None = None
