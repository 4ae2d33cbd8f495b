"""A broker that refuses, is full or goes silent: nobody is started again, and everything goes on soon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from support.live_stack import LiveStack, new_live_stack
from support.servers import running_valkey

from chaos.proxy import Proxy, proxy_to
from pipeweave.orchestrator.deployment.deployment import Deployment
from pipeweave.up.postgres import Postgres

CHAIN = {
    "id": "chain",
    "steps": [
        {"id": "a", "task": "noop"},
        *({"id": f"b{number}", "task": "noop", "needs": ["a"]} for number in range(9)),
        {"id": "c", "task": "noop", "needs": [f"b{number}" for number in range(9)]},
    ],
}
# What is promised, in seconds, with room for a machine that has other things to do.
SOON_S = 30.0


@pytest.fixture(scope="module")
def stack(
    postgres_server: Postgres, database_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveStack]:
    """A stack with a Valkey of its own, a worker and a beat."""
    folder = tmp_path_factory.mktemp("broker-faults")
    with (
        running_valkey(folder) as server,
        new_live_stack(postgres_server, database_template, server.url, folder) as made,
    ):
        made.start_worker("steps.py", concurrency=2)
        made.start_beat()
        made.store(CHAIN)
        yield made


@pytest.fixture
def proxy(stack: LiveStack) -> Iterator[Proxy]:
    """A proxy to the stack's Valkey."""
    port = urlsplit(str(stack.settings.broker_url)).port
    assert port is not None
    with proxy_to(port) as made:
        yield made


def through(stack: LiveStack, proxy: Proxy) -> LiveStack:
    """The same stack, whose processes reach the broker through a proxy; the caller closes its deployment."""
    parts = urlsplit(str(stack.settings.broker_url))
    url = parts._replace(netloc=parts.netloc.replace(f":{parts.port}", f":{proxy.port}")).geturl()
    settings = replace(stack.settings, broker_url=url)
    return LiveStack(settings, Deployment.open(settings, pool_size=2), stack.folder)


def all_live(stack: LiveStack) -> bool:
    return all(each.poll() is None for each in stack.processes)


def of_celery(stack: LiveStack) -> list[str]:
    """The lines of Celery in the workers' logs, and those that stand for them."""
    lines = [line for path in sorted(stack.folder.glob("w*.log")) for line in path.read_text().splitlines()]
    return [each for each in lines if any(logger in each for logger in _CELERYS)]


_CELERYS = (
    '"logger":"celery.',
    '"logger":"py.warnings"',
    '"logger":"pipeweave.workers.process.celery_lines"',
)

FAULTS = {
    "became a replica": (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    "refuses to hand out messages": (
        ("ACL", "SETUSER", "default", "-brpop"),
        ("ACL", "SETUSER", "default", "+@all"),
    ),
    "refuses every write": (("ACL", "SETUSER", "default", "-@write"), ("ACL", "SETUSER", "default", "+@all")),
    "is full": (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_when_a_broker_that_refused_is_well_again_everything_goes_on(stack: LiveStack, fault: str) -> None:
    begin, end = FAULTS[fault]
    # Some are under way when it begins.
    run_ids = [stack.trigger("chain") for _ in range(5)]
    said = len(of_celery(stack))
    stack.redis.execute_command(*begin)
    try:
        run_ids += [stack.trigger("chain") for _ in range(20)]
        # Until everybody has met the fault, and the tick has met it with rows that are late.
        seen = time.monotonic()
        stack.until(lambda: time.monotonic() - seen > 8, "")
        lines = of_celery(stack)[said:]
    finally:
        stack.redis.execute_command(*end)
    # Each loss had four lines, and there were five losses a second.
    assert len(lines) < 12, lines
    ended = time.monotonic()
    for run_id in run_ids:
        assert stack.finished(run_id, SOON_S).status == "completed"
    assert time.monotonic() - ended < SOON_S
    assert all_live(stack), stack.logs()
    # And whoever triggers has a connection again.
    assert stack.finished(stack.trigger("chain"), SOON_S).status == "completed"


def test_a_worker_whose_connections_went_silent_opens_new_ones(stack: LiveStack, proxy: Proxy) -> None:
    behind = through(stack, proxy)
    try:
        for worker in [each.pid for each in stack.processes if "worker" in each.args]:  # type: ignore[operator]
            stack.stop(worker)
        behind.start_worker("steps.py", concurrency=2)
        for _ in range(3):
            assert stack.finished(stack.trigger("chain")).status == "completed"
        assert proxy.silence() >= 2
        run_ids = [stack.trigger("chain") for _ in range(5)]
        for run_id in run_ids:
            assert stack.finished(run_id, SOON_S).status == "completed"
    finally:
        behind.close()
        stack.start_worker("steps.py", concurrency=2)


def test_messages_that_went_into_a_silent_connection_are_sent_again(stack: LiveStack, proxy: Proxy) -> None:
    behind = through(stack, proxy)
    try:
        # Several open connections, as the threads of an API have.
        assert behind.finished(behind.trigger("chain")).status == "completed"
        for _ in range(3):
            proxy.silence()
            run_ids = [behind.trigger("chain") for _ in range(20)]
            for run_id in run_ids:
                assert stack.finished(run_id, SOON_S).status == "completed"
    finally:
        behind.close()
