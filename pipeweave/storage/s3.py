"""Store objects in a bucket of Amazon S3, or of another store with the same protocol.

boto3 is an extra (`pip install 'pipeweave[s3]'`) and slow to import, so it is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting, NotFound, PipeWeaveError
from pipeweave.storage.base import (
    BINARY,
    MAX_SIGNED_S,
    PIECE_BYTES,
    Measured,
    Method,
    ObjectInfo,
    Readable,
    Written,
    checked_path,
    checked_prefix,
    missing,
    too_large,
)
from pipeweave.storage.s3_bucket import DEFAULT_REGION, Bucket
from pipeweave.storage.s3_errors import problem_of, unreachable, unusable
from pipeweave.storage.s3_parts import md5_of, part_size, write_parts

CONNECT_TIMEOUT_S = 2.0
# The longest pause between two pieces of an answer; the whole answer may take longer.
READ_TIMEOUT_S = 10.0
# Attempts per request, including the first.
MAX_ATTEMPTS = 3

# Objects of one answer to a list.
LIST_PAGE = 1000

_BEHIND_THE_END = {"InvalidRange", "416"}


class S3Storage:
    """Objects of one bucket, by key.

    Raises:
        InvalidSetting: boto3 is not installed.
    """

    def __init__(self, bucket: Bucket) -> None:
        if find_spec("boto3") is None:
            raise InvalidSetting(
                f"storage backend {bucket.backend!r} needs boto3, which is not installed",
                errors=[FieldError("STORAGE_BACKENDS", "needs boto3")],
                hint="install it with the extra s3: pip install 'pipeweave[s3]'",
            )
        self.bucket = bucket
        self._connected: tuple[int, Any] | None = None

    def __repr__(self) -> str:
        return f"S3Storage({self.bucket!r})"

    def put(self, path: str, content: bytes, *, content_type: str = BINARY, is_durable: bool = True) -> None:
        with self._object(path) as (client, names):
            client.put_object(**names, Body=content, ContentMD5=md5_of(content), ContentType=content_type)

    def put_stream(self, path: str, file: Readable, *, limit: int, content_type: str = BINARY) -> Written:
        source = Measured(path, file, limit)
        size = part_size(limit)
        if source.fits(size):
            self.put(path, b"".join(source.parts(size)), content_type=content_type)
        else:
            with self._object(path) as (client, names):
                write_parts(client, names, source.parts(size), content_type)
        return source.written

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        with self._object(path) as (client, names):
            answer = client.get_object(**names)
            with closing(answer["Body"]) as body:
                if limit is not None and answer["ContentLength"] > limit:
                    raise too_large(path, limit)
                return bytes(body.read())

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        if length == 0:
            if not self.exists(path):
                raise missing(path)
            yield iter(())
            return
        last = "" if length is None else start + length - 1
        is_whole = start == 0 and length is None
        with self._object(path) as (client, names):
            body = _body(client, names, {} if is_whole else {"Range": f"bytes={start}-{last}"})
        with closing(body):
            yield self._pieces(path, body)

    def _pieces(self, path: str, body: Any) -> Iterator[bytes]:
        with self._client(path):
            while piece := body.read(PIECE_BYTES):
                yield piece

    def stat(self, path: str) -> ObjectInfo | None:
        try:
            with self._object(path) as (client, names):
                found = client.head_object(**names)
        except NotFound:
            # Also if the bucket is missing: the answer to HEAD does not tell a missing object from a missing
            # bucket.
            return None
        return ObjectInfo(path, found["ContentLength"], found["LastModified"])

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def delete(self, path: str) -> None:
        with self._object(path) as (client, names):
            client.delete_object(**names)

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        found: list[ObjectInfo] = []
        place: dict[str, Any] = {"Bucket": self.bucket.name, "Prefix": checked_prefix(prefix)}
        place |= {"StartAfter": after} if after else {}
        while len(found) < limit:
            with self._client(prefix) as client:
                answer = client.list_objects_v2(**place, MaxKeys=min(limit - len(found), LIST_PAGE))
            entries = answer.get("Contents", ())
            found += [ObjectInfo(each["Key"], each["Size"], each["LastModified"]) for each in entries]
            if not answer.get("IsTruncated"):
                break
            place["ContinuationToken"] = answer["NextContinuationToken"]
        return found

    def presign(self, path: str, *, method: Method, seconds: int) -> str | None:
        with self._object(path) as (client, names):
            verb = "get_object" if method == "GET" else "put_object"
            url: str = client.generate_presigned_url(verb, names, min(seconds, MAX_SIGNED_S), method)
            return url

    def make_bucket(self) -> bool:
        """Create the bucket if it does not exist; return True if it was created."""
        try:
            with self._client() as client:
                client.head_bucket(Bucket=self.bucket.name)
                return False
        except NotFound:
            pass
        # Amazon refuses its default region as a LocationConstraint and needs it for every other region.
        place = {"CreateBucketConfiguration": {"LocationConstraint": self.bucket.region}}
        with self._client() as client:
            options = {} if self.bucket.region == DEFAULT_REGION else place
            client.create_bucket(Bucket=self.bucket.name, **options)
        return True

    @contextmanager
    def _object(self, path: str) -> Iterator[tuple[Any, dict[str, str]]]:
        """This process's client, and the names of an object for its methods; errors as of `_client`."""
        key = checked_path(path)
        with self._client(path) as client:
            yield client, {"Bucket": self.bucket.name, "Key": key}

    @contextmanager
    def _client(self, path: str = "") -> Iterator[Any]:
        """Open this process's client and convert boto3's errors to PipeWeave's.

        The errors have no cause attached: a store's answer may quote the request with its session token.
        """
        from botocore import exceptions as theirs

        problem: PipeWeaveError
        try:
            # A forked child must not share its parent's connections.
            if self._connected is None or self._connected[0] != os.getpid():
                self._connected = os.getpid(), _connect(self.bucket)
            yield self._connected[1]
            return
        except (theirs.HTTPClientError, theirs.ConnectionError, theirs.IncompleteReadError) as error:
            problem = unreachable(self.bucket, type(error).__name__)
        except theirs.ClientError as error:
            problem = problem_of(self.bucket, path, error.response)
        except theirs.BotoCoreError as error:
            problem = unusable(self.bucket, type(error).__name__)
        raise problem from None


