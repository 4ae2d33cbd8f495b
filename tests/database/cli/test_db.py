"""`pipeweave db` and `pipeweave token` on a real database."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result
from support.pages import ROOT
from support.servers import new_database

from pipeweave.cli import main
from pipeweave.up.postgres import Postgres

REVISIONS = sorted(path.name[:4] for path in (ROOT / "migrations/versions").glob("0*.py"))


def call(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--database-url", url])


def test_the_schema_goes_from_nothing_to_current_and_back(postgres_server: Postgres) -> None:
    with new_database(postgres_server, "empty_for_cli") as url:
        before = call(url, "db", "status")
        assert (before.exit_code, before.stdout) == (
            1,
            f"The schema is at no version; pending: {', '.join(REVISIONS)}\n",
        )
        assert json.loads(call(url, "db", "migrate", "--json").stdout)["ran"] == REVISIONS
        assert call(url, "db", "migrate").stdout == f"The schema is current: {REVISIONS[-1]}\n"
        assert CliRunner().invoke(main, ["db", "init", "--url", url]).exit_code == 0
        after = call(url, "db", "status", "--json")
        assert (after.exit_code, json.loads(after.stdout)["isCurrent"]) == (0, True)


def test_a_reset_wants_to_be_meant(fresh_database_url: str) -> None:
    call(fresh_database_url, "token", "create", "mine")
    refused = call(fresh_database_url, "db", "reset")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert len(tokens(fresh_database_url)) == 1
    assert call(fresh_database_url, "db", "reset", "--yes").exit_code == 0
    assert tokens(fresh_database_url) == []


def tokens(url: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(call(url, "token", "list", "--json").stdout)["tokens"]
    return found


def test_a_token_is_shown_once_and_never_listed(fresh_database_url: str) -> None:
    made = call(fresh_database_url, "token", "create", "deploy", "--scope", "read", "--expires", "30d")
    secret = made.stdout.strip()
    assert secret.startswith("pw_")
    assert "cannot be shown again" in made.stderr
    listed = call(fresh_database_url, "token", "list").output
    assert "deploy" in listed
    assert secret not in listed
    (shown,) = tokens(fresh_database_url)
    assert (shown["scopes"], shown["tenants"], shown["isValid"]) == (["orchestrator:read"], ["default"], True)


def test_a_revoked_token_is_revoked_once(fresh_database_url: str) -> None:
    call(fresh_database_url, "token", "create", "deploy")
    first, second = (call(fresh_database_url, "token", "revoke", "deploy") for _ in range(2))
    assert first.exit_code == 0
    assert (second.exit_code, "NOT_FOUND" in second.stderr) == (1, True)
    assert tokens(fresh_database_url)[0]["isValid"] is False


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--expires", "soon"), 2, "30d"),
        (("--expires", "2026-01-01T00:00:00"), 2, "time zone"),
        (("--expires", "2020-01-01T00:00:00Z"), 1, "expiresAt"),
        (("--scope", "everything"), 2, "admin"),
        (("--tenant", "a b"), 1, "tenants"),
    ],
)
def test_a_wrong_wish_makes_no_token(
    fresh_database_url: str, options: tuple[str, ...], code: int, said: str
) -> None:
    result = call(fresh_database_url, "token", "create", "mine", *options)
    assert result.exit_code == code
    assert said in result.stderr
    assert tokens(fresh_database_url) == []


def test_a_database_without_the_schema_says_so(postgres_server: Postgres) -> None:
    with new_database(postgres_server, "bare_for_cli") as url:
        result = call(url, "token", "list")
    assert result.exit_code == 1
    assert "pipeweave db migrate" in result.stderr


def test_a_new_token_says_in_utc_when_it_ends(fresh_database_url: str) -> None:
    until = ("--expires", "2999-01-01T01:00:00+01:00", "--json")
    made = json.loads(call(fresh_database_url, "token", "create", "x", *until).stdout)
    assert made["expiresAt"] == "2999-01-01T00:00:00.000Z" == tokens(fresh_database_url)[0]["expiresAt"]
