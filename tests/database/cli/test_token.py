"""`pipeweave token`: what a token is bound to, and how it is revoked with what it made."""

from __future__ import annotations

import hashlib
import json
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipeweave.cli import main
from pipeweave.orchestrator.security import ADMIN, access_tokens
from pipeweave.orchestrator.store.database import Database
from pipeweave.up.database import issue_token

DER = b"0\x82 a certificate"


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["token", *arguments, "--database-url", url])


def made(url: str, *arguments: str) -> dict[str, Any]:
    answer = call(url, "create", *arguments, "--json")
    assert answer.exit_code == 0, answer.stderr
    shown: dict[str, Any] = json.loads(answer.stdout)
    return shown


def test_a_token_is_bound_and_the_list_says_to_what(fresh_database_url: str, tmp_path: Path) -> None:
    pem = tmp_path / "client.pem"
    pem.write_text(f"Subject: mailer\n{ssl.DER_cert_to_PEM_cert(DER)}")
    token = made(
        fresh_database_url,
        *("mailer", "--scope", "worker", "--service", "mailer", "--certificate", str(pem)),
        *("--network", "10.1.0.0/16", "--network", "10.2.3.4"),
    )
    assert token["serviceId"] == "mailer" and token["certificate"] == hashlib.sha256(DER).hexdigest()
    assert token["networks"] == ["10.1.0.0/16", "10.2.3.4/32"]
    shown = call(fresh_database_url, "list").stdout
    assert "10.1.0.0/16" in shown and "mailer" in shown and "a certificate" in shown
    (row,) = json.loads(call(fresh_database_url, "list", "--json").stdout)["tokens"]
    assert (row["networks"], row["serviceId"]) == (token["networks"], "mailer")


def test_a_thumbprint_may_be_written_as_openssl_does(fresh_database_url: str) -> None:
    written = ":".join(["AB"] * 32)
    assert made(fresh_database_url, "a", "--certificate", written)["certificate"] == "ab" * 32


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--certificate", "nowhere.pem"), "neither a file with a certificate"),
        (("--network", "10.1.2.3/8"), "did you mean 10.0.0.0/8?"),
        (("--service", "mailer"), "needs the scope orchestrator:worker"),
    ],
)
def test_a_wrong_bound_is_one_line(fresh_database_url: str, arguments: tuple[str, ...], problem: str) -> None:
    refused = call(fresh_database_url, "create", "a", *arguments)
    assert refused.exit_code != 0 and problem in refused.stderr and refused.stdout == ""
    assert "Traceback" not in refused.stderr


def test_an_administrators_token_ends_after_90_days_unless_it_is_said(fresh_database_url: str) -> None:
    assert made(fresh_database_url, "reader", "--scope", "read")["expiresAt"] is None
    shown = call(fresh_database_url, "create", "boss", "--scope", "admin")
    assert "It expires at" in shown.stderr and shown.stdout.startswith("pw_")
    ends = {
        each["name"]: (each["createdAt"], each["expiresAt"])
        for each in json.loads(call(fresh_database_url, "list", "--json").stdout)["tokens"]
    }
    assert ends["boss"][1] is not None and ends["reader"][1] is None
    longer = made(fresh_database_url, "boss", "--scope", "admin", "--expires", "400d")
    assert longer["expiresAt"] > ends["boss"][1]


def test_a_token_goes_with_what_it_made_and_what_that_made(fresh_database_url: str) -> None:
    database = Database(fresh_database_url, pool_size=0)
    with database.transaction() as tx:
        first = access_tokens.make_token(tx, name="first", tenants=["*"], scopes=[ADMIN])
        child = access_tokens.make_token(tx, name="child", tenants=["*"], scopes=[ADMIN], maker=first.id)
        grandchild = access_tokens.make_token(
            tx, name="grandchild", tenants=["*"], scopes=[ADMIN], maker=child.id
        )
    assert call(fresh_database_url, "revoke", "first", "--children").exit_code == 0
    with database.transaction() as tx:
        assert [access_tokens.verify(tx, each.token) for each in (first, child, grandchild)] == [None] * 3


def test_up_keeps_its_token_while_enough_of_it_is_left(fresh_database_url: str) -> None:
    token = issue_token(fresh_database_url, "default", None)
    assert issue_token(fresh_database_url, "default", token) == token
    with Database(fresh_database_url, pool_size=0).transaction() as tx:
        assert access_tokens.verify(tx, token, until=tx.now + timedelta(days=364))
        assert access_tokens.verify(tx, token, until=tx.now + timedelta(days=366)) is None
        tx.execute(
            "UPDATE access_tokens SET expires_at = CAST(:soon AS timestamptz)",
            {"soon": tx.now + timedelta(days=100)},
        )
    assert issue_token(fresh_database_url, "default", token) != token