def _body(client: Any, names: Mapping[str, str], span: Mapping[str, str]) -> Any:
    """The body of an object, or of a span of its bytes; empty if the span is behind its end."""
    from botocore.exceptions import ClientError

    try:
        return client.get_object(**names, **span)["Body"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") in _BEHIND_THE_END:
            return BytesIO()
        raise


def _connect(bucket: Bucket) -> Any:
    """Make a boto3 client; of the machine's AWS configuration it uses only proxies and certificates."""
    from botocore.config import Config

    config = Config(
        signature_version="s3v4",
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        s3={"addressing_style": "path" if bucket.is_path_style else "virtual"},
        ignore_configured_endpoint_urls=True,
        # Other stores do not support Amazon's newer checksums; the signature covers the content already.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    return _session().client(
        "s3",
        region_name=bucket.region,
        endpoint_url=bucket.endpoint,
        aws_access_key_id=bucket.access_key,
        aws_secret_access_key=bucket.secret_key,
        aws_session_token=bucket.session_token,
        config=config,
    )


def _session() -> Any:
    import botocore.session
    from boto3.session import Session

    core = botocore.session.get_session()
    core.register_component("data_loader", _descriptions())
    return Session(botocore_session=core)


@cache
def _descriptions() -> Any:
    """What botocore knows of S3, for all clients of this process: to read it takes longer than all else that
    makes a client.
    """
    from botocore.loaders import create_loader

    return create_loader()
