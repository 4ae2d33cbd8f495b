"""A new project from `pipeweave init` to a finished run, by the commands its README names."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.cli_stack import StackFolder
from support.pages import ROOT
from support.servers import wait_until
from support.stub_http_server import Served, serving

from pipeweave import adapters
from pipeweave.authoring import collect
from pipeweave.settings import environment


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackFolder]:
    place: Path = tmp_path_factory.mktemp("project")
    assert StackFolder(place).call("init", "hello").returncode == 0
    stack = StackFolder(place / "hello")
    try:
        stack.up("--app", "tasks.py")
        yield stack
    finally:
        stack.down()


def test_a_run_is_followed_to_its_end(project: StackFolder) -> None:
    done = project.call("trigger", "hello", "-i", '{"text": "to be or not to be"}', "--wait")
    assert done.returncode == 0, done.stdout + done.stderr + project.logs()
    assert "measure  completed  6/6" in done.stdout
    assert "\x1b" not in done.stdout


def test_the_output_is_in_the_run(project: StackFolder) -> None:
    done = project.call("trigger", "hello", "-i", '{"text": "a bb ccc"}', "--wait", "--json")
    assert json.loads(done.stdout)["output"] == {"words": 3, "longest": "ccc"}


def test_an_input_that_does_not_fit_is_refused(project: StackFolder) -> None:
    done = project.call("trigger", "hello", "-i", '{"txt": "a"}', "--wait")
    assert done.returncode == 1
    assert "did you mean 'text'?" in done.stderr


def test_a_second_trigger_with_the_same_token_is_the_same_run(project: StackFolder) -> None:
    first, second = (project.call("trigger", "hello", "--run-token", "once", "--json") for _ in range(2))
    assert json.loads(first.stdout)["pipelineRunId"] == json.loads(second.stdout)["pipelineRunId"]


def test_everything_is_listed(project: StackFolder) -> None:
    run = json.loads(project.call("trigger", "hello", "--wait", "--json").stdout)
    assert run["id"] in project.call("runs", "--status", "completed").stdout
    assert f"run            {run['id']}" in project.call("status", run["id"]).stdout
    assert project.call("status", run["id"], "--watch").returncode == 0
    tasks = {row["id"] for row in json.loads(project.call("tasks", "--json").stdout)["tasks"]}
    assert tasks == {"split", "measure", "summarise", *collect(adapters)}
    assert "python" in project.call("services").stdout
    assert "hello" in project.call("pipelines").stdout
    assert "${steps.split}" in project.call("pipelines", "show", "hello").stdout
    assert "decorator" in project.call("pipelines", "versions", "hello").stdout


@pytest.mark.parametrize("command", ["runs", "tasks", "deploys", "token list", "config", "ps"])
def test_a_list_fits_a_terminal_of_80_columns(project: StackFolder, command: str) -> None:
    shown = project.in_terminal(*command.split())
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "…" not in shown


def test_a_run_in_a_terminal_shows_its_whole_id_and_its_beginning_finds_it(project: StackFolder) -> None:
    shown = project.in_terminal("trigger", "hello", "-i", '{"text": "a bb"}', "--wait")
    (run_id,) = set(re.findall(r"prun_[0-9a-z]{26}", shown))
    assert run_id in project.in_terminal("runs")
    assert run_id in project.call("status", run_id[5:25]).stdout
    assert json.loads(project.call("output", run_id, "split").stdout) == ["a", "bb"]


def test_a_wait_for_a_paused_task_says_so(project: StackFolder) -> None:
    project.call("pause", "split", "--reason", "holidays")
    try:
        waiting = project.begin("trigger", "hello", "--wait")
        try:
            # It says so when its run stood still for two seconds; on a busy machine that takes longer.
            assert waiting.stdout is not None
            assert any("split waits: its task is paused" in line for line in waiting.stdout)
        finally:
            waiting.terminate()
            waiting.communicate(timeout=120)
        assert "holidays" in project.call("why", "latest").stdout
    finally:
        project.call("resume", "split")


def test_a_dry_run_plans_what_is_stored_and_what_is_not(project: StackFolder) -> None:
    stored = project.call("dry-run", "hello")
    assert (stored.returncode, stored.stdout.splitlines()[0]) == (0, "hello: valid")
    (project.folder / "other.yaml").write_text("steps: [{task: split}, {task: nobody}]")
    unstored = project.call("dry-run", "other.yaml")
    assert unstored.returncode == 1
    assert "nobody" in unstored.stdout
    assert project.call("pipelines", "show", "other").returncode == 1


def test_a_document_is_stored_once_and_can_be_triggered(project: StackFolder) -> None:
    (project.folder / "short.yaml").write_text("steps: [{task: split}]")
    first, second = (project.call("pipelines", "put", "short.yaml") for _ in range(2))
    assert "new" in first.stdout
    assert "unchanged" in second.stdout
    done = project.call("trigger", "short", "-i", '{"text": "a b"}', "--wait", "--json")
    assert json.loads(done.stdout)["output"] == ["a", "b"]


def test_a_final_run_cannot_be_cancelled(project: StackFolder) -> None:
    run = json.loads(project.call("trigger", "hello", "--wait", "--json").stdout)
    done = project.call("cancel", run["id"])
    assert (done.returncode, "CONFLICT" in done.stderr) == (1, True)


def test_another_token_is_refused(project: StackFolder) -> None:
    done = project.call("runs", "--data-dir", str(project.data), "--token", "pw_wrong")
    assert (done.returncode, "UNAUTHENTICATED" in done.stderr) == (1, True)


EXTRA = """
from pipeweave import task


