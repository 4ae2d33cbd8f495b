"""A check that fails, raises or hangs is a finding; none stops another, and none gives a secret away."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pipeweave.cli import main
from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis.doctor import (
    Check,
    Finding,
    Severity,
    Verdict,
    error,
    examine,
    fine,
    warning,
)
from pipeweave.settings import Settings, load


def found(*checks: Check, settings: Settings | None = None) -> list[Finding]:
    return list(examine(settings or Settings(), checks, limit_s=0.2))


def lines(*checks: Check) -> list[tuple[str, str, str]]:
    return [(each.name, each.level.value, each.verdict.line) for each in found(*checks)]


def good(_: Settings) -> Verdict:
    return fine("it holds")


def bad(_: Settings) -> Verdict:
    return error("it does not", "mend it")


def strange(_: Settings) -> Verdict:
    raise ZeroDivisionError("a line\nand another")


def away(_: Settings) -> Verdict:
    raise Unavailable("nobody answers", hint="start it")


def test_every_check_is_made_whatever_the_others_find() -> None:
    assert lines(Check("a", bad), Check("b", strange), Check("c", away), Check("d", good)) == [
        ("a", "error", "it does not"),
        ("b", "error", "ZeroDivisionError: a line and another"),
        ("c", "error", "nobody answers"),
        ("d", "ok", "it holds"),
    ]


def test_an_error_of_ours_says_itself_what_to_do() -> None:
    (one,) = found(Check("c", away))
    assert one.verdict.hint == "start it"


def test_a_check_that_hangs_is_given_up() -> None:
    for_ever = threading.Event()

    def hangs(_: Settings) -> Verdict:
        for_ever.wait()
        return fine("at last")

    hung, after = found(Check("a", hangs), Check("b", good))
    for_ever.set()
    assert (hung.level, after.level) == (Severity.ERROR, Severity.OK)
    assert "no answer within 0.2 s" in hung.verdict.line


def test_a_check_without_its_needed_checks_is_left_out() -> None:
    checks = (
        Check("a", bad),
        Check("b", strange, needs=("a",)),
        Check("c", strange, needs=("b",)),
        Check("d", good, needs=("e",)),
    )
    assert lines(*checks) == [
        ("a", "error", "it does not"),
        ("b", "warning", "not checked"),
        ("c", "warning", "not checked"),
        ("d", "ok", "it holds"),
    ]


def test_a_warning_is_ground_enough() -> None:
    checks = (Check("a", lambda _: warning("it limps", "rest")), Check("b", good, needs=("a",)))
    assert [each.level for each in found(*checks)] == [Severity.WARNING, Severity.OK]


SECRETS = {
    "DATABASE_URL": "postgresql://me:pg%40secret@host/db?sslpassword=tls-secret",
    "BROKER_URL": "redis://:broker-canary@host:6379/0",
    "PIPEWEAVE_SECRET_KEY": "secret-key-" * 4,
    "PIPEWEAVE_API_TOKEN": "pw_token-secret",
    "STORAGE_BACKENDS": json.dumps(
        [
            {
                "id": "main",
                "provider": "aws-s3",
                "bucket": "b",
                "credentials": {"accessKeyId": "key-id-secret", "secretAccessKey": "access-secret"},
            }
        ]
    ),
}


def test_no_secret_is_in_a_finding() -> None:
    settings = load(SECRETS)

    def tells_all(_: Settings) -> Verdict:
        raise RuntimeError(f"{settings} pg@secret")

    (one,) = found(Check("a", tells_all), settings=settings)
    told = f"{one.verdict.line} {one.verdict.hint}"
    assert "***" in told
    for secret in ("pg%40secret", "pg@secret", "tls-secret", "broker-secret", "secret-key", "token-canary"):
        assert secret not in told
    assert "key-id-secret" not in told
    assert "access-secret" not in told
    assert "aws-s3" in told


# --- the command, where nothing is to be found -------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a folder where no stack runs."""
    monkeypatch.chdir(tmp_path)


def call(*arguments: str, **variables: str) -> Result:
    nothing = dict.fromkeys(("DATABASE_URL", "BROKER_URL"))
    return CliRunner().invoke(main, ["doctor", *arguments], env=nothing | variables)


def test_a_deployment_without_settings_is_told_what_it_lacks() -> None:
    result = call()
    assert result.exit_code == 1
    shown = {line[9:28].strip(): line for line in result.stdout.splitlines()}
    assert "DATABASE_URL is not set" in shown["database"]
    assert "BROKER_URL is not set" in shown["broker"]
    last = result.stdout.splitlines()[-1]
    assert "checks need what failed" in last and "schema" in last and "schema" not in shown
    assert shown["storage"].startswith("ok")


def test_a_misspelt_setting_is_found_and_the_rest_is_checked_all_the_same() -> None:
    result = call("--json", PIPEWEAVE_PROT="1")
    document = json.loads(result.stdout)
    assert document["status"] == "error"
    first, second, *_ = document["checks"]
    assert first == {
        "name": "settings",
        "level": "error",
        "detail": "PIPEWEAVE_PROT is not a setting; did you mean PIPEWEAVE_PORT?",
        "hint": "docs/configuration.md lists every setting",
    }
    assert second["name"] == "database"


@pytest.mark.parametrize(
    "variables",
    [
        {"DATABASE_URL": "postgresql://me:db-canary@127.0.0.1:1/none"},
        {"BROKER_URL": "redis://:broker-canary@127.0.0.1:1/0"},
        {"PIPEWEAVE_ORCHESTRATOR_URL": "http://127.0.0.1:1", "PIPEWEAVE_API_TOKEN": "token-canary"},
    ],
)
def test_an_unreachable_server_is_an_error_with_a_hint(variables: dict[str, str]) -> None:
    result = call("--json", **variables)
    assert result.exit_code == 1
    assert "canary" not in result.stdout
    name = {"DATABASE_URL": "database", "BROKER_URL": "broker"}.get(next(iter(variables)), "api")
    (one,) = [each for each in json.loads(result.stdout)["checks"] if each["name"] == name]
    assert one["level"] == "error"
    assert one["hint"]
