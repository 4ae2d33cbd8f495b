"""Writes a large object to S3 in parts: the object appears when the last part is there, or not at all."""

from __future__ import annotations

import hashlib
import itertools
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

# An object of less is written with one request, a larger one in parts of at least this size (bytes).
MIN_PART_BYTES = 8 * 1024 * 1024
# Parts of one object.
MAX_PARTS = 10_000


def part_size(limit: int) -> int:
    """The size (bytes) of the parts of an object that may have `limit` bytes."""
    return max(MIN_PART_BYTES, -(-limit // MAX_PARTS))


class Ask(Protocol):
    """Calls a method of boto3's client, by its name; `size` is how many bytes the store has to take in."""

    def __call__(self, method: str, *, size: int = 0, **named: Any) -> Any: ...


def write_parts(ask: Ask, parts: Iterable[bytes], content_type: str) -> None:
    """Write an object in parts, one after the other; when that fails, the parts are deleted.

    Args:
        ask: for this object.
        parts: all but the last of the same size.
    """
    begun = ask("create_multipart_upload", ContentType=content_type)
    upload = {"UploadId": begun["UploadId"]}
    sizes: list[int] = []
    try:
        tags = map(partial(_write_part, ask, upload, sizes), itertools.count(1), parts)
        written = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, start=1)]
        # The store puts the parts together now.
        ask("complete_multipart_upload", size=sum(sizes), **upload, MultipartUpload={"Parts": written})
    except BaseException:
        # A bucket's rule for incomplete uploads deletes the parts if even this fails.
        with suppress(Exception):
            ask("abort_multipart_upload", **upload)
        raise


def md5_of(content: bytes) -> str:
    """The checksum that every store of this protocol verifies before it keeps what it received."""
    return b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _write_part(ask: Ask, upload: Mapping[str, str], sizes: list[int], number: int, part: bytes) -> str:
    sizes.append(len(part))
    more = {"PartNumber": number, "Body": part, "ContentMD5": md5_of(part)}
    answer = ask("upload_part", size=len(part), **upload, **more)
    return str(answer["ETag"])