@task
def double(n: int) -> int:
    return n * 2
"""


def test_another_worker_joins_by_the_data_dir(project: StackFolder) -> None:
    (project.folder / "extra.py").write_text(EXTRA)
    worker = project.begin(
        "worker",
        "--data-dir",
        str(project.data),
        "--app",
        "extra.py",
        "--service",
        "extra",
        "--concurrency",
        "1",
    )
    try:
        wait_until(lambda: "double" in project.call("tasks", "--service", "extra").stdout)
        with project.client() as client:
            queued = client.queue("double", {"n": 21})["runId"]
            wait_until(lambda: client.task_run(queued)["status"] == "completed")
            assert client.task_run(queued)["output"] == 42
    finally:
        worker.terminate()
        said, _ = worker.communicate(timeout=120)
    assert worker.returncode == 0, said


DAY = {"day": "2026-11-22", "limit": 100}
ORDERS = [{"id": f"o-{n}", "amount": f"{n}50.25", "card": f"card-{n}"} for n in range(1, 5)]


@pytest.fixture
def shop() -> Iterator[Served]:
    """A shop that fails once for the second order, and that does not know the card of the fourth."""
    with serving() as shop:
        shop.put("GET /orders?day=2026-11-22", (200, ORDERS))
        for order in ORDERS:
            shop.put(f"POST /orders/{order['id']}/charge", (200, {}))
        shop.put("POST /orders/o-2/charge", (503, {"error": "the bank is closed"}), (200, {}))
        shop.put("POST /orders/o-4/charge", (422, {"error": "card card-4 is unknown"}))
        yield shop


def test_a_failed_order_is_found_mended_and_retried_by_commands_alone(
    project: StackFolder, shop: Served
) -> None:
    here = StackFolder(project.folder, variables={**environment(), "SHOP_URL": shop.url})
    app = str(ROOT / "examples/charge_orders.py")
    worker = here.begin("worker", "--data-dir", str(project.data), "--app", app, "--service", "orders")
    try:
        wait_until(lambda: "charge_orders" in here.call("pipelines").stdout)
        failed = here.call(
            "trigger", "charge_orders", "-i", json.dumps(DAY), "--wait", "--failure-mode", "continue"
        )
        assert (failed.returncode, "charge[3] failed: HTTP_422: card card-4 is unknown" in failed.stderr) == (
            1,
            True,
        )
        letter = here.call("dlq", "show", "latest").stdout
        assert "HTTP_422: card card-4 is unknown" in letter
        assert "/orders/o-4/charge" in letter
        shop.put("POST /orders/o-4/charge", (200, {}))
        retried = here.call("dlq", "retry", "latest", "--wait")
        assert retried.returncode == 0, retried.stdout + retried.stderr
        output = json.loads(here.call("output", "latest").stdout)
    finally:
        worker.terminate()
        worker.communicate(timeout=120)
    assert output == {
        "day": "2026-11-22",
        "charged": 4,
        "total": "1201.00",
        "reviewed": ["o-1", "o-2", "o-3", "o-4"],
    }
    calls = Counter(request for request, _, _ in shop.asked)
    assert [calls[f"POST /orders/o-{n}/charge"] for n in range(1, 5)] == [1, 2, 1, 2]


JOBS = """
import os
import time
from pathlib import Path

