"""Converts the errors of Google's client to PipeWeave's; none of them repeats a credential or an answer."""

from __future__ import annotations

from typing import Any

from pipeweave.errors import FieldError, InvalidSetting, Unavailable
from pipeweave.storage.gcs_bucket import GcsBucket

# The status of a store that works, and has no room left.
_FULL = 507


def is_missing(error: Exception) -> bool:
    """Whether the store says that there is no such object, or no such bucket."""
    from google.api_core.exceptions import NotFound
    from google.cloud.storage.exceptions import InvalidResponse

    return isinstance(error, NotFound) or (isinstance(error, InvalidResponse) and _status(error) == 404)


def problem_of(bucket: GcsBucket, error: Exception) -> Exception:
    """The error that is raised instead of Google's; any other error is returned as it is."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage import exceptions as transfer
    from requests import RequestException

    name = type(error).__name__
    if isinstance(error, auth.GoogleAuthError):
        is_passing = isinstance(error, auth.TransportError) or error.retryable
        return _unreachable(bucket, name) if is_passing else refused(bucket, name)
    if isinstance(error, api.ServerError | api.RetryError | api.TooManyRequests):
        return _unreachable(bucket, name)
    if isinstance(error, api.GoogleAPICallError) and (error.code or 0) >= 500:
        return _unreachable(bucket, str(int(error.code or 0)))
    if isinstance(error, RequestException | transfer.DataCorruption):
        return _unreachable(bucket, name)
    if isinstance(error, transfer.InvalidResponse) and (_status(error) == 429 or _status(error) >= 500):
        return _unreachable(bucket, str(_status(error)))
    if isinstance(error, api.GoogleAPIError | transfer.InvalidResponse):
        return refused(bucket, name)
    return error


def is_away(error: Exception) -> bool:
    """Whether the store did not answer, or said that it cannot work at the moment, whatever it is asked."""
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth
    from google.cloud.storage import exceptions as transfer
    from requests import RequestException

    if isinstance(error, api.RetryError) and isinstance(error.cause, Exception):
        return is_away(error.cause)
    if isinstance(error, transfer.InvalidResponse):
        return _status(error) >= 500 and _status(error) != _FULL
    if isinstance(error, api.GoogleAPICallError):
        return (error.code or 0) >= 500 and error.code != _FULL
    return isinstance(error, auth.TransportError | RequestException | OSError)


def _status(error: Any) -> int:
    return int(getattr(error.response, "status_code", 0))


def hint_of(bucket: GcsBucket) -> str:
    """What to check when the store is away."""
    return f"check that {bucket.endpoint} is up and can be reached from this host"


def _unreachable(bucket: GcsBucket, word: str) -> Unavailable:
    return Unavailable(
        f"storage backend {bucket.backend!r} cannot be reached or failed ({word})",
        hint=hint_of(bucket),
    )


def no_bucket(bucket: GcsBucket) -> InvalidSetting:
    """The error of a bucket that does not exist."""
    detail = f"storage backend {bucket.backend!r}: there is no bucket {bucket.name!r}"
    hint = "create it (`python -m pipeweave.storage` does), or correct bucket or endpoint"
    return InvalidSetting(detail, errors=[FieldError("STORAGE_BACKENDS", detail, "refused")], hint=hint)


def refused(bucket: GcsBucket, word: str) -> InvalidSetting:
    """The error of a store that refuses the settings."""
    detail = f"storage backend {bucket.backend!r}: bucket {bucket.name!r} refused access ({word})"
    hint = (
        "check projectId, clientEmail, privateKey, bucket and endpoint; the service account needs the role "
        "Storage Object Admin on the bucket"
    )
    return InvalidSetting(detail, errors=[FieldError("STORAGE_BACKENDS", detail, "refused")], hint=hint)
