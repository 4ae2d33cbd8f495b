"""Store objects in a bucket of Google Cloud Storage.

google-cloud-storage is an extra (`pip install 'pipeweave[gcs]'`) and slow to import, so it is imported on
first use.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting, NotFound
from pipeweave.storage.base import (
    BINARY,
    MAX_SIGNED_S,
    PIECE_BYTES,
    Bounded,
    Measured,
    Method,
    ObjectInfo,
    Readable,
    WrittenContent,
    checked_path,
    checked_prefix,
    missing,
)
from pipeweave.storage.gate import Gate, nothing_moves
from pipeweave.storage.gcs_bucket import GcsBucket
from pipeweave.storage.gcs_errors import hint_of, is_away, is_missing, no_bucket, problem_of, refused

CONNECT_TIMEOUT_S = 2.0
# The longest pause between two pieces of an answer; the whole answer may take longer.
READ_TIMEOUT_S = 10.0
# How long a request is repeated while the store is in trouble (s).
RETRY_FOR_S = 5.0
# Streams are sent and received in requests of so many bytes: a multiple of 256 KiB.
CHUNK_BYTES = 8 * 1024 * 1024
# Objects of one answer to a list.
LIST_PAGE = 1000

_TOKENS_FROM = "https://oauth2.googleapis.com/token"


class GcsStorage:
    """Objects of one bucket, by name.

    Raises:
        InvalidSetting: google-cloud-storage is not installed.
    """

    def __init__(self, bucket: GcsBucket) -> None:
        if not _is_installed():
            raise InvalidSetting(
                f"storage backend {bucket.backend!r} needs google-cloud-storage, which is not installed",
                errors=[FieldError("STORAGE_BACKENDS", "needs google-cloud-storage")],
                hint="install it with the extra gcs: pip install 'pipeweave[gcs]'",
            )
        self.bucket = bucket
        self.gate = Gate(bucket.backend, hint_of(bucket), is_away, self._probe)
        self._connected: tuple[int, Any] | None = None

    def __repr__(self) -> str:
        return f"GcsStorage({self.bucket!r})"

    def put(self, path: str, content: bytes, *, content_type: str = BINARY, is_durable: bool = True) -> None:
        with self._object(path) as blob:
            more = {"checksum": "md5", **_patience()}
            self._ask(blob.upload_from_string, content, content_type, size=len(content), **more)

    def put_stream(
        self, path: str, file: Readable, *, limit: int, content_type: str = BINARY
    ) -> WrittenContent:
        source = Measured(path, file, limit)
        if source.fits(CHUNK_BYTES):
            self.put(path, b"".join(source.parts(CHUNK_BYTES)), content_type=content_type)
            return source.written
        with self._object(path) as blob:
            writer = blob.open(
                "wb", chunk_size=CHUNK_BYTES, content_type=content_type, checksum="md5", **_patience()
            )
        try:
            for part in source.parts(PIECE_BYTES):
                with self._bucket(path):
                    # It sends a chunk now and then.
                    self._ask(writer.write, part, size=CHUNK_BYTES)
            with self._bucket(path):
                self._ask(writer.close, size=max(CHUNK_BYTES, source.written.size))
        except BaseException:
            # The store forgets an upload that is never completed.
            with suppress(Exception):
                writer.terminate()
            raise
        return source.written

    def get(self, path: str, *, limit: int | None = None) -> bytes:
        content = Bounded(path, limit)
        with self._object(path) as blob:
            more = {"raw_download": True, "checksum": "md5", **_patience()}
            self._ask(blob.download_to_file, content, moved=content.tell, **more)
        return content.getvalue()

    @contextmanager
    def open(self, path: str, *, start: int = 0, length: int | None = None) -> Iterator[Iterator[bytes]]:
        with self._object(path) as blob:
            self._ask(blob.reload, **_patience())
            end = blob.size if length is None else min(blob.size, start + length)
        yield self._pieces(path, blob.generation, start, end)

    def _pieces(self, path: str, generation: int, start: int, end: int) -> Iterator[bytes]:
        """The bytes of one version of an object, a request for each piece."""
        for first in range(start, end, CHUNK_BYTES):
            last = min(first + CHUNK_BYTES, end) - 1
            with self._object(path, generation=generation) as blob:
                more = {"raw_download": True, "checksum": None, **_patience()}
                piece: bytes = self._ask(
                    blob.download_as_bytes, start=first, end=last, size=last - first, **more
                )
            yield piece

    def stat(self, path: str) -> ObjectInfo | None:
        try:
            with self._object(path) as blob:
                self._ask(blob.reload, **_patience())
        except NotFound:
            return None
        return ObjectInfo(path, blob.size, blob.updated)

    def exists(self, path: str) -> bool:
        return self.stat(path) is not None

    def delete(self, path: str) -> None:
        with suppress(NotFound), self._object(path) as blob:
            self._ask(blob.delete, **_patience())

    def list(self, prefix: str = "", *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        checked_prefix(prefix)
        with self._bucket() as bucket:
            blobs = bucket.list_blobs(
                prefix=prefix or None,
                start_offset=after or None,
                page_size=min(limit + 1, LIST_PAGE),
                fields="items(name,size,updated),nextPageToken",
                **_patience(),
            )
            # The offset itself is part of the answer.
            behind = (ObjectInfo(each.name, each.size, each.updated) for each in blobs if each.name > after)
            return self.gate.ask(lambda: list(itertools.islice(behind, limit)), moved=lambda: 0)

    def presign(self, path: str, *, method: Method, seconds: int) -> str | None:
        if self.bucket.client_email is None:
            checked_path(path)
            return None
        with self._object(path) as blob:
            url: str = blob.generate_signed_url(
                version="v4",
                expiration=timedelta(seconds=min(seconds, MAX_SIGNED_S)),
                method=method,
                api_access_endpoint=self.bucket.endpoint,
            )
            return url

    def make_bucket(self) -> bool:
        """Create the bucket if it does not exist; return True if it was created."""
        with self._bucket() as bucket:
            if self._ask(bucket.exists, **_patience()):
                return False
            self._ask(bucket.create, location=self.bucket.region, **_patience())
            return True

    @contextmanager
    def _object(self, path: str, **named: Any) -> Iterator[Any]:
        """Google's object of a path; errors as of `_bucket`.

        Raises:
            NotFound: there is no such object.
        """
        name = checked_path(path)
        with self._bucket(path) as bucket:
            yield bucket.blob(name, **named)

    @contextmanager
    def _bucket(self, path: str | None = None) -> Iterator[Any]:
        """Google's bucket in this process's client; converts errors to PipeWeave's.

        The errors have no cause attached: a store's answer may quote the request.
        """
        try:
            yield self._client().bucket(self.bucket.name)
            return
        except Exception as error:
            if not is_missing(error):
                problem = problem_of(self.bucket, error)
            elif path is not None and self._has_bucket():
                problem = missing(path)
            else:
                problem = no_bucket(self.bucket)
        raise problem from None

    def _has_bucket(self) -> bool:
        """Whether the bucket exists; the answer to an object's request does not tell."""
        try:
            blobs = self._client().bucket(self.bucket.name).list_blobs(max_results=1, **_patience())
            self._ask(next, iter(blobs), None)
        except Exception as error:
            return not is_missing(error)
        return True

    def _ask(
        self,
        method: Callable[..., Any],
        *arguments: Any,
        size: int = 0,
        moved: Callable[[], int] = nothing_moves,
        **named: Any,
    ) -> Any:
        """Call a method that makes requests; see `Gate.ask`."""
        return self.gate.ask(lambda: method(*arguments, **named), size=size, moved=moved)

    def _probe(self) -> None:
        bucket = self._client().bucket(self.bucket.name)
        next(iter(bucket.list_blobs(max_results=1, **_patience())), None)

    def _client(self) -> Any:
        # A forked child must not share its parent's connections.
        if self._connected is None or self._connected[0] != os.getpid():
            self._connected = os.getpid(), _connect(self.bucket)
        return self._connected[1]


