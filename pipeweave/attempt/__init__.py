"""What surrounds the call of a task in every kind of worker: its files, its stored log, what it prints.

Celery workers, HTTP workers and `pipeweave.testing` call it. It imports the base modules and `authoring`. It
must never speak to PostgreSQL, nor decide where something is stored: its callers give it the means.
"""

from __future__ import annotations

from pipeweave.attempt.asset_values import asset_value
from pipeweave.attempt.async_call import AsyncCall, call_to_end
from pipeweave.attempt.files import AddedAsset, FileMeans, Files, StoredFile
from pipeweave.attempt.log_record import LoggedAttempt, ToStoredLogs
from pipeweave.attempt.masked_results import mask_assets, masked_result
from pipeweave.attempt.stored_log import StoredLogs
from pipeweave.attempt.temp_folders import remove_left_behind

__all__ = [
    "AddedAsset",
    "AsyncCall",
    "FileMeans",
    "Files",
    "LoggedAttempt",
    "StoredFile",
    "StoredLogs",
    "ToStoredLogs",
    "asset_value",
    "call_to_end",
    "mask_assets",
    "masked_result",
    "remove_left_behind",
]
