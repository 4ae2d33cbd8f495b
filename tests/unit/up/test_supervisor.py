"""The supervisor with small stand-in commands."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.servers import wait_until
from support.stand_in_processes import SLEEP, Stage, shell

from pipeweave.errors import StartFailed, Unavailable
from pipeweave.up import leftovers
from pipeweave.up.launch import Launch
from pipeweave.up.leftovers import birth
from pipeweave.up.output import Console, Output
from pipeweave.up.processes import ProcessRow, ProcessSpec, read_rows, write_rows
from pipeweave.up.supervised import KILLED_DELAY_S, RESTART_DELAYS_S, Supervised, restart_delay
from pipeweave.up.supervisor import StoppedWhileStarting, Supervisor


def test_a_process_is_running_once_it_is_ready(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    stage.start(shell("one", f"touch {ready}; {SLEEP}", is_ready=ready.exists))
    assert stage.rows["one"].state == "running"
    assert stage.rows["one"].restarts == 0


def test_a_killed_process_is_back_within_five_seconds(stage: Stage) -> None:
    stage.start(shell("one", SLEEP), shell("two", SLEEP))
    stage.watch()
    first, other = stage.pid("one"), stage.pid("two")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: stage.rows["one"].state == "running" and stage.pid("one") != first, 5)
    assert stage.rows["one"].restarts == 1
    assert stage.pid("two") == other


def test_children_of_a_dead_process_are_ended(stage: Stage, tmp_path: Path) -> None:
    note = tmp_path / "child"
    stage.start(shell("one", f"sleep 600 & echo $! > {note}; wait", is_ready=note.exists))
    stage.watch()
    wait_until(lambda: note.read_text().strip() != "")
    child = int(note.read_text())
    first = stage.pid("one")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: birth(child) is None, 5)


def test_a_process_that_ends_before_it_is_ready_fails_the_start_with_its_last_words(stage: Stage) -> None:
    with pytest.raises(StartFailed, match="one ended with exit code 3 during the start: no tasks in app"):
        stage.start(shell("one", "sleep 0.2; echo no tasks in app >&2; exit 3", is_ready=lambda: False))
    assert stage.rows["one"].state == "stopped"


def test_last_words_are_told_though_they_are_read_after_the_end(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    noticed = threading.Event()
    read, end = Supervised._read, Supervised.ended

    def end_and_tell(self: Supervised, code: int, *, will_restart: bool) -> float:
        noticed.set()
        return end(self, code, will_restart=will_restart)

    def read_late(self: Supervised, process: Any) -> None:
        assert noticed.wait(60)
        read(self, process)

    monkeypatch.setattr(Supervised, "ended", end_and_tell)
    monkeypatch.setattr(Supervised, "_read", read_late)
    with pytest.raises(StartFailed, match="exit code 3 during the start: no tasks in app"):
        stage.start(shell("one", "echo no tasks in app >&2; exit 3", is_ready=lambda: False))


def test_a_program_that_is_not_there_fails_the_start(stage: Stage) -> None:
    missing = ProcessSpec("one", lambda: Launch(("/does/not/exist",)))
    with pytest.raises(StartFailed, match="cannot be started: No such file"):
        stage.start(missing)


def test_a_start_that_takes_too_long_names_what_is_late(stage: Stage) -> None:
    stage.supervisor.start(shell("one", SLEEP, is_ready=lambda: False))
    with pytest.raises(Unavailable, match=r"not ready after 0\.3 s: one"):
        stage.supervisor.wait_ready(["one"], 0.3)


def test_a_stop_that_is_asked_for_during_the_start_is_heard(stage: Stage) -> None:
    stage.supervisor.start(shell("one", SLEEP, is_ready=lambda: False))
    stage.supervisor.request_stop()
    with pytest.raises(StoppedWhileStarting):
        stage.supervisor.wait_ready(["one"], 20)


def test_processes_stop_from_the_highest_stage_down(stage: Stage, tmp_path: Path) -> None:
    order, script = (
        tmp_path / "order",
        "trap 'echo {0} >> {1}; exit 0' TERM; touch {2}; while :; do sleep 0.05; done",
    )
    for number, name in enumerate(("server", "worker", "clock")):
        ready = tmp_path / f"{name}.ready"
        spec = shell(name, script.format(name, order, ready), is_ready=ready.exists, stage=number)
        stage.start(spec)
    stage.stop()
    assert order.read_text().split() == ["clock", "worker", "server"]
    assert {row.pid for row in stage.rows.values()} == {None}


def test_a_process_that_will_not_stop_is_killed_after_its_grace(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"
    stage.start(shell("one", script, is_ready=ready.exists, grace_s=0.2))
    pid = stage.pid("one")
    stage.stop()
    assert birth(pid) is None
    assert "did not stop in time" in (tmp_path / "up.log").read_text()


def test_processes_are_stopped_though_their_folder_was_deleted(tmp_path: Path) -> None:
    def record(rows: Sequence[ProcessRow]) -> None:
        pids.update(row.pid for row in rows if row.pid)
        raise FileNotFoundError

    pids: set[int] = set()
    supervisor = Supervisor(tmp_path, Console(None), record)
    supervisor.start(shell("one", SLEEP))
    supervisor.wait_ready(["one"], 120)
    supervisor.stop()
    assert pids and not any(map(birth, pids))


def test_lines_go_to_a_log_of_their_own_and_to_the_console_with_a_name(stage: Stage, tmp_path: Path) -> None:
    stage.start(shell("one", f"echo hello; echo oops >&2; {SLEEP}"))
    wait_until(lambda: "oops" in stage.console.getvalue())
    assert "one       | hello\n" in stage.console.getvalue()
    assert (tmp_path / "one.log").read_text() == "hello\noops\n"


def test_a_log_never_exceeds_ten_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeweave.up.output.FILE_BYTES", 100)
    output = Output("one", tmp_path, Console(None))
    for number in range(200):
        output.write(f"line {number:03} of a log")
    output.close()
    files = sorted(tmp_path.glob("one.log*"))
    assert len(files) == 10
    assert all(file.stat().st_size <= 100 for file in files)
    assert "line 199" in (tmp_path / "one.log").read_text()


def test_delays_grow_with_short_lives_but_not_for_what_was_killed() -> None:
    assert tuple(restart_delay(lives, 1) for lives in range(5)) == (*RESTART_DELAYS_S, RESTART_DELAYS_S[-1])
    assert restart_delay(9, -signal.SIGKILL) == KILLED_DELAY_S


def test_the_watchdog_ends_everything_when_its_supervisor_is_gone(stage: Stage, tmp_path: Path) -> None:
    rows, connection = tmp_path / "processes.json", tmp_path / "connection.json"
    connection.write_text("{}")
    watchdog = Launch((sys.executable, "-I", "-S", leftovers.__file__, str(rows), str(connection)))
    stage.start(
        ProcessSpec("watchdog", lambda: watchdog, stage=-1, is_watching_us=True),
        shell("one", SLEEP),
        shell("stubborn", f"trap '' TERM; {SLEEP}"),
    )
    pids = [row.pid for row in read_rows(rows) if row.pid]
    assert len(pids) == 3
    # The end of its standard input is all that the watchdog sees of a supervisor's death.
    stdin = stage.supervisor._processes["watchdog"]._process.stdin  # type: ignore[union-attr]
    assert stdin
    stdin.close()
    wait_until(lambda: not any(map(birth, pids)), 15)
    assert not rows.exists()
    assert not connection.exists()


def test_a_process_id_that_was_given_out_again_is_left_alone(tmp_path: Path) -> None:
    rows = tmp_path / "processes.json"
    innocent = os.getppid()
    write_rows(
        rows, [ProcessRow("one", "running", innocent, "another birth", time.time(), 0, 0, signal.SIGKILL)]
    )
    assert leftovers.sweep(rows, tmp_path / "none") == []
    assert birth(innocent)
    assert not rows.exists()
