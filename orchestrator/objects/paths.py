"""Reads the paths of stored objects: whose each of them is (pure).

    artifacts/sha256/ab/<hash>          a value of any row, by its content
    pipelines/<run>/..., standalone/<run>/...
                                        what the steps of a run read
    runs/<task run>.<attempt>[.<mac>]/...
                                        what one attempt reads and writes
    runs/<task run>/...                 what belongs to a task run as a whole
    temp-uploads/<upload>/<file name>   an upload

Any other path is not ours: it is an archive, or a file of the bucket's owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from pipeweave import dispatch_ids, ids
from pipeweave.storage.base import MAX_PATH_BYTES

# All of our objects begin with one of these, in the order of the paths. The sweep lists nothing else.
PREFIXES = ("artifacts/sha256/", "pipelines/", "runs/", "standalone/", "temp-uploads/")
LOGS = "logs.jsonl"
ASSETS = "assets/"
OUTPUT = "output.json"

_TYPE_ID = "[0-7][0-9a-hjkmnp-tv-z]{25}"
# No control characters and no backslash: such a name is nobody's.
_REST = r"(?P<rest>[^\x00-\x1f\x7f\\]+)"
_ARTIFACT = re.compile(r"artifacts/sha256/(?P<begin>[0-9a-f]{2})/(?P=begin)[0-9a-f]{62}\Z")
_RUN = re.compile(rf"(?:pipelines|standalone)/(?P<id>{ids.RUN}_{_TYPE_ID})/{_REST}\Z")
_TASK_RUN = re.compile(
    rf"runs/(?P<id>{ids.TASK_RUN}_{_TYPE_ID})(?:\.(?P<attempt>[1-9][0-9]{{0,8}})(?:\.[A-Za-z0-9_-]{{22}})?)?/{_REST}\Z"
)
_UPLOAD = re.compile(rf"temp-uploads/(?P<id>{ids.UPLOAD}_{_TYPE_ID})/{_REST}\Z")


@dataclass(frozen=True, slots=True)
class ArtifactPath:
    """A value by its content; only rows that name it say whose it is."""


@dataclass(frozen=True, slots=True)
class RunPath:
    """An object of a run."""

    run_id: UUID


@dataclass(frozen=True, slots=True)
class AttemptPath:
    """An object of one attempt; `attempt` is None for one of the task run as a whole.

    Args:
        rest: the path below the attempt's folder, such as `output.json` or `assets/report.pdf`.
    """

    task_run_id: UUID
    attempt: int | None
    rest: str


@dataclass(frozen=True, slots=True)
class UploadPath:
    """The object of an upload."""

    upload_id: UUID


OwnPath = ArtifactPath | RunPath | AttemptPath | UploadPath


def read(path: str) -> OwnPath | None:
    """What a path says; None for a path that is not ours, or that no storage takes."""
    if any(part in ("", ".", "..") for part in path.split("/")) or not _is_encodable(path):
        return None
    if _ARTIFACT.match(path):
        return ArtifactPath()
    if match := _RUN.match(path):
        return RunPath(ids.read(ids.RUN, match["id"]))
    if match := _TASK_RUN.match(path):
        attempt = None if match["attempt"] is None else int(match["attempt"])
        return AttemptPath(ids.read(ids.TASK_RUN, match["id"]), attempt, match["rest"])
    if match := _UPLOAD.match(path):
        return UploadPath(ids.read(ids.UPLOAD, match["id"]))
    return None


def _is_encodable(path: str) -> bool:
    try:
        return len(path.encode()) <= MAX_PATH_BYTES
    except UnicodeEncodeError:
        return False


def is_result(own: AttemptPath) -> bool:
    """Whether it is the output or a file of an attempt, as an HTTP worker writes them: both are copied to
    where their content says when its report is taken.
    """
    return own.attempt is not None and (own.rest == OUTPUT or own.rest.startswith(ASSETS))


def workers_log(task_run_id: UUID, attempt: int) -> str:
    """Where a Celery worker stores the log of an attempt."""
    return f"runs/{ids.show(ids.TASK_RUN, task_run_id)}.{attempt}/{LOGS}"


def log_paths(secret_key: str | None, task_run_id: UUID, attempt: int) -> tuple[str, ...]:
    """Where the log of an attempt may be: of a Python task, and of a task of an HTTP service.

    Args:
        secret_key: the deployment's; without one, nothing was dispatched to an HTTP service.
    """
    of_worker = workers_log(task_run_id, attempt)
    if secret_key is None:
        return (of_worker,)
    of_service = dispatch_ids.every(secret_key, task_run_id, attempt)
    return of_worker, *(f"runs/{each}/{LOGS}" for each in of_service)


def upload_path(upload_id: UUID, safe_name: str) -> str:
    """Where an upload is stored."""
    return f"temp-uploads/{ids.show(ids.UPLOAD, upload_id)}/{safe_name}"
