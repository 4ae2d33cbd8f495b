"""A real worker of bundles: what is installed runs in boxes, what is revoked waits, what is newer follows."""

from __future__ import annotations

import os
from uuid import UUID

import pytest
from support.bundles import a_bundle, install, key_of, pipeline_document, task_entry
from support.live_stack import LiveStack

from pipeweave.bundles import signing_keys
from pipeweave.orchestrator.bundles import bundle_keys, revoking
from pipeweave.orchestrator.diagnosis import why
from pipeweave.orchestrator.messaging.celery_app import LEVELS

MINE = key_of(31)
NOTHING_WAITS = dict.fromkeys(LEVELS, 0.0)
SOURCE = """
import os
import socket

from pipeweave import task
from prices import price

@task
def charge(amount: int):
    def refused(attempt):
        try:
            attempt()
        except OSError:
            return True
        return False

    return {
        "price": price(amount),
        "environment": sorted(os.environ),
        "pid": os.getpid(),
        "reads": not refused(lambda: open("/etc/passwd").read()),
        "connects": not refused(lambda: socket.create_connection(("127.0.0.1", 1), 1)),
    }
"""

pytestmark = pytest.mark.usefixtures("machine_with_boxes")


def release(stack: LiveStack, version: str, factor: int) -> None:
    """Install a version of the bundle that multiplies prices."""
    prices = f"def price(amount):\n    return amount * {factor}\n"
    files = {"src/tasks.py": SOURCE.encode(), "src/prices.py": prices.encode()}
    # A hash of its own for each version: the function's source alone is the same.
    entry = task_entry(codeHash=version.replace(".", "").rjust(16, "0"))
    parts = {"version": version, "tasks": [entry], "pipelines": [pipeline_document()]}
    install(
        stack.deployment.database,
        stack.deployment.values,
        stack.settings.tenant,
        a_bundle(MINE, files=files, **parts),
    )


def output(stack: LiveStack, run_id: UUID) -> dict[str, object]:
    assert stack.finished(run_id).status == "completed"
    (row,) = stack.task_runs(run_id)
    return dict(row.output)


def test_a_worker_runs_what_is_installed_in_boxes_and_follows_each_change(empty_stack: LiveStack) -> None:
    stack, database = empty_stack, empty_stack.deployment.database
    tenant, public = stack.settings.tenant, signing_keys.public_bytes(MINE)
    database.run(lambda tx: bundle_keys.add(tx, tenant, "releases", public, by="test"))
    release(stack, "1.0", 10)
    worker = stack.start_worker("", "--bundles", concurrency=1)

    first = output(stack, stack.trigger("checkout"))
    assert first["price"] == 10
    assert (first["reads"], first["connects"]) == (False, False)
    assert "PIPEWEAVE_SECRET_KEY" not in first["environment"]  # type: ignore[operator]
    assert first["pid"] not in (worker, os.getpid())

    release(stack, "1.1", 20)
    stack.until(lambda: _loaded(stack) == ["0000000000000011"], "the worker did not load version 1.1")
    assert output(stack, stack.trigger("checkout"))["price"] == 20

    before = _alive(stack)
    database.run(lambda tx: revoking.revoke(tx, tenant, "shop", reason="charges twice"))
    stack.until(lambda: bool(_alive(stack) - before), "the worker did not notice")
    waiting = stack.trigger("checkout")

    def reasons() -> str:
        with database.transaction() as tx:
            (row,) = stack.task_runs(waiting)
            return str(why.why(tx, tenant, row.id, lambda _: NOTHING_WAITS)["reasons"])

    stack.until(lambda: "charges twice" in reasons(), "nothing says why the task waits")
    assert stack.run(waiting).status == "running"

    release(stack, "1.2", 30)
    stack.until(lambda: _loaded(stack) == ["0000000000000012"], "the worker did not load version 1.2")
    stack.until(
        lambda: stack.tick() is not None and stack.run(waiting).status == "completed", "it still waits"
    )
    assert output(stack, waiting)["price"] == 30
    assert [each.poll() for each in stack.processes] == [None], "it is the same process all the time"


def _alive(stack: LiveStack) -> set[str]:
    return {row.id for row in stack.rows("SELECT id FROM workers WHERE stopped_at IS NULL")}


def _loaded(stack: LiveStack) -> list[str]:
    return [
        row.code_hash
        for row in stack.rows(
            "SELECT h.code_hash FROM worker_tasks AS h JOIN workers AS w ON w.id = h.worker_id"
            " WHERE w.stopped_at IS NULL AND w.stopping_at IS NULL"
        )
    ]
