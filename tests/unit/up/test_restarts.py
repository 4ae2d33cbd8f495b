"""Restarts on request, with small stand-in commands: what replaces what, and what if it does not start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.servers import wait_until
from support.stand_in_processes import SLEEP, Stage, shell

from pipeweave.up import restarts
from pipeweave.up.leftovers import birth
from pipeweave.up.process_requests import ProcessRequest, ProcessVerb


class Answers:
    """A request that keeps its answers."""

    def __init__(self, *names: str, verb: ProcessVerb = ProcessVerb.RESTART) -> None:
        self.given: dict[str, str | None] = {}
        self._names, self._verb = names, verb

    def ask(self, stage: Stage) -> None:
        request = ProcessRequest(self._names, self.given.__setitem__, self._verb)
        stage.supervisor.take_requests = lambda: [request]
        stage.supervisor.look_for_requests()

    def wait(self) -> dict[str, str | None]:
        wait_until(lambda: len(self.given) == len(self._names), what="no answer")
        return self.given


def restart(stage: Stage, *names: str) -> dict[str, str | None]:
    answers = Answers(*names)
    answers.ask(stage)
    return answers.wait()


def test_a_process_that_cannot_run_twice_is_stopped_and_started(stage: Stage, tmp_path: Path) -> None:
    order = tmp_path / "order"
    stage.start(
        shell("api", f"echo begin >> {order}; trap 'echo end >> {order}; exit' TERM; {SLEEP[5:]} & wait")
    )
    stage.watch()
    first = stage.pid("api")
    assert restart(stage, "api") == {"api": None}
    assert stage.pid("api") != first
    wait_until(lambda: order.read_text().split() == ["begin", "end", "begin"])
    assert stage.rows["api"].restarts == 1


def test_a_worker_stops_when_its_successor_is_ready(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    assert birth(first), "the old worker goes on while the new one starts"
    ready.touch()
    assert answers.wait() == {"worker-1": None}
    wait_until(lambda: birth(first) is None)
    assert stage.rows["worker-1"].state == "running"


def test_workers_are_replaced_one_after_another(stage: Stage, tmp_path: Path) -> None:
    order = tmp_path / "order"
    for name in ("worker-1", "worker-2"):
        stage.start(shell(name, f"echo {name} >> {order}; {SLEEP}", is_replaceable=True))
    stage.watch()
    assert restart(stage, "worker-1", "worker-2") == {"worker-1": None, "worker-2": None}
    wait_until(lambda: len(order.read_text().split()) == 4)
    assert order.read_text().split()[2:] == ["worker-1", "worker-2"]


def test_a_worker_whose_successor_does_not_start_goes_on(stage: Stage, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    script = f"test -e {broken} && echo 'pipeweave: INVALID_INPUT: tasks.py line 3' && exit 1; {SLEEP}"
    for name in ("worker-1", "worker-2"):
        stage.start(shell(name, script, is_replaceable=True, is_pid_ready=lambda pid: not broken.exists()))
    stage.watch()
    before = stage.pid("worker-1"), stage.pid("worker-2")
    broken.touch()
    answers = restart(stage, "worker-1", "worker-2")
    assert answers["worker-1"] == "ended with exit code 1: pipeweave: INVALID_INPUT: tasks.py line 3"
    assert answers["worker-2"] == "not restarted, because worker-1 did not start"
    assert (stage.pid("worker-1"), stage.pid("worker-2")) == before
    assert (
        stage.rows["worker-1"].last_exit == f"still runs the old code; the new process {answers['worker-1']}"
    )
    assert (
        "worker-1: the new process did not start (exit code 1); the old one keeps running"
        in stage.console.getvalue()
    )


def test_changed_files_restart_the_workers_alone(stage: Stage) -> None:
    stage.start(shell("api", SLEEP), shell("worker-1", SLEEP, is_replaceable=True))
    stage.watch()
    api, worker = stage.pid("api"), stage.pid("worker-1")
    stage.supervisor.files_changed(["tasks.py"])
    wait_until(lambda: stage.pid("worker-1") != worker and birth(worker) is None)
    assert stage.pid("api") == api
    assert "tasks.py changed: the workers restart" in stage.console.getvalue()


def test_a_change_during_a_restart_begins_a_new_one(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    ready.unlink()
    first = Answers("worker-1")
    first.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    early = [row.pid for row in stage.listed if row.state == "starting"]
    stage.supervisor.files_changed(["tasks.py"])
    wait_until(lambda: early[0] and birth(early[0]) is None)
    ready.touch()
    assert first.wait() == {"worker-1": None}
    wait_until(lambda: [row.state for row in stage.listed] == ["running"])


def test_a_successor_that_is_never_ready_is_given_up(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    monkeypatch.setattr(restarts, "READY_WITHIN_S", 0.2)
    assert restart(stage, "worker-1") == {"worker-1": "it was not ready within 0.2 s"}
    assert stage.pid("worker-1") == first


def test_a_change_does_not_end_restarts_that_wait(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True), shell("api", SLEEP))
    stage.watch()
    ready.unlink()
    first, second = Answers("worker-1", "api"), Answers("api")
    first.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    second.ask(stage)
    stage.supervisor.files_changed(["tasks.py"])
    ready.touch()
    assert first.wait() == {"worker-1": None, "api": None}
    assert second.wait() == {"api": None}


def test_a_worker_that_is_killed_while_its_successor_starts_is_replaced(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    first = stage.pid("worker-1")
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: "worker-1 ended with signal 9" in stage.console.getvalue())
    assert not answers.given
    ready.touch()
    assert answers.wait() == {"worker-1": None}
    wait_until(lambda: [row.state for row in stage.listed] == ["running"])


def test_what_a_process_said_before_it_was_killed_is_not_called_the_reason(
    stage: Stage, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    stage.start(shell("api", f"echo 'GET /api/info 200'; touch {said}; {SLEEP}"))
    stage.watch()
    wait_until(said.exists)
    os.kill(stage.pid("api"), signal.SIGKILL)
    wait_until(lambda: stage.rows["api"].last_exit is not None)
    assert stage.rows["api"].last_exit == "ended with signal 9 (SIGKILL)"


def test_a_stop_ends_successors_and_predecessors(stage: Stage, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    stage.start(shell("worker-1", SLEEP, is_ready=ready.exists, is_replaceable=True))
    stage.watch()
    ready.unlink()
    answers = Answers("worker-1")
    answers.ask(stage)
    wait_until(lambda: "starting" in {row.state for row in stage.listed})
    pids = [row.pid for row in stage.listed if row.pid]
    assert len(pids) == 2
    stage.stop()
    assert answers.given == {"worker-1": "the stack stops"}
    assert not any(map(birth, pids))


@pytest.mark.parametrize(("script", "how"), [("exit 3", "exit code 3: bye"), ("kill -9 $$", "SIGKILL")])
def test_the_list_says_why_a_process_restarts(stage: Stage, tmp_path: Path, script: str, how: str) -> None:
    go = tmp_path / "go"
    stage.start(shell("one", f"test -e {go} && exec sleep 600; touch {go}; echo bye; sleep 0.2; {script}"))
    stage.watch()
    wait_until(lambda: stage.rows["one"].restarts == 1 and stage.rows["one"].state == "running")
    assert how in (stage.rows["one"].last_exit or "")


def asked(stage: Stage, verb: ProcessVerb, *names: str) -> dict[str, str | None]:
    answers = Answers(*names, verb=verb)
    answers.ask(stage)
    return answers.wait()


def test_a_process_that_is_stopped_stays_away_until_it_is_started(stage: Stage) -> None:
    stage.start(shell("beat", SLEEP), shell("api", SLEEP))
    stage.watch()
    before = stage.pid("beat")
    assert asked(stage, ProcessVerb.STOP, "beat") == {"beat": None}
    assert birth(before) is None
    assert (stage.rows["beat"].state, stage.rows["beat"].pid) == ("stopped", None)
    assert asked(stage, ProcessVerb.STOP, "beat") == {"beat": None}, "once more changes nothing"
    assert asked(stage, ProcessVerb.START, "beat") == {"beat": None}
    assert stage.rows["beat"].state == "running" and stage.pid("beat") != before
    running = stage.pid("beat")
    assert asked(stage, ProcessVerb.START, "beat") == {"beat": None}
    assert stage.pid("beat") == running


def test_changed_files_do_not_start_a_worker_that_was_stopped(stage: Stage) -> None:
    stage.start(*(shell(name, SLEEP, is_replaceable=True) for name in ("worker-1", "worker-2")))
    stage.watch()
    asked(stage, ProcessVerb.STOP, "worker-1")
    other = stage.pid("worker-2")
    stage.supervisor.files_changed(["tasks.py"])
    wait_until(lambda: stage.pid("worker-2") != other and birth(other) is None)
    assert stage.rows["worker-1"].state == "stopped"


def test_a_process_that_waits_for_its_restart_can_be_stopped(stage: Stage, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    stage.start(shell("api", f"test -e {broken} && exit 3; {SLEEP}"))
    stage.watch()
    broken.touch()
    os.kill(stage.pid("api"), signal.SIGKILL)
    wait_until(lambda: stage.rows["api"].restarts > 2)
    assert asked(stage, ProcessVerb.STOP, "api") == {"api": None}
    assert stage.rows["api"].state == "stopped"


def test_a_process_that_does_not_stop_in_time_is_killed(stage: Stage) -> None:
    stage.start(shell("api", "trap '' TERM; while :; do sleep 0.1; done", grace_s=0.2))
    stage.watch()
    before = stage.pid("api")
    assert asked(stage, ProcessVerb.STOP, "api") == {"api": None}
    assert birth(before) is None
    assert "api did not stop in time and is killed" in stage.console.getvalue()


def test_workers_are_added_and_removed(stage: Stage) -> None:
    stage.supervisor.spec_of = lambda name: shell(name, SLEEP) if name.startswith("worker-") else None
    stage.start(shell("worker-1", SLEEP))
    stage.watch()
    assert asked(stage, ProcessVerb.START, "worker-2", "worker-3") == {"worker-2": None, "worker-3": None}
    pids = [stage.pid(f"worker-{number}") for number in (1, 2, 3)]
    assert asked(stage, ProcessVerb.REMOVE, "worker-3", "worker-2") == {"worker-3": None, "worker-2": None}
    assert stage.rows.keys() == {"worker-1"}
    assert [birth(pid) is None for pid in pids] == [False, True, True]
    assert asked(stage, ProcessVerb.START, "worker-2") == {"worker-2": None}, "it may come again"


def test_a_process_that_the_stack_cannot_have_is_answered(stage: Stage) -> None:
    stage.start(shell("api", SLEEP))
    stage.watch()
    no_such = {"nobody": "the stack has no such process"}
    assert all(asked(stage, verb, "nobody") == no_such for verb in ProcessVerb)
    assert stage.rows["api"].state == "running"


def test_a_stop_of_the_stack_ends_a_process_that_is_being_stopped(stage: Stage) -> None:
    stage.start(shell("api", "trap '' TERM; while :; do sleep 0.1; done", grace_s=60))
    stage.watch()
    answers = Answers("api", verb=ProcessVerb.STOP)
    answers.ask(stage)
    wait_until(lambda: stage.rows["api"].state == "stopping")
    stage.supervisor.request_stop()
    stage.stop()
    assert answers.wait() == {"api": "the stack stops"}
