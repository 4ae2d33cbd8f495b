"""A Redis database that PipeWeave and a user's Celery app share: neither hears, sees or stops the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
import urllib3
from support.celery_worker import celery, celery_worker
from support.live_stack import APPS, LiveStack, StackMaker
from support.servers import STOP_DEADLINE_S, wait_until

from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.up.ports import free_port

OURS, THEIRS = "pipeweave.workers.app", "beside.legacy"

WIDE = {
    "id": "wide",
    "steps": [
        {"id": "each", "task": "same", "map": {"over": "${input.list}", "as": "number"}},
        {"id": "after", "task": "noop", "needs": ["each"]},
    ],
}


@pytest.fixture(scope="module")
def shared(make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """A stack with a worker, whose broker is the broker of the user's app, too."""
    with make_stack(tmp_path_factory.mktemp("shared")) as own:
        own.variables["PIPEWEAVE_TEST_LEGACY_BROKER"] = own.settings.broker_url or ""
        own.start_worker("beside.py", concurrency=1)
        # Remote control is broadcast: who does not listen yet never hears of it.
        wait_until(lambda: " ready." in own.logs())
        yield own


def ask(stack: LiveStack, app: str, *command: str) -> str:
    """What `celery -A app …` says about this stack."""
    variables = stack.variables | {"BROKER_URL": stack.settings.broker_url or ""}
    return celery(app, *command, folder=APPS, variables=variables)


def broadcast(stack: LiveStack, command: str, **arguments: Any) -> list[dict[str, Any]]:
    """What the only worker answers to a command of Celery's remote control."""
    app = make_celery(stack.settings)
    answers = app.control.broadcast(command, arguments=arguments, reply=True, timeout=60, limit=1)
    app.close()
    return [each for answer in answers for each in answer.values()]


def names(stack: LiveStack) -> list[str]:
    return [row.name for row in stack.rows("SELECT name FROM workers WHERE stopped_at IS NULL")]


def test_each_app_controls_its_own_workers_alone(shared: LiveStack) -> None:
    [ours] = names(shared)
    with celery_worker(THEIRS, APPS, shared.folder / "legacy.log", shared.variables) as legacy:
        pinged = {app: json.loads(ask(shared, app, "inspect", "ping", "--json")) for app in (OURS, THEIRS)}
        assert {app: set(answer) for app, answer in pinged.items()} == {OURS: {ours}, THEIRS: {"legacy@host"}}
        assert "1 node online" in ask(shared, OURS, "status")
        # Their worker leaves, ours goes on.
        ask(shared, THEIRS, "control", "shutdown")
        wait_until(lambda: legacy.poll() is not None, what="their worker did not stop")
    assert shared.ran({"id": "after", "steps": [{"id": "only", "task": "noop"}]}).status == "completed"
    assert names(shared) == [ours]


def test_results_and_messages_of_both_go_where_they_belong(shared: LiveStack) -> None:
    with celery_worker(THEIRS, APPS, shared.folder / "legacy.log", shared.variables):
        run = shared.ran({"id": "both", "steps": [{"id": "only", "task": "waits_for_results"}]})
    assert run.status == "completed", shared.logs()
    assert "unregistered" not in (shared.folder / "legacy.log").read_text()


def test_what_their_app_routes_by_exchange_is_not_delivered_to_our_queue(shared: LiveStack) -> None:
    with redis.Redis.from_url(shared.settings.broker_url or "", decode_responses=True) as client:
        tables = [each for each in client.keys("*_kombu.binding.*") if not each.startswith("pipeweave.")]
        members = [member for each in tables for member in client.smembers(each)]
    assert not [each for each in members if "pipeweave" in each or "python" in each]


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("shutdown", {}),
        ("pool_grow", {"n": 30}),
        ("pool_shrink", {"n": 1}),
        ("pool_restart", {}),
        ("autoscale", {"max": 9, "min": 1}),
        ("add_consumer", {"queue": "another"}),
        ("cancel_consumer", {"queue": "python"}),
        ("rate_limit", {"task_name": "pipeweave.run", "rate_limit": "1/h"}),
        ("time_limit", {"task_name": "pipeweave.run", "hard": 1}),
        ("revoke", {"task_id": "any"}),
        ("terminate", {"task_id": "any", "signal": "KILL"}),
        ("hello", {"from_node": "other@host", "revoked": {"any": 1}}),
        ("legacy_command", {}),
    ],
)
def test_remote_control_that_changes_a_worker_is_refused(
    shared: LiveStack, command: str, arguments: dict[str, Any]
) -> None:
    [answer] = broadcast(shared, command, **arguments)
    assert f"refuse the command '{command}'" in answer["error"]


