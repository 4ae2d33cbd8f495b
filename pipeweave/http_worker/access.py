"""How an attempt reads and writes its values: with a storage token, or by URLs that it is given."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import Any, BinaryIO, Protocol

import orjson

from pipeweave.attempt.asset_values import CONTENT_TYPES
from pipeweave.attempt.files import AddedAsset
from pipeweave.errors import CorruptValue, Forbidden, Unavailable
from pipeweave.http_worker.dispatch import Dispatch
from pipeweave.http_worker.link import OrchestratorLink
from pipeweave.size_limits import MAX_ASSET_BYTES, MAX_OUTPUT_BYTES
from pipeweave.storage import Backends, Storage
from pipeweave.storage.tokens import open_sealed

JSON_TYPE = "application/json"
LOG_TYPE = "application/x-ndjson"
# Opened backends of as many storage tokens are kept: each has connections of its own.
_KEPT_BACKENDS = 16


class ObjectAccess(Protocol):
    """Reads and writes the objects of one attempt. Every method may raise `Unavailable`."""

    def read(self, path: str, url: str | None) -> AbstractContextManager[Iterable[bytes]]:
        """Read an object piece by piece.

        Args:
            url: the URL that came with the path; None if none came.
        """

    def load(self, path: str, url: str | None) -> bytes:
        """Read an object of at most MAX_OUTPUT_BYTES."""

    def put_output(self, content: bytes) -> str:
        """Write the attempt's output; returns its path."""

    def put_log(self, content: bytes) -> None:
        """Write the attempt's log so far."""

    def put_asset(self, key: str, asset: AddedAsset) -> str:
        """Write an asset of the attempt; returns its path."""


def output_path(run_id: str) -> str:
    """Where the output of an attempt is stored."""
    return f"runs/{run_id}/output.json"


def logs_path(run_id: str) -> str:
    """Where the log of an attempt is stored."""
    return f"runs/{run_id}/logs.jsonl"


def asset_path(run_id: str, key: str) -> str:
    """Where an asset of an attempt is stored."""
    return f"runs/{run_id}/assets/{key}"


def load_json(access: ObjectAccess, path: str, url: str | None) -> Any:
    """Read a JSON value.

    Raises:
        CorruptValue: the object is not JSON.
    """
    try:
        return orjson.loads(access.load(path, url))
    except orjson.JSONDecodeError as error:
        raise CorruptValue(f"the stored object {path!r} is not JSON: {error}") from error


class TokenAccess:
    """Access by a storage token, straight to the storage.

    Args:
        token: encrypted with the worker secret.
        now: the worker's clock (s since the epoch).

    Raises:
        InvalidStorageToken: the token has expired, or was not made with this secret.
        InvalidSetting: a package that the provider needs is not installed.
    """

    def __init__(self, dispatch: Dispatch, token: str, secret: str, now: float) -> None:
        content = open_sealed(token, secret, now=now)
        # One object per content, however many tokens hold it.
        entry = {name: each for name, each in content.items() if name not in ("iat", "exp")}
        self._storage = _opened(json.dumps(entry, sort_keys=True))
        self._run_id = dispatch.run_id

    def read(self, path: str, url: str | None) -> AbstractContextManager[Iterable[bytes]]:
        return self._storage.open(path)

    def load(self, path: str, url: str | None) -> bytes:
        return self._storage.get(path, limit=MAX_OUTPUT_BYTES)

    def put_output(self, content: bytes) -> str:
        path = output_path(self._run_id)
        self._storage.put(path, content, content_type=JSON_TYPE)
        return path

    def put_log(self, content: bytes) -> None:
        path = logs_path(self._run_id)
        self._storage.put(path, content, content_type=LOG_TYPE, is_durable=False)

    def put_asset(self, key: str, asset: AddedAsset) -> str:
        path, type_ = asset_path(self._run_id, key), CONTENT_TYPES[asset.type]
        with asset.path.open("rb") as file:
            self._storage.put_stream(path, file, limit=MAX_ASSET_BYTES, content_type=type_)
        return path


@lru_cache(maxsize=_KEPT_BACKENDS)
def _opened(entry: str) -> Storage:
    return Backends((json.loads(entry),)).default


class UrlAccess:
    """Access by URLs: those of the dispatch, and further ones that the orchestrator gives on request."""

    def __init__(self, dispatch: Dispatch, link: OrchestratorLink) -> None:
        self._dispatch = dispatch
        self._link = link

    @contextmanager
    def read(self, path: str, url: str | None) -> Iterator[Iterable[bytes]]:
        with self._open(path, url) as pieces:
            yield pieces

    def load(self, path: str, url: str | None) -> bytes:
        try:
            return self._link.load(url or self._url_of(path), MAX_OUTPUT_BYTES)
        except Forbidden:
            return self._link.load(self._url_of(path), MAX_OUTPUT_BYTES)

    def put_output(self, content: bytes) -> str:
        path = output_path(self._dispatch.run_id)
        self._link.write(_required(self._dispatch.output_url), content, len(content), JSON_TYPE)
        return path

    def put_log(self, content: bytes) -> None:
        self._link.write(_required(self._dispatch.logs_url), content, len(content), LOG_TYPE)

    def put_asset(self, key: str, asset: AddedAsset) -> str:
        target = _member(_member(self._ask({"put": [key]}), "put"), key)
        with asset.path.open("rb") as file:
            # Without a file's content there is no file: a body of no bytes is sent as such.
            body: bytes | BinaryIO = file if asset.size else b""
            self._link.write(str(target.get("url")), body, asset.size, CONTENT_TYPES[asset.type])
        return str(target.get("path"))

    def _open(self, path: str, url: str | None) -> AbstractContextManager[Iterable[bytes]]:
        if url is None:
            return self._link.read(self._url_of(path))
        return _first_that_opens(lambda: self._link.read(url), lambda: self._link.read(self._url_of(path)))

    def _url_of(self, path: str) -> str:
        url = _member(self._ask({"get": [path]}), "get").get(path)
        if not isinstance(url, str):
            raise Unavailable(f"the orchestrator gave no URL for {path!r}")
        return url

    def _ask(self, wanted: Mapping[str, Any]) -> Any:
        return self._link.post(f"/api/task-runs/{self._dispatch.run_id}/urls", wanted)


@contextmanager
def _first_that_opens(
    first: Callable[[], AbstractContextManager[Iterable[bytes]]],
    second: Callable[[], AbstractContextManager[Iterable[bytes]]],
) -> Iterator[Iterable[bytes]]:
    """Open the first; the second if the first is refused because its URL has expired."""
    opened = first()
    try:
        pieces = opened.__enter__()
    except Forbidden:
        with second() as other:
            yield other
        return
    try:
        yield pieces
    finally:
        opened.__exit__(None, None, None)


def _member(value: Any, name: str) -> dict[str, Any]:
    member = value.get(name) if isinstance(value, dict) else None
    if not isinstance(member, dict):
        raise Unavailable(f"the orchestrator gave no URLs: its answer has no {name!r}")
    return member


def _required(url: str | None) -> str:
    if url is None:
        raise Unavailable("the dispatch holds no URL to write to")
    return url


def open_access(dispatch: Dispatch, link: OrchestratorLink, secret: str | None) -> ObjectAccess:
    """The access that a dispatch gives.

    Raises:
        InvalidStorageToken, InvalidSetting: its token cannot be used.
    """
    if dispatch.storage_token is None:
        return UrlAccess(dispatch, link)
    return TokenAccess(dispatch, dispatch.storage_token, secret or "", time.time())
