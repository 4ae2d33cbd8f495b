"""Exchanges with a server that speaks TLS, with a certificate that this process trusts or does not."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from support.scripted_server import BODY, answering

from pipeweave.sending import NoReply, Reply, Sender, Target, plain_exchange

HOST = "worker.example"
HEAD = b"HTTP/1.1 202 Accepted\r\nContent-Type: text/plain\r\n"
PLAIN = HEAD + b"Content-Length: 5\r\n\r\nhello"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of HOST that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "certificate.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return file


def exchanged(
    certificate: Path, *pieces: bytes, host: str = HOST, number: int = 1
) -> tuple[list[Reply | NoReply], list[list[bytes]]]:
    """The answers to so many requests of one sender, and the requests by connection."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    given = Sender()
    with answering(*pieces, of_a_connection=number, tls=tls) as served:
        target = Target("https", host, "127.0.0.1", int(served.url.rpartition(":")[2]), "")
        replies = [given.post(target, "/tasks/a", BODY, {}) for _ in range(number)]
        given.close()
    return replies, served.requests


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    return certificate


def test_a_plain_answer_costs_http_client_nothing_and_its_connection_is_used_again(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(plain_exchange, "_any")
    replies, [requests] = exchanged(trusted, PLAIN, number=3)
    assert [each.text for each in replies if isinstance(each, Reply)] == ["hello"] * 3, replies
    assert len(requests) == 3 and all(f"Host: {HOST}:".encode() in each for each in requests)


def test_the_certificates_of_authorities_are_read_once_for_many_connections(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    make = ssl.create_default_context

    def counted() -> ssl.SSLContext:
        read.append(made := make())
        return made

    monkeypatch.setattr(ssl, "create_default_context", counted)
    closing = HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello"
    replies, requests = exchanged(trusted, closing, number=2)
    assert all(isinstance(each, Reply) for each in replies)
    assert (len(requests), len(read)) == (2, 1)


@pytest.mark.parametrize(
    "pieces",
    [
        [HEAD + b"Content-Length: 5\r\n\r\n", b"he", b"llo"],
        [HEAD, b"Content-Length: 5\r\n", b"\r\nhello"],
        [HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n", b"3\r\nllo\r\n0\r\n\r\n"],
        [HEAD + b"\r\nhel", b"lo"],
    ],
    ids=["its body apart", "its head in pieces", "in chunks", "to the end of its connection"],
)
def test_an_answer_says_the_same_however_it_comes(trusted: Path, pieces: Sequence[bytes]) -> None:
    [reply], _ = exchanged(trusted, *pieces)
    assert isinstance(reply, Reply), reply
    assert (reply.status, reply.text) == (202, "hello")


def test_a_certificate_that_nobody_trusts_gets_no_request(certificate: Path) -> None:
    [reply], requests = exchanged(certificate, PLAIN)
    assert isinstance(reply, NoReply) and reply.is_certain and "certificate" in reply.reason, reply
    assert not any(requests)


def test_a_certificate_of_another_host_gets_no_request(trusted: Path) -> None:
    [reply], requests = exchanged(trusted, PLAIN, host="other.example")
    assert isinstance(reply, NoReply) and reply.is_certain and "other.example" in reply.reason, reply
    assert not any(requests)
