"""Several backends at once: which one new values go to, and what is told about them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.gcs_server import a_gcs_backend
from support.memory_storage import MemoryStorage
from support.s3_server import a_backend

from pipeweave.errors import InvalidSetting
from pipeweave.settings import Settings, load
from pipeweave.storage import Backends, LocalStorage, open_backend, tokens
from pipeweave.storage.__main__ import main


def an_entry(name: str, **members: Any) -> dict[str, Any]:
    return {"id": name, "provider": "local", "credentials": {"basePath": f"/{name}"}, **members}


def test_without_the_setting_there_is_a_folder_below_the_data_directory(tmp_path: Path) -> None:
    backends = Backends.of(Settings(data_dir=str(tmp_path)))
    assert (backends.ids, backends.default_id) == (("local",), "local")
    assert isinstance(backends.default, LocalStorage)
    assert backends.default.root == tmp_path / "storage"
    assert not (tmp_path / "storage").exists()


@pytest.mark.parametrize(
    ("marked", "default", "expected"),
    [(None, None, "a"), ("b", None, "b"), ("b", "c", "c"), (None, "b", "b")],
)
def test_the_default_is_named_or_marked_or_the_first(
    marked: str | None, default: str | None, expected: str
) -> None:
    entries = tuple(an_entry(each, isDefault=each == marked) for each in "abc")
    backends = Backends.of(Settings(storage_backends=entries, default_storage_backend_id=default))
    assert (backends.ids, backends.default_id) == (("a", "b", "c"), expected)
    assert backends.get(expected) is backends.default


@pytest.mark.parametrize(
    ("tenant", "pipeline", "expected"),
    [
        ("other", None, "main"),
        ("other", "other", "main"),
        ("other", "align", "genomes"),
        ("acme", None, "acme"),
        ("acme", "other", "acme"),
        ("acme", "align", "genomes"),
        ("acme", "bill", "acme-bills"),
        ("other", "bill", "main"),
        ("globex", "other", "acme"),
    ],
)
def test_a_pipeline_is_asked_before_a_tenant(tenant: str, pipeline: str | None, expected: str) -> None:
    entries = (
        an_entry("acme", tenants=["acme", "globex"]),
        an_entry("main", isDefault=True),
        an_entry("genomes", pipelines=["align", "call"]),
        an_entry("second", tenants=["acme"], pipelines=["align"]),
        an_entry("acme-bills", tenants=["acme"], pipelines=["bill"]),
    )
    assert Backends(entries).choose(tenant, pipeline) == expected


def test_a_backend_that_is_gone_is_named_with_those_there_are() -> None:
    backends = Backends((an_entry("a"), an_entry("b")))
    for use in (backends.get, backends.entry, lambda name: backends.locate(f"{name}//x/y")):
        with pytest.raises(InvalidSetting, match="'old'") as caught:
            use("old")
        assert "a, b" in str(caught.value.hint)


def test_a_reference_leads_to_its_backend_and_a_path_alone_to_the_default() -> None:
    backends = Backends((an_entry("a"), an_entry("b", isDefault=True)))
    assert backends.locate("a//x/y") == (backends.get("a"), "x/y")
    assert backends.locate("x/y") == (backends.get("b"), "x/y")


def test_a_description_holds_no_credentials() -> None:
    entries = (
        a_backend("http://s3:9000", id="main", region="eu"),
        an_entry("acme", tenants=["acme", "globex"], pipelines=["bill"]),
    )
    backends = Backends(entries)
    main_shown = {
        "id": "main",
        "provider": "minio",
        "endpoint": "http://s3:9000",
        "bucket": entries[0]["bucket"],
        "region": "eu",
        "isDefault": True,
    }
    acme_shown = {"id": "acme", "provider": "local", "isDefault": False, "pipelines": ["bill"]}
    assert backends.describe() == [main_shown, {**acme_shown, "tenants": ["acme", "globex"]}]
    assert backends.describe("other") == [main_shown]
    assert backends.describe("acme") == [main_shown, {**acme_shown, "tenants": ["acme"]}]
    assert "hunter2" not in repr(backends)


def test_one_storage_may_be_the_only_backend() -> None:
    storage = MemoryStorage()
    backends = Backends.only(storage, "memory")
    assert backends.get("memory") is backends.default is storage
    assert backends.choose("any", "any") == "memory"


def test_what_a_token_holds_opens_the_same_backend(tmp_path: Path) -> None:
    entry = an_entry("a", credentials={"basePath": str(tmp_path)}, tenants=["acme"])
    Backends((entry,)).default.put("x", b"1")
    for format in ("sdk", "pbkdf2"):
        text = tokens.seal(tokens.content_of(entry), "s" * 32, format=format, now=1.0, seconds=60)
        assert open_backend(tokens.open_sealed(text, "s" * 32, now=2.0)).get("x") == b"1"


@pytest.mark.parametrize("provider", ["local", "aws-s3", "minio", "gcs"])
def test_an_entry_that_lacks_a_member_is_refused(provider: str) -> None:
    with pytest.raises(InvalidSetting, match="has no"):
        open_backend({"id": "a", "provider": provider, "credentials": {}})


def test_the_buckets_are_created_once(
    s3_url: str, gcs_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [
        a_backend(s3_url, region="eu-central-1"),
        a_gcs_backend(gcs_url, region="europe-west3"),
        an_entry("c"),
    ]
    monkeypatch.setenv("STORAGE_BACKENDS", json.dumps(entries))
    assert (main(), main()) == (0, 0)
    names = [each["bucket"] for each in entries[:2]]
    words = [f"Bucket {name} {word}." for word in ("created", "exists") for name in names]
    assert capsys.readouterr().out.splitlines() == words
    backends = Backends.of(load())
    for each in ("main", "google"):
        backends.get(each).put("a", b"1")


def test_making_the_buckets_says_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STORAGE_BACKENDS", "[1]")
    assert main() == 1
    assert "STORAGE_BACKENDS" in capsys.readouterr().err


def test_files_need_no_bucket(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("STORAGE_BACKENDS", raising=False)
    assert main() == 0
    assert "no bucket" in capsys.readouterr().out


def test_the_clients_of_stores_are_imported_when_they_are_used() -> None:
    entries = [a_backend("http://s3"), a_gcs_backend("http://gcs"), an_entry("c")]
    program = f"""
import sys
from pipeweave.storage import Backends, tokens
Backends({entries!r})
print(sorted({{"boto3", "botocore", "google.cloud.storage", "cryptography"}} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