def _is_installed() -> bool:
    # To look for the innermost package imports those around it.
    return all(map(find_spec, ("google", "google.cloud", "google.cloud.storage")))


def _patience() -> dict[str, Any]:
    """How long a request may take, and how long it is repeated."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    retry = DEFAULT_RETRY.with_delay(initial=0.2, maximum=1.0).with_timeout(RETRY_FOR_S)
    return {"timeout": (CONNECT_TIMEOUT_S, READ_TIMEOUT_S), "retry": retry}


def _connect(bucket: GcsBucket) -> Any:
    """Make Google's client; of the machine's configuration it uses only proxies and certificates."""
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.storage import Client
    from google.oauth2.service_account import Credentials

    credentials: Any = AnonymousCredentials()  # type: ignore[no-untyped-call]
    if bucket.client_email is not None:
        account = {
            "project_id": bucket.project,
            "client_email": bucket.client_email,
            "private_key": bucket.private_key,
            "token_uri": _TOKENS_FROM,
        }
        try:
            credentials = Credentials.from_service_account_info(account)  # type: ignore[no-untyped-call]
        except ValueError:
            # Its text may hold a part of the key.
            raise refused(bucket, "the private key is not valid") from None
    options = {"api_endpoint": bucket.endpoint}
    client = Client(project=bucket.project, credentials=credentials, client_options=options)
    # Else a thread of newer clients asks for the bucket's description, for traces.
    client._bucket_metadata_cache = None
    return client
