"""Store objects in a bucket of Amazon S3, or of another store with the same protocol.

boto3 is an extra (`pip install 'pipeweave[s3]'`) and slow to import, so it is imported on first use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
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
    WrittenContent,
    checked_path,
    checked_prefix,
    missing,
    too_large,
)
from pipeweave.storage.gate import Gate
from pipeweave.storage.s3_bucket import DEFAULT_REGION, S3Bucket
from pipeweave.storage.s3_errors import hint_of, is_in_trouble, problem_of, unreachable, unusable
from pipeweave.storage.s3_parts import Ask, md5_of, part_size, write_parts

CONNECT_TIMEOUT_S = 2.0
# The longest pause between two pieces of an answer; the whole answer may take longer. How long somebody waits
# is decided at the gate.
READ_TIMEOUT_S = 10.0
# The piece of a value that is read at a time (bytes); each piece shows that the transfer moves.
MOVES_BY = 64 * 1024
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

    def __init__(self, bucket: S3Bucket) -> None:
        if find_spec("boto3") is None:
            raise InvalidSetting(
                f"storage backend {bucket.backend!r} needs boto3, which is not installed",
                errors=[FieldError("STORAGE_BACKENDS", "needs boto3")],
                hint="install it with the extra s3: pip install 'pipeweave[s3]'",
            )
        self.bucket = bucket
        self.gate = Gate(bucket.backend, hint_of(bucket), _is_away, self._probe)
        self._connected: tuple[int, Any] | None = None

    def __repr__(self) -> str:
        return f"S3Storage({self.bucket!r})"

    def put(self, path: str, content: bytes, *, content_type: str = BINARY, is_durable: bool = True) -> None:
        more = {"Body": content, "ContentMD5": md5_of(content), "ContentType": content_type}
        self._ask_for(path)("put_object", size=len(content), **more)

    def put_stream(
        self, path: str, file: Readable, *, limit: int, content_type: str = BINARY
    ) -> WrittenContent:
        source = Measured(path, file, limit)
        size = part_size(limit)
        if source.fits(size):
            self.put(path, b"".join(source.parts(size)), content_type=content_type)
        else:
            write_parts(self._ask_for(path), source.parts(size), content_type)
        return source.written

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        body = _Body()
        with self._object(path) as (client, names), closing(body):
            return self.gate.ask(lambda: body.read(client, names, limit), moved=lambda: body.moved)

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        if length == 0:
            if not self.exists(path):
                raise missing(path)
            yield iter(())
            return
        last = "" if length is None else start + length - 1
        span = {} if start == 0 and length is None else {"Range": f"bytes={start}-{last}"}
        with closing(_Body()) as body:
            with self._object(path) as (client, names):
                self.gate.ask(lambda: body.open(client, names, span))
            yield self._pieces(path, body)

    def _pieces(self, path: str, body: _Body) -> Iterator[bytes]:
        while True:
            with self._client(path):
                piece = self.gate.ask(lambda: body.piece(PIECE_BYTES), size=PIECE_BYTES)
            if not piece:
                return
            yield piece

    def stat(self, path: str) -> ObjectInfo | None:
        try:
            answer = self._ask_for(path)("head_object")
        except NotFound:
            # Also if the bucket is missing: the answer to HEAD does not tell a missing object from a missing
            # bucket.
            return None
        return ObjectInfo(path, answer["ContentLength"], answer["LastModified"])

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def delete(self, path: str) -> None:
        self._ask_for(path)("delete_object")

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        objects: list[ObjectInfo] = []
        place: dict[str, Any] = {"Bucket": self.bucket.name, "Prefix": checked_prefix(prefix)}
        place |= {"StartAfter": after} if after else {}
        while len(objects) < limit:
            most = min(limit - len(objects), LIST_PAGE)
            answer = self._ask("list_objects_v2", prefix, **place, MaxKeys=most)
            entries = answer.get("Contents", ())
            objects += [ObjectInfo(each["Key"], each["Size"], each["LastModified"]) for each in entries]
            if not answer.get("IsTruncated"):
                break
            place["ContinuationToken"] = answer["NextContinuationToken"]
        return objects

    def presign(self, path: str, *, method: Method, seconds: int) -> str | None:
        with self._object(path) as (client, names):
            verb = "get_object" if method == "GET" else "put_object"
            url: str = client.generate_presigned_url(verb, names, min(seconds, MAX_SIGNED_S), method)
            return url

    def make_bucket(self) -> bool:
        """Create the bucket if it does not exist; return True if it was created."""
        try:
            self._ask("head_bucket", Bucket=self.bucket.name)
            return False
        except NotFound:
            pass
        # Amazon refuses its default region as a LocationConstraint and needs it for every other region.
        place = {"CreateBucketConfiguration": {"LocationConstraint": self.bucket.region}}
        options: dict[str, Any] = {} if self.bucket.region == DEFAULT_REGION else place
        self._ask("create_bucket", Bucket=self.bucket.name, **options)
        return True

    def _probe(self) -> None:
        self._connection().head_bucket(Bucket=self.bucket.name)

    def _ask_for(self, path: str) -> Ask:
        """Requests for one object; errors as of `_client`."""
        names = {"Bucket": self.bucket.name, "Key": checked_path(path)}

        def ask(method: str, *, size: int = 0, **named: Any) -> Any:
            return self._ask(method, path, size=size, **names, **named)

        return ask

    def _ask(self, method: str, path: str = "", *, size: int = 0, **named: Any) -> Any:
        with self._client(path) as client:
            return self.gate.ask(lambda: getattr(client, method)(**named), size=size)

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
            yield self._connection()
            return
        except (theirs.HTTPClientError, theirs.ConnectionError, theirs.IncompleteReadError) as error:
            problem = unreachable(self.bucket, type(error).__name__)
        except theirs.ClientError as error:
            problem = problem_of(self.bucket, path, error.response)
        except theirs.BotoCoreError as error:
            problem = unusable(self.bucket, type(error).__name__)
        raise problem from None

    def _connection(self) -> Any:
        # A forked child must not share its parent's connections.
        if self._connected is None or self._connected[0] != os.getpid():
            self._connected = os.getpid(), _connect(self.bucket)
        return self._connected[1]


def _is_away(error: Exception) -> bool:
    """Whether the store did not answer, or said that it cannot work now."""
    from botocore import exceptions as theirs

    if isinstance(error, theirs.ClientError):
        return is_in_trouble(error.response)
    return isinstance(error, theirs.HTTPClientError | theirs.ConnectionError | theirs.IncompleteReadError)


class _Body:
    """The content of an object on its way. Whoever gave up waiting for it cuts it, by `close`.

    Attributes:
        moved: the bytes that have come.
    """

    def __init__(self) -> None:
        self.moved = 0
        self._stream: Any = None
        self._is_closed = False

    def open(self, client: Any, names: Mapping[str, str], span: Mapping[str, str] | None = None) -> int:
        """Ask for an object, or for a span of its bytes, which is empty if it is behind its end; the size."""
        from botocore.exceptions import ClientError

        try:
            answer = client.get_object(**names, **(span or {}))
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") not in _BEHIND_THE_END:
                raise
            answer = {"Body": BytesIO(), "ContentLength": 0}
        self._stream = answer["Body"]
        if self._is_closed:
            self._stream.close()
        return int(answer["ContentLength"])

    def read(self, client: Any, names: Mapping[str, str], limit: int | None) -> bytes:
        """All of an object."""
        size = self.open(client, names)
        if limit is not None and size > limit:
            raise too_large(names["Key"], limit)
        return b"".join(iter(lambda: self.piece(MOVES_BY), b""))

    def piece(self, size: int) -> bytes:
        """The next bytes; none at the end."""
        piece = bytes(self._stream.read(size))
        self.moved += len(piece)
        return piece

    def close(self) -> None:
        """End the connection unless all of it was read, whoever still reads from it."""
        self._is_closed = True
        if (cut := getattr(getattr(self._stream, "_raw_stream", None), "shutdown", None)) is not None:
            with suppress(Exception):
                cut()
        if self._stream is not None:
            self._stream.close()


def _connect(bucket: S3Bucket) -> Any:
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
