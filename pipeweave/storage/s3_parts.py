"""Writes a large object to S3 in parts: the object appears when the last part is there, or not at all."""

from __future__ import annotations

import hashlib
import itertools
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

# An object of less is written with one request, a larger one in parts of at least this size (bytes).
MIN_PART_BYTES = 8 * 1024 * 1024
# Parts of one object.
MAX_PARTS = 10_000


def part_size(limit: int) -> int:
    """The size (bytes) of the parts of an object that may have `limit` bytes."""
    return max(MIN_PART_BYTES, -(-limit // MAX_PARTS))


def write_parts(client: Any, names: Mapping[str, str], parts: Iterable[bytes], content_type: str) -> None:
    """Write an object in parts, one after the other; when that fails, the parts are deleted.

    Args:
        client: boto3's client.
        names: of the bucket and the object.
        parts: all but the last of the same size.
    """
    begun = client.create_multipart_upload(**names, ContentType=content_type)
    upload = {**names, "UploadId": begun["UploadId"]}
    try:
        tags = map(partial(_write_part, client, upload), itertools.count(1), parts)
        written = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
        client.complete_multipart_upload(**upload, MultipartUpload={"Parts": written})
    except BaseException:
        # A bucket's rule for incomplete uploads deletes the parts if even this fails.
        with suppress(Exception):
            client.abort_multipart_upload(**upload)
        raise


def md5_of(content: bytes) -> str:
    """The checksum that every store of this protocol verifies before it keeps what it received."""
    return b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _write_part(client: Any, upload: Mapping[str, str], number: int, part: bytes) -> str:
    answer = client.upload_part(**upload, PartNumber=number, Body=part, ContentMD5=md5_of(part))
    return str(answer["ETag"])
