"""Converts the errors of S3 and of stores with its protocol to PipeWeave's.

None of them repeats an answer of the store: it may quote the request with its session token.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting, PipeWeaveError, Unavailable
from pipeweave.storage.base import missing
from pipeweave.storage.s3_bucket import AMAZON, S3Bucket

_MISSING = {"NoSuchKey", "NotFound", "404"}
# Errors with status 400 that another attempt may resolve.
_PASSING = {"RequestTimeout", "SlowDown"}
# The status of a store that works, and has no room left.
_FULL = 507


def problem_of(bucket: S3Bucket, path: str, answer: Mapping[str, Any]) -> PipeWeaveError:
    """The error of a store that answered a request for an object with an error."""
    code, status = _said(answer)
    word = code if code.isalnum() else str(status)
    if code in _MISSING:
        return missing(path)
    if status >= 500 or status == 429 or code in _PASSING:
        return unreachable(bucket, word)
    return unusable(bucket, word)


def is_in_trouble(answer: Mapping[str, Any]) -> bool:
    """Whether a store that answered with an error cannot work at the moment, whatever it is asked."""
    code, status = _said(answer)
    return status >= 500 and status != _FULL and not code.startswith("SlowDown")


def _said(answer: Mapping[str, Any]) -> tuple[str, int]:
    code = str(answer.get("Error", {}).get("Code", ""))
    return code, int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def hint_of(bucket: S3Bucket) -> str:
    """What to check when the store is away."""
    return f"check that {bucket.endpoint or AMAZON} is up and can be reached from this host"


def unreachable(bucket: S3Bucket, word: str) -> Unavailable:
    """The error of a store that did not answer, or is in trouble."""
    return Unavailable(
        f"storage backend {bucket.backend!r} cannot be reached or failed ({word})",
        hint=hint_of(bucket),
    )


def unusable(bucket: S3Bucket, word: str) -> InvalidSetting:
    """The error of a store that refuses the settings."""
    if word == "NoSuchBucket":
        detail = f"storage backend {bucket.backend!r}: there is no bucket {bucket.name!r}"
        hint = "create it (`python -m pipeweave.storage` does), or correct bucket, region or endpoint"
    else:
        detail = f"storage backend {bucket.backend!r}: bucket {bucket.name!r} refused access ({word})"
        hint = (
            "check credentials, bucket, region and endpoint; the credentials need s3:GetObject, "
            "s3:PutObject, s3:AbortMultipartUpload and s3:DeleteObject on its objects and s3:ListBucket on "
            "the bucket"
        )
    return InvalidSetting(detail, errors=[FieldError("STORAGE_BACKENDS", detail, "refused")], hint=hint)
