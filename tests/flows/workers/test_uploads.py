"""Files come by the API, are read by tasks, and storage is swept beside the runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.api_server import running_api
from support.live_stack import LiveStack
from support.servers import wait_until

from pipeweave.client import Client
from pipeweave.errors import NotFound
from pipeweave.orchestrator.objects import requested_sweep
from pipeweave.orchestrator.objects.requested_sweep import SweepOrder, SweepResult
from pipeweave.orchestrator.security import access_tokens
from pipeweave.size_limits import INLINE_BYTES


@pytest.fixture(scope="module")
def files_stack(empty_stack: LiveStack) -> LiveStack:
    empty_stack.start_worker("files.py", concurrency=2)
    empty_stack.start_beat()
    return empty_stack


@pytest.fixture(scope="module")
def client(files_stack: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    tenant = files_stack.settings.tenant
    with files_stack.deployment.database.transaction() as tx:
        scopes = [access_tokens.READ, access_tokens.WRITE]
        token = access_tokens.create_token(tx, name="files", tenants=[tenant], scopes=scopes)
    folder = tmp_path_factory.mktemp("files-api")
    with running_api(files_stack.settings, folder) as server, Client(server.url, token, timeout=60) as client:
        yield client


def sweep(stack: LiveStack) -> SweepResult:
    """A sweep for which everything is old."""
    return requested_sweep.run(
        stack.deployment.database,
        stack.deployment.values.backends,
        SweepOrder(),
        grace=timedelta(),
        is_own_folder=True,
    )


def test_a_task_reads_the_file_that_its_run_names(
    files_stack: LiveStack, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\nc\n")
    upload = client.upload(tmp_path / "lines.txt")
    client.put_pipeline("counts", {"steps": [{"id": "count", "task": "count_lines"}]})
    run = client.wait(client.trigger("counts", {"file": upload["uploadId"]}), 60, check=True)
    assert run.output == 3
    assert client.upload_of(upload["uploadId"])["claimedByRunId"] == run.id
    task_run = run.document["taskRuns"][0]["id"]
    wait_until(lambda: client.task_run_logs(task_run)["isComplete"], what="the log is not complete")
    (line,) = client.task_run_logs(task_run)["logs"]
    assert (line["message"], line["lines"], line["runId"]) == ("counted", 3, f"{task_run}.1")
    assert client.download(f"runs/{task_run}.1/logs.jsonl", tmp_path / "log") > 50
    before = sweep(files_stack).swept
    assert (before.deleted, before.kept) == (0, before.seen)


def test_a_sweep_leaves_a_run_under_way_what_it_needs(
    files_stack: LiveStack, client: Client, gate: Path
) -> None:
    storage = files_stack.deployment.values.backends.default
    nobody = files_stack.deployment.values.keep({"nobody": "x" * INLINE_BYTES}).path
    assert nobody is not None
    steps = [
        {"id": "pack", "task": "pack", "params": {"rows": [1, 2]}},
        {"id": "hold", "task": "held", "needs": ["pack"]},
        {"id": "unpack", "task": "unpack", "params": {"before": "${steps.pack}"}, "needs": ["hold"]},
    ]
    client.put_pipeline("held", {"steps": steps})
    run = client.trigger("held", {"gate": str(gate), "filling": "x" * INLINE_BYTES})

    def is_held() -> bool:
        return any(
            client.task_run_logs(each["id"])["logs"]
            for each in client.run(run.id).document["taskRuns"]
            if each["stepId"] == "hold"
        )

    wait_until(is_held, what="the step does not run")
    swept = sweep(files_stack).swept
    assert swept.examples == [nobody]
    gate.touch()
    done = client.wait(run, 60, check=True)
    assert done.output["size"] == 200_000
    assert storage.exists(nobody.partition("//")[2]) is False
    with pytest.raises(NotFound):
        client.stored_value(nobody.partition("//")[2])
