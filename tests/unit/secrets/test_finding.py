"""A tenant finds its own secrets, and those of all tenants, and nothing of another tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeweave.errors import SecretDenied, SecretNotFound
from pipeweave.secrets import CACHED_S, SecretFinder


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def write(folder: Path, place: str, value: str) -> None:
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value)


def files(folder: Path, **more: Any) -> dict[str, Any]:
    return {"provider": "file", "path": str(folder), **more}


def test_a_tenant_finds_its_own_secret_before_the_shared_one(tmp_path: Path) -> None:
    for place in ("acme/DB", "shared/DB", "shared/MAIL"):
        write(tmp_path, place, f"value of {place}\n")
    finder = SecretFinder([files(tmp_path)])
    assert finder.find("acme", "DB").value == "value of acme/DB"
    assert finder.find("globex", "DB").value == "value of shared/DB"
    assert finder.find("acme", "MAIL").place == "shared/MAIL"


def test_a_tenant_finds_nothing_of_another_one(tmp_path: Path) -> None:
    write(tmp_path, "globex/DB", "of globex")
    write(tmp_path, "DB", "of nobody")
    finder = SecretFinder([files(tmp_path)])
    with pytest.raises(SecretNotFound) as missing:
        finder.find("acme", "DB")
    assert "acme/DB" in str(missing.value.hint)
    for name in ("../globex/DB", "globex/DB", "..", "", ".x", "a" * 201, "a\0b", "a b"):
        with pytest.raises(SecretDenied):
            finder.find("acme", name)


def test_a_source_with_tenants_has_plain_names_for_them_alone(tmp_path: Path) -> None:
    write(tmp_path, "DB", "plain")
    finder = SecretFinder([files(tmp_path, tenants=["default"])])
    assert finder.find("default", "DB").value == "plain"
    with pytest.raises(SecretNotFound):
        finder.find("acme", "DB")
    assert SecretFinder([files(tmp_path, tenants=["*"])]).find("acme", "DB").value == "plain"


def test_sources_are_asked_in_their_order_and_for_names_with_their_prefix_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, "t/db-password", name)
        write(tmp_path / name, "t/other", name)
    finder = SecretFinder([files(tmp_path / "one", prefix="db-"), files(tmp_path / "two")])
    assert finder.find("t", "db-password").value == "one"
    assert finder.find("t", "other").value == "two"


def test_a_value_is_kept_for_a_minute_and_a_missing_one_is_not(tmp_path: Path) -> None:
    clock = FakeClock()
    finder = SecretFinder([files(tmp_path)], clock)
    with pytest.raises(SecretNotFound):
        finder.find("t", "DB")
    write(tmp_path, "t/DB", "first")
    assert finder.find("t", "DB").value == "first"
    write(tmp_path, "t/DB", "second")
    clock.now = CACHED_S - 1
    assert finder.find("t", "DB").value == "first"
    clock.now = CACHED_S
    assert finder.find("t", "DB").value == "second"


def test_a_secret_of_hosts_is_for_requests_to_them_alone(tmp_path: Path) -> None:
    write(tmp_path, "t/RATES", "Bearer 0123")
    finder = SecretFinder([files(tmp_path, hosts=["Rates.example"])])
    assert finder.find("t", "RATES", "rates.EXAMPLE").value == "Bearer 0123"
    for host in (None, "evil.example", "rates.example.evil.example"):
        with pytest.raises(SecretDenied) as refused:
            finder.find("t", "RATES", host)
        assert "0123" not in f"{refused.value} {refused.value.hint}"


def test_without_sources_the_error_names_the_setting() -> None:
    with pytest.raises(SecretNotFound) as missing:
        SecretFinder([]).find("t", "DB")
    assert "SECRETS" in str(missing.value.hint)


def test_a_value_is_not_shown_with_where_it_was(tmp_path: Path) -> None:
    write(tmp_path, "t/DB", "hunter2hunter2")
    assert "hunter2" not in repr(SecretFinder([files(tmp_path)]).find("t", "DB"))
