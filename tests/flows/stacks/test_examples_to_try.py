"""The examples that have a folder do what their README says, by the commands that it names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cli_stack import StackFolder
from support.pages import ROOT
from support.servers import wait_until

from pipeweave.settings import environment

EXAMPLES = ROOT / "examples"
FOLDERS = ("order_with_approval", "nightly_load", "train_with_review")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackFolder]:
    place: Path = tmp_path_factory.mktemp("examples")
    variables = {**environment(), "TRAINING_QUEUE": str(place / "training")}
    stack = StackFolder(place, variables=variables)
    try:
        stack.up(*(part for each in FOLDERS for part in ("--app", str(EXAMPLES / each))))
        yield stack
    finally:
        stack.down()


def begin(project: StackFolder, pipeline: str, input: Any) -> str:
    """Trigger a run; its id."""
    done = project.call("trigger", pipeline, "-i", json.dumps(input), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return str(json.loads(done.stdout)["pipelineRunId"])


def output(project: StackFolder, run: str) -> Any:
    """The output of a run, as soon as it has completed."""

    def is_over() -> bool:
        return status(project, run) in ("completed", "partial", "failed")

    wait_until(is_over, what=f"{run} has not ended")
    return json.loads(project.call("output", run).stdout)


def status(project: StackFolder, run: str) -> str:
    with project.client() as client:
        return str(client.run(run).status)


def waiting(project: StackFolder, kind: str, pipeline: str) -> list[str]:
    """The ids of what waits; without a command, because a test looks often."""
    with project.client() as client:
        return [str(each["taskRunId"]) for each in client.waits(kind=kind, pipeline_id=pipeline).items]


def only_wait(project: StackFolder, kind: str, pipeline: str) -> str:
    """The id of the only wait of a pipeline's runs, as soon as there is one."""
    wait_until(lambda: len(waiting(project, kind, pipeline)) == 1, what=f"no {kind} of {pipeline}")
    [wait] = waiting(project, kind, pipeline)
    return wait


def test_a_small_order_needs_nobody(project: StackFolder) -> None:
    run = begin(project, "process-order", {"order": {"id": "o-1", "total": 20}})
    assert project.call("signal", run, "delivered").returncode == 0
    assert output(project, run) == {"outcome": "delivered", "receipt": "c-o-1", "allowedBecause": None}


def test_a_large_order_is_allowed_and_refunded(project: StackFolder) -> None:
    run = begin(project, "process-order", {"order": {"id": "o-2", "total": 5000, "card": "slow"}})
    wait = only_wait(project, "approval", "process-order")
    refused = project.call("approve", wait)
    assert (refused.returncode, "reason" in refused.stderr) == (1, True)
    assert project.call("approve", wait, "-i", '{"reason": "an old friend"}').returncode == 0
    assert project.call("signal", run, "returned", "-i", '{"why": "too small"}').returncode == 0
    assert output(project, run) == {
        "outcome": "refunded",
        "receipt": "c-o-2",
        "allowedBecause": "an old friend",
    }


def test_an_order_that_a_person_rejects_is_not_sold(project: StackFolder) -> None:
    run = begin(project, "process-order", {"order": {"id": "o-3", "total": 5000}})
    wait = only_wait(project, "approval", "process-order")
    assert project.call("reject", wait, "--comment", "too much").returncode == 0
    assert output(project, run)["outcome"] == "not sold"


def test_one_bad_file_does_not_stop_the_night(project: StackFolder, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("id,amount\n1,5\n2,7.5\n")
    (tmp_path / "bad.csv").write_text("id,amount\n1,\n2,\n")
    (tmp_path / "empty.csv").write_text("id,amount\n")
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe")
    run = begin(project, "nightly-load", {"folder": str(tmp_path)})
    assert output(project, run) == {
        "loaded": 2,
        "aside": [str(tmp_path / "bad.csv")],
        "failed": [str(tmp_path / "broken.csv")],
    }
    assert status(project, run) == "partial"
    (tmp_path / "broken.csv").write_text("id,amount\n1,3\n")
    assert project.call("dlq", "retry", "latest").returncode == 0
    wait_until(lambda: status(project, run) == "completed")
    again = project.call("rerun", run, "--from", "report", "--wait", "--json")
    assert json.loads(again.stdout)["output"] == {
        "loaded": 3,
        "aside": [str(tmp_path / "bad.csv")],
        "failed": [],
    }


def test_the_night_begins_by_itself(project: StackFolder) -> None:
    listed = project.call("schedule", "list").stdout
    assert re.search(r"nightly-load .*0 2 \* \* \*", listed), listed


def test_a_model_is_trained_until_a_person_is_content(project: StackFolder) -> None:
    run = begin(project, "train-model", {"data": "cats"})
    train(project)
    first = only_wait(project, "approval", "train-and-review")
    assert "71 %" in project.call("waiting", "--kind", "approval").stdout
    assert project.call("reject", first, "-i", '{"hint": "more cats"}').returncode == 0
    train(project)
    second = only_wait(project, "approval", "train-and-review")
    assert second != first
    assert project.call("approve", second).returncode == 0
    assert output(project, run) == "model-of-cats is published with an accuracy of 0.93"


def train(project: StackFolder) -> None:
    """Let the training service take the order that waits."""
    only_wait(project, "callback", "train-and-review")
    argv = [sys.executable, str(EXAMPLES / "train_with_review/training_service.py")]
    queue = {**environment(), "TRAINING_QUEUE": str(project.folder / "training")}
    done = subprocess.run(argv, env=queue, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.count(" 202")) == (0, 1), done.stdout + done.stderr


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_readme_names_commands_that_there_are(folder: str) -> None:
    text = (EXAMPLES / folder / "README.md").read_text()
    assert f"--app examples/{folder} --detach" in text
    for linked in re.findall(r"\]\(([^)]+)\)", text):
        assert (EXAMPLES / folder / linked).exists()
