"""Junk in a queue: whatever somebody puts there, the worker drops it, lives on and does its work."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from support.junk import JUNK
from support.live_stack import LiveStack

from pipeweave.orchestrator.messaging.envelope import RUN_TASK, encode, list_key

STEP = {"id": "step", "steps": [{"id": "only", "task": "noop"}]}


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    own_stack.store(STEP)
    return own_stack


def put(stack: LiveStack, *messages: str | bytes) -> None:
    """Put messages where the worker takes the next one."""
    stack.redis.rpush(list_key(stack.queue(), 0), *messages)


def lives(stack: LiveStack) -> bool:
    """Whether the worker is the one that was started, and takes what is sent to it."""
    [worker] = stack.processes
    return worker.poll() is None and stack.finished(stack.trigger("step")).status == "completed"


@pytest.mark.parametrize("name", JUNK)
def test_a_worker_drops_what_is_no_message_and_lives_on(stack: LiveStack, name: str) -> None:
    put(stack, JUNK[name])
    assert lives(stack), stack.logs()
    assert stack.deployment.publisher.depth(stack.queue()) == 0


def test_a_worker_says_what_it_dropped(stack: LiveStack) -> None:
    def dropped() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stack.logs().splitlines() if line.startswith("{")]
        return [line for line in lines if line["message"] == "message.dropped" and line.get("count", 0) > 99]

    # Not a line for each of them: junk may come in masses.
    put(stack, *(["junk"] * 1_000))
    stack.until(lambda: stack.deployment.publisher.depth(stack.queue()) == 0, "junk is left")

    def is_said() -> bool:
        put(stack, "junk")
        return bool(dropped())

    stack.until(is_said, "nothing was said")
    assert dropped()[0]["queue"] == stack.queue()
    assert dropped()[0]["reason"].startswith("it is no message")


def test_junk_for_remote_control_is_dropped_too(stack: LiveStack) -> None:
    app: Any = stack.deployment.publisher.app
    database = stack.redis.connection_pool.connection_kwargs["db"]
    channel = f"pipeweave./{database}.{app.control.mailbox.exchange.name}"

    def is_heard(junk: str | bytes) -> bool:
        return bool(stack.redis.publish(channel, junk))

    for junk in JUNK.values():
        # Each of them may end a worker: the message after it must find one. Celery may subscribe anew.
        stack.until(partial(is_heard, junk), "nobody listens")
    assert lives(stack), stack.logs()


def test_a_message_for_joins_that_its_run_does_not_have_sends_nothing(stack: LiveStack) -> None:
    run = stack.ran(STEP)
    sent = stack.redis.info("commandstats")["cmdstat_lpush"]["calls"]
    for _ in range(10):
        arguments = (run.id.hex, [1], 1, 0, list(range(4_000)))
        put(stack, encode(RUN_TASK, "forged.1", arguments, stack.queue(), 0, 0.0))
    stack.settle()
    assert stack.redis.info("commandstats")["cmdstat_lpush"]["calls"] - sent < 100