from pipeweave import pipeline, task


@task
def measured(text: str) -> int:
    return len(text)


@task(retries=0)
def refused(text: str) -> int:
    raise ValueError(text)


@task
def awaited(file: str) -> int:
    Path(file + ".begun").touch()
    while not os.path.exists(file):
        time.sleep(0.05)
    return 1


@pipeline
def sizes(text: str):
    return measured(text=text)


@pipeline
def refusing(text: str):
    return refused(text=text)


@pipeline
def waiting(file: str):
    return awaited(file=file)
"""
ADHOC = ("--app", "jobs.py", "--service", "adhoc", "--concurrency", "1")


@pytest.fixture(scope="module")
def jobs(project: StackFolder) -> StackFolder:
    """Tasks that no worker of the stack has loaded."""
    (project.folder / "jobs.py").write_text(JOBS)
    return project


def test_a_run_is_worked_on_by_the_command_that_starts_it(jobs: StackFolder) -> None:
    done = jobs.call("run", "sizes", "-i", '{"text": "four"}', *ADHOC, "--json")
    assert done.returncode == 0, done.stderr + jobs.logs()
    document = json.loads(done.stdout)
    assert document["output"] == 4
    with jobs.client() as client:
        (attempt,) = client.attempts(document["id"])
        assert attempt["worker"].startswith("run-")
        # Its worker has signed off: nothing is left of the command.
        (worker,) = [each for each in client.workers() if each["id"] in attempt["worker"]]
        assert worker["state"] == "stopped"


def test_a_run_that_fails_gives_the_command_that_worked_on_it_an_exit_code(jobs: StackFolder) -> None:
    done = jobs.call("run", "refusing", "-i", '{"text": "no"}', *ADHOC)
    assert done.returncode == 1
    assert "ValueError: no" in done.stdout + done.stderr


def test_tasks_that_cannot_be_loaded_start_no_run(jobs: StackFolder) -> None:
    (jobs.folder / "broken.py").write_text("import nothing_of_this_name\n")
    done = jobs.call("run", "sizes", "--app", "broken.py")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "nothing_of_this_name" in lines[0] and "did not start" in lines[-1]
    assert done.stdout == ""


def test_after_ctrl_c_a_run_is_left_to_other_workers_and_no_attempt_is_used_up(jobs: StackFolder) -> None:
    file = jobs.folder / "go"
    argv = [
        sys.executable,
        "-m",
        "pipeweave.cli",
        "run",
        "waiting",
        "-i",
        json.dumps({"file": str(file)}),
        *ADHOC,
    ]
    with subprocess.Popen(argv, cwd=jobs.folder, stderr=subprocess.PIPE, text=True) as command:
        wait_until((jobs.folder / "go.begun").exists)
        command.send_signal(signal.SIGINT)
        _, said = command.communicate(timeout=120)
    assert command.returncode == 130, said
    run_id = re.findall(r"(prun_\w+) goes on without this command", said)[0]
    file.touch()
    # Another command brings a worker with the same tasks.
    assert jobs.call("run", "sizes", "-i", '{"text": "a"}', *ADHOC).returncode == 0
    with jobs.client() as client:
        final = client.wait(run_id, 120)
        assert final.status == "completed"
        assert [each["status"] for each in client.attempts(run_id)][-1] == "completed"
        assert not [each for each in client.attempts(run_id) if each["status"] == "failed"]


def test_after_down_a_command_says_what_is_missing(project: StackFolder) -> None:
    project.down()
    done = project.call("runs")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pipeweave up" in done.stderr
    assert len(done.stderr.splitlines()) == 1