def test_what_asks_a_worker_is_answered(shared: LiveStack) -> None:
    for question in ("ping", "active", "registered", "stats", "conf", "active_queues", "reserved", "report"):
        [answer] = broadcast(shared, question)
        assert "error" not in answer, question


@pytest.mark.parametrize("command", ["enable_events", "heartbeat"])
def test_what_flower_sends_to_all_workers_changes_nothing(shared: LiveStack, command: str) -> None:
    [answer] = broadcast(shared, command)
    assert set(answer) == {"ok"}
    assert f'"command":"{command}"' not in shared.logs()


def test_flower_shows_our_workers_and_our_queues_alone(shared: LiveStack) -> None:
    pytest.importorskip("flower")
    port = free_port()
    variables = {
        "PATH": os.environ["PATH"],
        "BROKER_URL": shared.settings.broker_url or "",
        "FLOWER_UNAUTHENTICATED_API": "true",
    }
    argv = [sys.executable, "-m", "celery", "-A", OURS, "flower", f"--port={port}", "--address=127.0.0.1"]
    with (shared.folder / "flower.txt").open("wb") as output:
        process = subprocess.Popen(argv, env=variables, cwd=APPS, stdout=output, stderr=subprocess.STDOUT)
    pool = urllib3.PoolManager(retries=False, timeout=10)

    def answer(path: str) -> Any:
        try:
            return json.loads(pool.request("GET", f"http://127.0.0.1:{port}{path}").data)
        except (urllib3.exceptions.HTTPError, ValueError):
            return None

    [ours] = names(shared)
    try:
        wait_until(lambda: ours in (answer("/api/workers?refresh=1") or {}), what="Flower sees no worker")
        assert list(answer("/api/workers")) == [ours]
        queues = {each["name"] for each in answer("/api/queues/length")["active_queues"]}
        assert shared.queue().removeprefix("pipeweave.") in queues
    finally:
        process.terminate()
        process.wait(STOP_DEADLINE_S)


def test_every_line_of_a_workers_log_is_json(shared: LiveStack) -> None:
    [log] = shared.folder.glob("w*.log")
    assert {json.loads(line)["level"] for line in log.read_text().splitlines()} <= {"info", "warning"}


def test_a_user_of_the_broker_with_rights_on_our_prefix_alone_suffices(
    make_stack: StackMaker, tmp_path: Path
) -> None:
    with make_stack(tmp_path) as stack:
        url = urlsplit(stack.settings.broker_url or "")
        with redis.Redis.from_url(stack.settings.broker_url or "") as client:
            # A pattern is subscribed to only if the very same pattern is allowed.
            box = f"&pipeweave./{url.path.strip('/')}.pipeweave.pidbox"
            rights = ["on", ">secret", "+@all", "-@dangerous", "~pipeweave.*", "&pipeweave.*", box]
            client.execute_command("ACL", "SETUSER", "limited", *rights)
        limited = f"redis://limited:secret@{url.hostname}:{url.port}{url.path}"
        stack.settings = replace(stack.settings, broker_url=limited)
        stack.variables["PIPEWEAVE_TEST_LEGACY_BROKER"] = ""
        stack.start_worker("beside.py", concurrency=1)
        assert stack.ran(WIDE, {"list": list(range(150))}).status == "completed", stack.logs()
        assert broadcast(stack, "ping") == [{"ok": "pong"}]
        assert "NOPERM" not in stack.logs()
