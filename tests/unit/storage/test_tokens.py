"""Storage tokens: what Node reads of them, and what is refused."""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import re
import shutil
import subprocess
from base64 import b64decode, b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any, get_args

import pytest
from support.pages import ROOT, section

from pipeweave.errors import InvalidStorageToken, MissingExtra
from pipeweave.storage import tokens

SECRET = "5a" * 32
CONTENT = {
    "id": "main",
    "provider": "minio",
    "endpoint": "http://s3.example.com:9000",
    "bucket": "values",
    "credentials": {"accessKey": "a key", "secretKey": "hünter2"},
}
NOW = 1_800_000_000.5
FORMATS: tuple[tokens.Format, ...] = get_args(tokens.Format)
NODE = shutil.which("node")

every_format = pytest.mark.parametrize("format", FORMATS)


def sealed(format: tokens.Format, *, secret: str = SECRET, seconds: int | None = 3600) -> str:
    return tokens.seal(CONTENT, secret, format=format, now=NOW, seconds=seconds)


def refused(text: str, *, secret: str = SECRET, now: float = NOW) -> str:
    """The word for why a token is refused."""
    with pytest.raises(InvalidStorageToken) as caught:
        tokens.open_sealed(text, secret, now=now)
    assert "hünter2" not in str(caught.value.to_problem())
    assert caught.value.code == "INVALID_TOKEN"
    [error] = caught.value.errors
    return error.code


@every_format
def test_a_token_opens_with_its_content_and_its_times(format: tokens.Format) -> None:
    times = {"iat": 1_800_000_000, "exp": 1_800_003_600}
    assert tokens.open_sealed(sealed(format), SECRET, now=NOW) == {**CONTENT, **times}


@every_format
def test_the_tokens_on_the_page_open_with_the_content_on_the_page(format: tokens.Format) -> None:
    page = section("docs/storage.md", "Tokens and signed URLs")
    [text] = re.findall(rf"^{format} +(\S+)$", page, re.MULTILINE)
    [content] = re.findall(r"^\{.*/values.*\}$", page, re.MULTILINE)
    secret = "0123456789abcdef0123456789abcdef"
    assert tokens.open_sealed(text, secret, now=1_800_003_600) == json.loads(content)
    if NODE is not None:
        assert opened_by_node(text, secret, format) == json.loads(content)


@every_format
@pytest.mark.parametrize("secret", [SECRET, "short", "é" * 40], ids=["hex", "short", "letters"])
@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_node_opens_what_we_seal(format: tokens.Format, secret: str) -> None:
    text = sealed(format, secret=secret)
    assert opened_by_node(text, secret, format) == tokens.open_sealed(text, secret, now=NOW)


def opened_by_node(text: str, secret: str, format: tokens.Format) -> Any:
    given = {"token": text, "secret": secret, "format": format}
    script = ROOT / "tests" / "support" / "storage_token.mjs"
    done = subprocess.run(
        [str(NODE), str(script)], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_forms_are_those_of_the_protocol() -> None:
    iv, tag, ciphertext = (b64decode(each, validate=True) for each in sealed("sdk").split(":"))
    assert (len(iv), len(tag)) == (12, 16)
    assert json.loads(_plain(SECRET[:32].encode(), iv, tag, ciphertext))["bucket"] == "values"

    text = sealed("pbkdf2")
    assert not set(text) & set("+/=:")
    content = b64decode(text.replace("-", "+").replace("_", "/") + "==")
    salt, iv, tag, ciphertext = content[:32], content[32:48], content[48:64], content[64:]
    key = hashlib.pbkdf2_hmac("sha256", SECRET.encode(), salt, 100_000, 32)
    assert json.loads(_plain(key, iv, tag, ciphertext))["bucket"] == "values"


def _plain(key: bytes, iv: bytes, tag: bytes, ciphertext: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key).decrypt(iv, ciphertext + tag, None)


def test_base64_of_either_alphabet_is_read_with_or_without_padding() -> None:
    parts = [b64decode(each) for each in sealed("sdk").split(":")]
    for encode in (b64encode, urlsafe_b64encode):
        for strip in ("", "="):
            text = ":".join(encode(each).decode().rstrip(strip or None) for each in parts)
            assert tokens.open_sealed(text, SECRET, now=NOW)["bucket"] == "values"


def test_a_token_is_valid_until_its_last_second() -> None:
    for format in FORMATS:
        text = sealed(format, seconds=60)
        assert tokens.open_sealed(text, SECRET, now=1_800_000_060)["exp"] == 1_800_000_060
        assert refused(text, now=1_800_000_060.5) == "expired"
        assert tokens.open_sealed(sealed(format, seconds=None), SECRET, now=NOW * 2)["id"] == "main"


@every_format
def test_a_token_of_another_secret_or_with_another_bit_is_forged(format: tokens.Format) -> None:
    assert refused(sealed(format), secret="5b" * 32) == "forged"
    text = sealed(format)
    last = "A" if text[-8] != "A" else "B"
    assert refused(text[:-8] + last + text[-7:]) == "forged"


@pytest.mark.parametrize(
    "text",
    ["", "a", "no base64!", "a:b", "::", ":::", "YQ==:YQ==:YQ==", "é:é:é", "x" * 70_000, "A" * 85, "{}"],
)
def test_a_malformed_token_is_refused(text: str) -> None:
    assert refused(text) == "malformed"


@pytest.mark.parametrize("content", [[], {}, {"id": "a", "provider": "local"}, {**CONTENT, "credentials": 1}])
def test_a_token_without_a_backend_is_refused(content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.orjson, "dumps", lambda _: json.dumps(content).encode())
    text = sealed("sdk")
    monkeypatch.undo()
    assert refused(text) == "malformed"


def test_a_key_is_derived_once_for_all_tokens_of_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []
    derive = hashlib.pbkdf2_hmac

    def counting(*arguments: Any) -> bytes:
        derived.append(arguments)
        return derive(*arguments)

    monkeypatch.setattr(tokens.hashlib, "pbkdf2_hmac", counting)
    secret = os.urandom(16).hex()
    made = {sealed("pbkdf2", secret=secret) for _ in range(50)}
    assert all(tokens.open_sealed(each, secret, now=NOW) for each in made)
    assert (len(made), len(derived)) == (50, 1)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return found(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match="cryptography"):
        sealed("sdk")


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        (
            {
                "id": "a",
                "provider": "aws-s3",
                "bucket": "b",
                "credentials": {"accessKeyId": "k"},
                "tenants": ["t"],
            },
            {"endpoint": "https://s3.amazonaws.com", "bucket": "b", "credentials": {"accessKeyId": "k"}},
        ),
        (
            {
                "id": "a",
                "provider": "minio",
                "endpoint": "http://s",
                "bucket": "b",
                "region": "r",
                "credentials": {},
            },
            {"endpoint": "http://s", "bucket": "b", "region": "r", "credentials": {}},
        ),
        (
            {"provider": "local", "credentials": {"basePath": "/values"}},
            {"endpoint": "", "bucket": "", "credentials": {"basePath": "/values"}},
        ),
    ],
    ids=["aws-s3", "minio", "local"],
)
def test_the_content_names_what_a_worker_needs(entry: dict[str, Any], content: dict[str, Any]) -> None:
    assert tokens.content_of({"id": "a", **entry}) == {"id": "a", "provider": entry["provider"], **content}


def test_a_folder_is_named_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = tokens.content_of({"id": "a", "provider": "local", "credentials": {"basePath": "values"}})
    assert found["credentials"] == {"basePath": str(tmp_path / "values")}
