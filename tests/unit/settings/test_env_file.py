"""`.env`: what of it counts, what the environment wins, and how a line that cannot be read is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.errors import InvalidSetting
from pipeweave.settings import env_file, load


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def wrote(text: str, name: str = ".env") -> None:
    Path(name).write_text(text)


def refused(environ: dict[str, str] | None = None) -> InvalidSetting:
    with pytest.raises(InvalidSetting) as caught:
        env_file.additions(environ or {})
    return caught.value


def command(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`pipeweave …` in a process of its own: it changes its environment."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-m", "pipeweave.cli", *arguments],
        env={**plain, **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_without_a_file_nothing_is_added() -> None:
    assert env_file.additions({}) == {}


def test_the_file_of_the_working_directory_fills_what_the_environment_leaves_open() -> None:
    wrote("# ports\nPORT=4000\nexport MAX_CONCURRENCY='7' # two\n\nSHOP_KEY=\"a b\"\n")
    added = env_file.additions({"MAX_CONCURRENCY": "3"})
    assert added == {"PORT": "4000", "SHOP_KEY": "a b"}
    assert load(added).port == 4000


def test_another_file_is_named_by_the_environment_alone() -> None:
    wrote("PORT=4000\n")
    wrote("PORT=5000\n", "other.env")
    assert env_file.additions({"PIPEWEAVE_ENV_FILE": "other.env"}) == {"PORT": "5000"}
    assert env_file.additions({"PIPEWEAVE_ENV_FILE": os.devnull}) == {}
    assert env_file.additions({"PIPEWEAVE_ENV_FILE": " "}) == {"PORT": "4000"}
    wrote("A=1\nPIPEWEAVE_ENV_FILE=other.env\n")
    assert refused().detail.startswith("line 2 of .env sets PIPEWEAVE_ENV_FILE")


def test_a_variable_that_is_set_to_nothing_switches_that_of_the_file_off() -> None:
    wrote("PORT=4000\n")
    assert env_file.additions({"PORT": ""}) == {}


def test_the_environment_wins_under_any_name_of_a_setting() -> None:
    wrote(
        "PIPEWEAVE_PORT=4000\nPOLL_INTERVAL=500\nDB_HOST=file\nPIPEWEAVE_DATABASE_URL=postgresql://h/file\n"
    )
    added = env_file.additions(
        {"PORT": "1", "POLL_INTERVAL_MS": "200", "DATABASE_URL": "postgresql://h/shell"}
    )
    # The plain name may be that of another program, beside which ours has the prefix.
    assert added == {"PIPEWEAVE_DATABASE_URL": "postgresql://h/file"}


@given(st.text(alphabet=st.characters(exclude_characters="'\\\0\r", exclude_categories=["Cs"])))
def test_a_quoted_value_is_taken_as_it_is(value: str) -> None:
    Path(".env").write_bytes(f"FIRST=1\nSHOP_KEY='{value}'\nLAST=2\n".encode())
    assert env_file.additions({})["SHOP_KEY"] == value


def test_nothing_in_a_value_is_executed_or_expanded() -> None:
    wrote('A=$(touch owned)\nB="`touch owned`"\nC=${HOME}/x\n')
    assert env_file.additions({"HOME": "/h"}) == {
        "A": "$(touch owned)",
        "B": "`touch owned`",
        "C": "${HOME}/x",
    }
    assert not Path("owned").exists()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("A=1\n\n\nPORT='40\n", 4),
        ("A=1\nthis is no variable\n", 2),
        ("A=1\n# fine\nNAME\n", 3),
        ("\n\n=1\n", 3),
        ("1A=2\n", 1),
        ("A='1' tail\n", 1),
        ('A=1\nB="\0"\n', 2),
    ],
)
def test_a_line_that_cannot_be_read_is_named_by_its_number(text: str, line: int) -> None:
    wrote(text)
    error = refused()
    assert error.code == "INVALID_SETTING"
    assert error.errors[0].field == f".env:{line}"
    assert f"line {line} of .env" in error.detail
    assert "NAME=value" in str(error.hint)


def test_an_error_does_not_show_the_line_which_may_hold_a_secret() -> None:
    wrote("PIPEWEAVE_SECRET_KEY='correct-horse-battery\n")
    assert "correct-horse" not in repr((refused().detail, refused().errors, refused().hint))


def test_a_file_that_is_named_must_be_readable_text(here: Path) -> None:
    assert "missing.env cannot be read: No such file" in refused({"PIPEWEAVE_ENV_FILE": "missing.env"}).detail
    assert "cannot be read: Is a directory" in refused({"PIPEWEAVE_ENV_FILE": str(here)}).detail
    Path("bytes.env").write_bytes(b"A=\xff\n")
    assert "is not UTF-8 text" in refused({"PIPEWEAVE_ENV_FILE": "bytes.env"}).detail
    assert "is larger than" in refused({"PIPEWEAVE_ENV_FILE": "/dev/zero"}).detail


def test_every_command_reads_the_file_and_config_shows_from_where_without_secrets() -> None:
    wrote("PORT=4123\nPIPEWEAVE_SECRET_KEY=" + "s3cret" * 8 + "\nDATABASE_URL=postgresql://u:hidden@h/d\n")
    answer = command("config", "--json", MAX_CONCURRENCY="3")
    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(answer.stdout)["settings"]}
    assert rows["PORT"] == ("4123", ".env: PORT")
    assert rows["MAX_CONCURRENCY"] == ("3", "MAX_CONCURRENCY")
    assert rows["PIPEWEAVE_SECRET_KEY"][1] == ".env: PIPEWEAVE_SECRET_KEY"
    assert "s3cret" not in answer.stdout and "hidden" not in answer.stdout


def test_a_command_ends_with_one_line_when_the_file_cannot_be_read() -> None:
    wrote("PORT=4123\nnonsense\n")
    answer = command("config")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr.startswith("pipeweave: INVALID_SETTING: line 2 of .env is not NAME=value")
    assert answer.stderr.count("\n") == 1


def test_an_unknown_name_in_the_file_is_refused_like_one_in_the_environment() -> None:
    wrote("PIPEWEAVE_PROT=4000\n")
    assert "did you mean" in command("config").stderr


def test_the_celery_app_reads_the_file() -> None:
    wrote("BROKER_URL=redis://broker.example:6399/5\n")
    script = "from pipeweave.workers.app import app; print(app.conf.broker_url)"
    plain = {"PATH": os.environ["PATH"]}
    answer = subprocess.run(
        [sys.executable, "-c", script], env=plain, capture_output=True, text=True, timeout=60
    )
    assert "broker.example:6399/5" in answer.stdout, answer.stderr
