"""`pipeweave http-worker` as a process: it serves until TERM, ends what is under way, and leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.fake_orchestrator import SECRET, FakeOrchestrator

APP = """
import time
from pipeweave import Context, task

@task
def work(ctx: Context) -> str:
    print("printed")
    ctx.progress(1)
    time.sleep(0.5)
    return "done"
"""


def start(orchestrator: FakeOrchestrator, folder: Path, **environ: str) -> subprocess.Popen[str]:
    (folder / "app.py").write_text(APP)
    command = [sys.executable, "-m", "pipeweave.cli", "http-worker", "--app", "app.py", "--service", "shop"]
    return subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", "0", "--storage-access", "urls"],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PIPEWEAVE_ORCHESTRATOR_URL": orchestrator.url,
            "PIPEWEAVE_SECRET_KEY": SECRET,
            **environ,
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def test_term_ends_the_process_when_its_attempts_have_ended(
    orchestrator: FakeOrchestrator, tmp_path: Path
) -> None:
    process = start(orchestrator, tmp_path, PIPEWEAVE_API_TOKEN="pw_token")
    orchestrator.wait(lambda: orchestrator.registrations)
    assert orchestrator.dispatch("work")[0] == 202
    orchestrator.wait(lambda: orchestrator.count("heartbeat"))
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert orchestrator.reports()[0]["output"] == "done"
    assert orchestrator.count("leave") == 1
    assert b"printed" in orchestrator.objects["runs/trun_1.1.mac/logs.jsonl"]
    assert not {SECRET, "pw_token"} & set(log.replace('"', " ").split())


def test_what_is_printed_while_the_worker_still_registers_is_in_the_log(
    orchestrator: FakeOrchestrator, tmp_path: Path
) -> None:
    def dispatch_at_once() -> None:
        assert orchestrator.dispatch("work")[0] == 202
        orchestrator.report()

    orchestrator.before_registered = dispatch_at_once
    process = start(orchestrator, tmp_path)
    orchestrator.wait(lambda: "runs/trun_1.1.mac/logs.jsonl" in orchestrator.objects)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert b"printed" in orchestrator.objects["runs/trun_1.1.mac/logs.jsonl"]


def test_a_refused_registration_is_one_line(orchestrator: FakeOrchestrator, tmp_path: Path) -> None:
    orchestrator.answers["register"] = [(401, {"code": "UNAUTHENTICATED", "detail": "no token"})]
    process = start(orchestrator, tmp_path)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 1
    assert log.splitlines()[-1].startswith("pipeweave: FORBIDDEN: the orchestrator refused the registration")
