"""A worker whose tasks use Celery apps of their own: each app keeps its broker, its results and its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from support.celery_worker import celery_worker
from support.live_stack import APPS, LiveStack, StackMaker
from support.pages import ROOT
from support.servers import BrokerDatabases, wait_until

EXAMPLES = ROOT / "examples"


@pytest.fixture
def legacy_url(broker_databases: BrokerDatabases) -> Iterator[str]:
    """The broker of the user's own Celery app: a database of its own."""
    with broker_databases.one() as url:
        yield url


@pytest.fixture
def beside(make_stack: StackMaker, tmp_path: Path, legacy_url: str) -> Iterator[LiveStack]:
    """A stack without processes, whose tasks may find the user's broker."""
    with make_stack(tmp_path) as own:
        own.variables["PIPEWEAVE_TEST_LEGACY_BROKER"] = legacy_url
        yield own


def only(task: str) -> dict[str, Any]:
    return {"id": task.replace("_", "-"), "steps": [{"id": "only", "task": task}]}


def waiting(url: str) -> int:
    """How many messages wait in the queue that Celery takes by default."""
    with redis.Redis.from_url(url) as client:
        return int(client.llen("celery"))


def keys(url: str | None) -> list[str]:
    with redis.Redis.from_url(url or "", decode_responses=True) as client:
        return [str(each) for each in client.keys("*")]


def test_a_task_publishes_to_the_broker_of_its_own_celery_app(beside: LiveStack, legacy_url: str) -> None:
    beside.start_worker("beside.py", concurrency=1)
    run = beside.ran(only("publishes"))
    assert run.status == "completed", beside.logs()
    seen = beside.steps(run.id)["only"].output
    assert seen.pop("broker").endswith(legacy_url.rpartition("/")[2])
    assert seen == {"app": "legacy", "shared": "legacy", "thread": "legacy"}
    assert waiting(legacy_url) == 3
    assert [each for each in keys(beside.settings.broker_url) if not each.startswith("pipeweave.")] == []


def test_a_shared_task_without_an_app_is_never_sent_to_our_broker(beside: LiveStack) -> None:
    beside.start_worker("without_celery_app.py", concurrency=1)
    run = beside.ran(only("mails"))
    assert run.status == "failed"
    # Celery's own default, a RabbitMQ on this host, and there is none.
    assert "Connection refused" in beside.steps(run.id)["only"].error["message"]
    assert [each for each in keys(beside.settings.broker_url) if not each.startswith("pipeweave.")] == []


@pytest.mark.parametrize("name", ["CELERY_BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_WRITE_URL"])
def test_celerys_variables_are_those_of_the_users_app(beside: LiveStack, legacy_url: str, name: str) -> None:
    beside.variables |= {name: legacy_url, "CELERY_RESULT_BACKEND": legacy_url}
    beside.start_worker("beside.py", concurrency=1)
    assert beside.ran(only("noop")).status == "completed"
    assert keys(legacy_url) == []


def test_a_step_waits_for_a_result_of_the_users_own_worker(beside: LiveStack, legacy_url: str) -> None:
    beside.start_worker("beside.py", concurrency=1)
    with celery_worker("beside.legacy", APPS, beside.folder / "legacy.log", beside.variables):
        run = beside.ran(only("waits_for_results"))
    assert run.status == "completed", beside.logs()
    assert beside.steps(run.id)["only"].output == [3, "mail to ann from legacy"]


def test_the_example_on_the_page_publishes_to_the_shop_and_waits_for_it(
    beside: LiveStack, legacy_url: str
) -> None:
    beside.variables["SHOP_BROKER_URL"] = legacy_url
    beside.start_worker(str(EXAMPLES / "beside_celery.py"), concurrency=1)
    log = beside.folder / "shop.log"
    with celery_worker("beside_celery", EXAMPLES, log, beside.variables):
        run = beside.finished(beside.trigger("sell", {"article": "apples"}))
        assert run.status == "completed", beside.logs()
        assert beside.steps(run.id)["tell_shop"].output == "apples for 60"
        wait_until(lambda: "remember_sale" in log.read_text() and log.read_text().count("succeeded") == 2)
