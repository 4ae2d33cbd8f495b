"""The logs of a stack as one log: lines of all processes, sorted by time."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeweave.cli import main
from pipeweave.up import log_files
from pipeweave.up.log_line import message_of, parse

RUN, OTHER = "prun_01m80arwk4es7bk8x0dg000000", "prun_01m80arwk4es7bk8x0dg000001"


def line(second: int, message: str, **more: object) -> str:
    time = f"2026-11-22T15:00:{second:02}.500+00:00"
    return json.dumps({"time": time, "level": "info", "logger": "shop", "message": message, **more})


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ".pipeweave" / "logs"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PIPEWEAVE_DATA_DIR", str(tmp_path / ".pipeweave"))
    (folder / "worker-1.log").write_text(
        "\n".join(
            [
                line(1, "first", run_id=RUN),
                "a line without time",
                "",
                line(
                    5, "task_run.failed", run_id=RUN, step_id="charge", map_index=2, exception="Boom\n  at 3"
                ),
                line(6, "other", run_id=OTHER),
            ]
        )
    )
    (folder / "api.log").write_text(line(3, "GET /health") + "\n")
    (folder / "postgres.log").write_text("2026-11-22 15:00:04.000 UTC [12] ERROR:  no\n")
    return folder


def shown(*arguments: str) -> list[str]:
    answer = CliRunner().invoke(main, ["logs", *arguments])
    assert answer.exit_code == 0, answer.output
    return answer.stdout.splitlines()


def test_lines_of_all_processes_are_sorted_by_time(logs: Path) -> None:
    lines = [each.split(maxsplit=1)[1] for each in shown() if not each.startswith("    ")]
    assert [each.split()[0] for each in lines] == [
        "worker-1",
        "worker-1",
        "api",
        "postgres",
        *["worker-1"] * 2,
    ]
    assert "a line without time" in lines[1]


def test_a_line_names_its_step_its_run_and_its_traceback(logs: Path) -> None:
    lines = shown()
    failed = next(at for at, each in enumerate(lines) if "task_run.failed" in each)
    assert lines[failed].endswith(f"info    task_run.failed step=charge[2] {RUN}")
    assert lines[failed + 1 : failed + 3] == ["    Boom", "      at 3"]


def test_the_last_lines_of_one_process(logs: Path) -> None:
    assert len(shown("-n", "2")) == 1 + 1 + 2
    assert [each.split()[1] for each in shown("api", "postgres")] == ["api", "postgres"]


@pytest.mark.parametrize("given", [RUN, RUN[:12] + RUN[12:-1] + "0"])
def test_lines_of_one_run(logs: Path, given: str) -> None:
    printed = [json.loads(each) for each in shown("--run", given, "--json")]
    assert [each["message"] for each in printed] == ["first", "task_run.failed"]
    assert {each["process"] for each in printed} == {"worker-1"}


def test_lines_of_a_run_are_found_in_older_files(logs: Path) -> None:
    (logs / "worker-1.log.1").write_text(line(0, "long ago", run_id=RUN) + "\n")
    assert "long ago" in shown("--run", RUN)[0]


def test_an_unknown_process_is_answered_with_the_known_ones(logs: Path) -> None:
    answer = CliRunner().invoke(main, ["logs", "worker"])
    assert answer.exit_code == 1
    assert "did you mean 'worker-1'?" in answer.stderr
    assert "api, postgres, worker-1" in answer.stderr


def test_new_lines_are_followed_into_a_new_file(logs: Path) -> None:
    fresh = log_files.follow(logs, ["api"])
    file = logs / "api.log"
    end = log_files._End(file, "api")
    with file.open("a") as log:
        log.write(line(8, "more") + "\n" + line(9, "begun")[:20])
    assert [each.line.message for each in end.fresh()] == ["more"]
    file.rename(logs / "api.log.1")
    file.write_text(line(10, "rotated") + "\n")
    assert [each.line.message for each in end.fresh()] == ["rotated"]
    fresh.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "level", "message"),
    [
        ("2026-11-22 15:00:04.000 UTC [12] LOG:  ready", "info", "ready"),
        ("2026-11-22 15:00:04.000 UTC [12] pw@pw FATAL:  no role", "error", "no role"),
        ("12:M 22 Nov 2026 15:00:04.000 # low memory", "warning", "low memory"),
        ("[W 261122 15:00:04 mixins:228] down", "warning", "down"),
        ('{"level": "error", "message": "no"}', "error", "no"),
        ('{"not": "ours"}', None, '{"not": "ours"}'),
        ("plain", None, "plain"),
    ],
)
def test_lines_of_every_program_are_understood(text: str, level: str | None, message: str) -> None:
    assert (parse(text).level, message_of(text)) == (level, message)


def test_times_of_flower_are_those_of_its_clock() -> None:
    written = datetime(2026, 11, 22, 15, 0, 4).astimezone()
    assert parse("[I 261122 15:00:04 command:177] Visit me").time == written


def test_times_of_postgresql_are_utc() -> None:
    assert parse("2026-11-22 15:00:04.250 UTC [12] LOG:  x").time == datetime(
        2026, 11, 22, 15, 0, 4, 250_000, UTC
    )


def test_the_lines_of_a_run_are_found_whatever_names_their_ids_have(logs: Path) -> None:
    (logs / "worker-2.log").write_text(line(9, "charged", runId=RUN, stepId="charge", dagId="pay"))
    shown = CliRunner().invoke(main, ["logs", "--run", RUN]).output
    assert "charged" in shown and "step=charge" in shown
