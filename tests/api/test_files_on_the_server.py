"""Files of any size go through the real server, in both directions, without being in memory as a whole."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from support.api_samples import TENANT
from support.api_server import Server, running_api

from pipeweave.client import Client, storage
from pipeweave.errors import NotFound, PayloadTooLarge
from pipeweave.orchestrator.security import access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.settings import Settings
from pipeweave.size_limits import MAX_UPLOAD_BYTES

MB = 1_000_000


@pytest.fixture(scope="module")
def server(database_url: str, broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("files")
    settings = Settings(database_url=database_url, broker_url=broker_url, data_dir=str(folder / "data"))
    with running_api(settings, folder) as server:
        yield server


@pytest.fixture(scope="module")
def token(database_url: str) -> str:
    with Database(database_url, pool_size=0).transaction() as tx:
        scopes = [access_tokens.READ, access_tokens.WRITE]
        return access_tokens.create_token(tx, name="files", tenants=[TENANT], scopes=scopes)


@pytest.fixture
def client(server: Server, token: str) -> Iterator[Client]:
    with Client(server.url, token, timeout=60) as client:
        yield client


def test_a_large_file_goes_there_and_back(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "big.bin"
    file.write_bytes(hashlib.shake_128(b"seed").digest(30 * MB))
    upload = client.upload(file)
    assert upload["size"] == 30 * MB
    assert client.download(upload["storagePath"], tmp_path / "back.bin") == 30 * MB
    assert (tmp_path / "back.bin").read_bytes() == file.read_bytes()


def test_head_and_ranges_keep_the_connection_in_step(
    client: Client, server: Server, token: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    path = client.upload(tmp_path / "a.txt")["storagePath"]
    headers = {"Authorization": f"Bearer {token}"}
    with urllib3.HTTPConnectionPool(*server.address, maxsize=1, retries=False) as pool:
        for _ in range(2):
            head = pool.request("HEAD", f"/api/storage/{path}", headers=headers)
            assert (head.status, head.headers["Content-Length"], head.data) == (200, "10", b"")
            part = pool.request("GET", f"/api/storage/{path}", headers={**headers, "Range": "bytes=2-4"})
            assert (part.status, part.data) == (206, b"234")
            etag = part.headers["ETag"]
            same = pool.request("GET", f"/api/storage/{path}", headers={**headers, "If-None-Match": etag})
            assert (same.status, same.data) == (304, b"")
        assert pool.num_connections == 1


def test_a_file_that_says_that_it_is_too_large_is_refused_at_once(server: Server, token: str) -> None:
    """Only its head was sent: the server does not wait for the rest."""
    with socket.create_connection(server.address, timeout=30) as conn:
        conn.sendall(
            f"POST /api/upload/temp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\n"
            f"Content-Length: {2 * MAX_UPLOAD_BYTES}\r\n\r\n".encode()
        )
        assert conn.recv(65_536).startswith(b"HTTP/1.1 413")


def test_a_file_that_turns_out_too_large_is_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "big.bin"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_UPLOAD_BYTES + 1)
    before = client.upload_stats()
    monkeypatch.setattr(storage, "MAX_UPLOAD_BYTES", MAX_UPLOAD_BYTES + 1)
    with pytest.raises(PayloadTooLarge, match="at most 104857600 bytes"):
        client.upload(file)
    monkeypatch.undo()
    with pytest.raises(PayloadTooLarge, match="an upload may have 104,857,600"):
        client.upload(file)
    assert client.upload_stats() == before


def test_a_sender_that_gives_up_leaves_no_upload(client: Client, server: Server, token: str) -> None:
    before = client.upload_stats()
    with socket.create_connection(server.address, timeout=30) as conn:
        conn.sendall(
            f"POST /api/upload/temp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 200000\r\n\r\n"
            '--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf'.encode()
        )
        conn.shutdown(socket.SHUT_WR)
        assert b" 400 " in conn.recv(65_536).splitlines()[0]
    assert client.upload_stats() == before


def test_the_api_says_what_is_not_there(client: Client, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        client.download("runs/nobody/output.json", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
