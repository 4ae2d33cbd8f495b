"""Values come from a folder, from variables, from Secrets Manager, and from a server that speaks as Vault."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import vault_server
from support.s3_server import running_s3
from support.vault_server import FakeVault, vault

from pipeweave.errors import SecretDenied, Unavailable
from pipeweave.secrets import SecretFinder
from pipeweave.secrets import vault as of_vault
from pipeweave.secrets.aws import AwsSecrets
from pipeweave.secrets.files import SecretFiles
from pipeweave.secrets.provider import MAX_SECRET_BYTES
from pipeweave.secrets.variables import SecretVariables
from pipeweave.secrets.vault import VaultSecrets

KEYS = {"accessKeyId": "testing", "secretAccessKey": "testing"}

# --- files ------------------------------------------------------------------------------------------------


def test_a_file_s_last_newline_is_not_part_of_its_value(tmp_path: Path) -> None:
    (tmp_path / "A").write_bytes(b"two\nlines\r\n")
    assert SecretFiles(str(tmp_path)).get("A") == "two\nlines"


def test_links_inside_of_the_folder_are_followed_and_those_that_lead_out_are_not(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    (inside / "..data").mkdir(parents=True)
    (inside / "..data" / "A").write_text("mounted")
    (inside / "A").symlink_to("..data/A")
    (tmp_path / "passwd").write_text("root")
    (inside / "B").symlink_to("../passwd")
    assert SecretFiles(str(inside)).get("A") == "mounted"
    for place in ("B", "../passwd"):
        with pytest.raises(SecretDenied, match="outside"):
            SecretFiles(str(inside)).get(place)


def test_a_pipe_is_not_waited_for_and_a_folder_is_no_secret(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    assert SecretFiles(str(tmp_path)).get("pipe") is None
    assert SecretFiles(str(tmp_path)).get("absent") is None
    assert SecretFiles(str(tmp_path)).get("pipe/absent") is None
    assert SecretFiles(str(tmp_path / "absent")).get("A") is None
    assert SecretFiles(str(tmp_path)).get("folder") is None


@pytest.mark.parametrize("content", [b"x" * (MAX_SECRET_BYTES + 1), b"\xff\xfe\x00binary", b"a\0b"])
def test_what_cannot_be_a_secret_is_refused_without_what_it_is(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "A").write_bytes(content)
    with pytest.raises(SecretDenied) as refused:
        SecretFiles(str(tmp_path)).get("A")
    assert "xxx" not in str(refused.value) and "binary" not in str(refused.value)


def test_the_largest_secret_is_read(tmp_path: Path) -> None:
    (tmp_path / "A").write_bytes(b"x" * MAX_SECRET_BYTES + b"\n")
    assert SecretFiles(str(tmp_path)).get("A") == "x" * MAX_SECRET_BYTES


# --- variables --------------------------------------------------------------------------------------------


def test_only_variables_with_the_beginning_are_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_DB_PASSWORD", "of the database")
    monkeypatch.setenv("DATABASE_URL", "postgresql://")
    finder = SecretFinder([{"provider": "env", "variables": "SECRET_", "tenants": ["default"]}])
    assert finder.find("default", "DB_PASSWORD").value == "of the database"
    assert SecretVariables(os.environ, "SECRET_").get("db-password") == "of the database"
    assert SecretVariables(os.environ, "SECRET_").get("DATABASE_URL") is None


# --- AWS --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secrets_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    import boto3

    with running_s3(tmp_path_factory.mktemp("moto")) as url:
        client = boto3.client(
            "secretsmanager",
            region_name="eu-central-1",
            endpoint_url=url,
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_secret(Name="pipeweave/acme/DB", SecretString="of amazon")
        client.create_secret(Name="pipeweave/acme/RAW", SecretBinary=b"as bytes")
        yield url


def test_secrets_manager_gives_texts_and_bytes_and_says_what_is_missing(secrets_manager: str) -> None:
    aws = AwsSecrets("eu-central-1", "pipeweave/", secrets_manager, KEYS)
    assert aws.get("acme/DB") == "of amazon"
    assert aws.get("acme/RAW") == "as bytes"
    assert aws.get("acme/ABSENT") is None


def test_a_secrets_manager_that_is_away_is_unavailable_in_bounded_time() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        AwsSecrets("eu-central-1", "", "http://127.0.0.1:1", KEYS).get("acme/DB")


@pytest.mark.parametrize("code", ["AccessDeniedException", "UnrecognizedClientException"])
def test_a_secrets_manager_that_refuses_is_final(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.exceptions import ClientError

    class Refusing:
        def get_secret_value(self, **_: Any) -> Any:
            raise ClientError({"Error": {"Code": code}}, "GetSecretValue")

    aws = AwsSecrets("eu-central-1", "", None, KEYS)
    monkeypatch.setitem(vars(aws), "_client", Refusing())
    with pytest.raises(SecretDenied, match=code):
        aws.get("acme/DB")


# --- Vault ------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[FakeVault]:
    with vault() as serving:
        yield serving


def client(server: FakeVault, **more: Any) -> VaultSecrets:
    given = {"path": "pipeweave", "namespace": "", "token": vault_server.TOKEN, "token_file": None, **more}
    return VaultSecrets(server.url, "secret", **given)


def test_vault_gives_the_field_value_or_all_fields_as_json(server: FakeVault) -> None:
    server.secrets["pipeweave/acme/DB"] = {"value": "of vault"}
    server.secrets["pipeweave/acme/ACCOUNT"] = {"user": "shop", "password": "hunter2"}
    assert client(server).get("acme/DB") == "of vault"
    assert client(server).get("acme/ACCOUNT") == '{"user":"shop","password":"hunter2"}'
    assert client(server).get("acme/ABSENT") is None


def test_vault_s_refusal_is_final(server: FakeVault) -> None:
    server.denied.add("pipeweave/acme/DB")
    for wrong in (client(server), client(server, token="hvs.wrong-token-0123")):
        with pytest.raises(SecretDenied) as refused:
            wrong.get("acme/DB")
        assert "hvs." not in str(refused.value)


def test_the_token_s_file_is_read_each_time_and_the_namespace_sent(server: FakeVault, tmp_path: Path) -> None:
    server.secrets["pipeweave/acme/DB"] = {"value": "of vault"}
    file = tmp_path / "token"
    asking = client(server, token=None, token_file=str(file), namespace="team")
    with pytest.raises(SecretDenied, match="token of Vault cannot be read"):
        asking.get("acme/DB")
    file.write_text(f"{vault_server.TOKEN}\n")
    assert asking.get("acme/DB") == "of vault"
    assert server.asked[-1] == ("/v1/secret/data/pipeweave/acme/DB", "team")


def test_a_vault_that_hangs_is_given_up_in_bounded_time(
    server: FakeVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_vault, "WITHIN_S", 0.3)
    server.hangs = threading.Event()
    with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
        client(server).get("acme/DB")


def test_what_is_no_vault_is_not_taken_for_one(server: FakeVault, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in ((200, ["no"]), (200, {"data": {"data": "text"}}), (500, {}), (301, {})):
        monkeypatch.setattr(FakeVault, "answer", lambda *_, given=answer: given)
        with pytest.raises(Unavailable):
            client(server).get("acme/DB")
