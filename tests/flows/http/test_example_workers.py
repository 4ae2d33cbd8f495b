"""The workers of the examples run one pipeline together: Celery, Python by HTTP, Node by HTTP."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.live_stack import LiveStack
from support.pages import ROOT

from pipeweave.authoring import load_documents

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")
PIPEWEAVE = (sys.executable, "-m", "pipeweave.cli")
EXAMPLES = ROOT / "examples"


@pytest.fixture
def workers(
    http_stack: LiveStack, orchestrator_url: str, secret: str, tmp_path: Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The three kinds of workers, once they are registered."""
    http_stack.start_worker(str(EXAMPLES / "lines.py"), concurrency=1)
    service = str(EXAMPLES / "http_service/service.py")
    commands = [
        # On a free port; `python service.py` listens on 3001.
        [*PIPEWEAVE, "http-worker", "--app", service, "--service", "words", "--port", "0"],
        [NODE or "node", str(EXAMPLES / "node_worker/worker.js")],
    ]
    environment = {
        "PATH": os.environ["PATH"],
        "PIPEWEAVE_ORCHESTRATOR_URL": orchestrator_url,
        "PIPEWEAVE_SECRET_KEY": secret,
        "PORT": "0",
    }
    started = [subprocess.Popen(each, env=environment, cwd=tmp_path) for each in commands]

    def are_registered() -> bool:
        assert not [each for each in started if each.poll() is not None], "a worker has ended"
        found = http_stack.rows("SELECT DISTINCT service_id FROM service_instances")
        return {"words", "ranking"} <= {row.service_id for row in found}

    http_stack.until(are_registered, "the workers are registered")
    yield started
    for each in started:
        each.kill()
        each.wait()


def test_a_pipeline_of_three_kinds_of_workers(
    http_stack: LiveStack, workers: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "a.py").write_text("one two two\n")
    (folder / "b.py").write_text("two three three\n")
    (spec,) = load_documents(EXAMPLES / "http_service/words.yaml")
    run = http_stack.ran(spec.to_json(), {"folder": str(folder)})
    steps = http_stack.steps(run.id)
    assert run.status == "completed", {key: each.error for key, each in steps.items()}
    assert steps["rank"].output == [
        {"word": "two", "count": 3},
        {"word": "three", "count": 2},
        {"word": "one", "count": 1},
    ]
    assert set(steps["count"].assets) == {"words.json"}
    assert all(steps[each].logs_path for each in ("count", "rank"))
    for each in workers:
        each.send_signal(signal.SIGTERM)
    assert [each.wait(20) for each in workers] == [0, 0]
    http_stack.until(
        lambda: (
            not http_stack.rows("SELECT 1 FROM service_instances WHERE service_id IN ('words', 'ranking')")
        ),
        "both workers have left",
    )
