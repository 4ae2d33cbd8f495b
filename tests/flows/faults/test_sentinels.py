"""A broker behind sentinels: another server takes over under load, and everything goes on by itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
import redis
from support.live_stack import LiveStack, new_live_stack
from support.sentinels import RunningBroker, running_sentinels
from support.servers import wait_until

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.diagnosis.check_sentinels import sentinels
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.messaging import Publisher, make_celery
from pipeweave.settings import environment, load
from pipeweave.settings.readers import passwords_of
from pipeweave.up.postgres import Postgres

WIDE = {
    "id": "wide",
    "steps": [
        {"id": "a", "task": "noop"},
        *({"id": f"b{number}", "task": "noop", "needs": ["a"]} for number in range(9)),
        {"id": "c", "task": "noop", "needs": [f"b{number}" for number in range(9)]},
    ],
}
STEPS = {step["id"]: 1 for step in WIDE["steps"]}  # type: ignore[index]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """Two servers and three sentinels."""
    with running_sentinels(tmp_path_factory.mktemp("sentinels")) as running:
        yield running


@pytest.fixture(autouse=True)
def _whole(broker: RunningBroker) -> None:
    """Each test begins with all servers and sentinels, whatever the one before it did."""
    broker.be_whole()


@pytest.fixture(scope="module")
def stack(
    broker: RunningBroker,
    postgres_server: Postgres,
    database_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[LiveStack]:
    """A stack on this broker, with two workers and a beat."""
    folder = tmp_path_factory.mktemp("behind-sentinels")
    url = load({"BROKER_URL": broker.url}).broker_url or ""
    with new_live_stack(postgres_server, database_template, url, folder) as made:
        made.start_worker("steps.py", concurrency=2)
        made.start_worker("steps.py", concurrency=2)
        made.start_beat()
        made.store(WIDE)
        yield made


def all_done_once(stack: LiveStack, run_ids: list[object]) -> None:
    for run_id in run_ids:
        assert stack.finished(run_id).status == "completed"  # type: ignore[arg-type]
        assert stack.called(run_id) == STEPS  # type: ignore[arg-type]


def can_publish(publisher: Publisher) -> bool:
    try:
        publisher.check_writable("pipeweave.test")
    except Unavailable:
        return False
    return True


def test_when_the_primary_is_killed_every_run_goes_on_at_its_replica(
    stack: LiveStack, broker: RunningBroker
) -> None:
    run_ids: list[object] = [stack.trigger("wide") for _ in range(10)]
    old = broker.broker.primary()
    broker.kill(old)
    # Nobody can be told of these until the replica has taken over.
    run_ids += [stack.trigger("wide") for _ in range(10)]
    wait_until(lambda: broker.primary() not in (old, None))
    run_ids += [stack.trigger("wide") for _ in range(10)]
    all_done_once(stack, run_ids)
    assert all(each.poll() is None for each in stack.processes), stack.logs()
    wait_until(lambda: can_publish(stack.deployment.publisher))
    # It comes back as a replica of the new one, whom nobody has lost.
    broker.be_whole()
    assert broker.primary() != old
    all_done_once(stack, [stack.trigger("wide") for _ in range(5)])


def test_an_old_primary_that_still_answers_loses_no_run_and_is_left_soon(
    stack: LiveStack, broker: RunningBroker
) -> None:
    """As behind a partition: the old primary answers all who are connected, and nobody makes it a replica."""
    old = broker.broker.servers[broker.broker.primary()]
    own = stack.deployment.publisher
    assert can_publish(own)
    with redis.Redis.from_url(old.url) as client:
        client.execute_command("ACL", "SETUSER", "default", "-replicaof", "-slaveof")
        try:
            run_ids: list[object] = [stack.trigger("wide") for _ in range(5)]
            assert broker.order_fail_over() != old
            run_ids += [stack.trigger("wide") for _ in range(5)]
            with broker.broker.redis() as new:
                new.lpush("pipeweave.test.mark", "")
                wait_until(lambda: own.depth("pipeweave.test.mark") == 1, what="the publisher stays")
                new.delete("pipeweave.test.mark")
            wait_until(
                lambda: "brpop" not in {each["cmd"] for each in client.client_list()}, what="a worker stays"
            )
            assert client.info("replication")["role"] == "master"
            all_done_once(stack, run_ids)
        finally:
            client.execute_command("ACL", "SETUSER", "default", "+@all")


def test_a_sentinel_that_hangs_or_is_away_stops_nobody(stack: LiveStack, broker: RunningBroker) -> None:
    broker.kill("sentinel-3")
    with broker.frozen("sentinel-1"):
        publisher = Publisher(make_celery(stack.settings), clock=time.time)
        assert can_publish(publisher)
        publisher.close()
        worker = stack.start_worker("steps.py", concurrency=1)
        all_done_once(stack, [stack.trigger("wide") for _ in range(5)])
        stack.stop(worker)
    with broker.frozen("sentinel-1", "sentinel-2"):
        # Connections that are open need no sentinel.
        all_done_once(stack, [stack.trigger("wide") for _ in range(5)])
        publisher = Publisher(make_celery(stack.settings), clock=time.time)
        with pytest.raises(Unavailable, match="no primary of orders is named by the sentinels"):
            publisher.check_writable("pipeweave.test")
        publisher.close()


def test_doctor_says_who_is_the_primary_and_whether_another_could_take_over(
    stack: LiveStack, broker: RunningBroker
) -> None:
    port = broker.broker.servers[broker.broker.primary()].port
    verdict = sentinels(stack.settings)
    assert (verdict.level, verdict.line) == (
        Severity.OK,
        f"127.0.0.1:{port} is the primary of orders (3 of 3 sentinels answer), with 1 replica",
    )
    broker.kill("sentinel-1")
    assert sentinels(stack.settings).level is Severity.OK
    broker.kill("sentinel-2")
    verdict = sentinels(stack.settings)
    assert (verdict.level, verdict.hint) == (Severity.WARNING, "start the others")
    assert "(1 of 3 sentinels answer)" in verdict.line
    assert "it takes 2 sentinels to replace it" in verdict.line
    broker.kill("sentinel-3")
    verdict = sentinels(stack.settings)
    assert (verdict.level, verdict.line) == (Severity.ERROR, "0 of 3 sentinels answer")


def test_the_guard_and_the_tools_of_celery_work_through_sentinels(stack: LiveStack) -> None:
    stack.redis.rpush(stack.queue(), "junk", b"\xff\xfe", "{}")
    all_done_once(stack, [stack.trigger("wide") for _ in range(3)])
    assert '"message.dropped"' in stack.logs()
    said: list[str] = []
    for question in ("ping", "conf"):
        wait_until(lambda question=question: asked(stack, question, said) == 2)  # type: ignore[misc]
    said += [path.read_text() for path in stack.folder.glob("*.log")]
    for secret in passwords_of(stack.settings.broker_url or ""):
        assert secret not in "".join(said)


def asked(stack: LiveStack, question: str, said: list[str]) -> int:
    """How many workers answer `celery inspect`; what it says is added to `said`."""
    tool = [sys.executable, "-m", "celery", "-A", "pipeweave.workers.app", "inspect", question, "--json"]
    variables = {**environment(), "BROKER_URL": stack.settings.broker_url or ""}
    done = subprocess.run([*tool, "--timeout", "3"], env=variables, capture_output=True, text=True)
    said += [done.stdout, done.stderr]
    return len(json.loads(done.stdout)) if done.returncode == 0 else 0
