"""The check of doctor that says who else uses the broker's database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from celery import Celery
from support.redis_inspection import QUEUE, released, run

from pipeweave.orchestrator.diagnosis import check_broker_sharing
from pipeweave.orchestrator.diagnosis.check_broker_sharing import sharing
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.orchestrator.domain.outbox import Chord
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.publisher import Publisher
from pipeweave.settings import Settings


@pytest.fixture
def settings(fresh_broker_url: str) -> Settings:
    return Settings(broker_url=fresh_broker_url)


@pytest.fixture
def theirs(fresh_broker_url: str) -> Iterator[Celery]:
    """A user's app on the same database."""
    app = Celery("theirs", broker=fresh_broker_url, set_as_current=False)
    yield app
    app.close()


def test_what_pipeweave_keeps_there_is_nobody_else(settings: Settings, publisher: Publisher) -> None:
    run_id = run()
    publisher.publish([*released(run_id, 3), Chord(run_id, 7, 3)])
    app = make_celery(settings, queues=(QUEUE,), is_worker=True)
    with app.connection_for_read() as connection, connection.channel() as channel:
        app.amqp.TaskConsumer(channel)
        app.control.mailbox(connection).Node("w@host", channel=channel).listen()
        verdict = sharing(settings)
    app.close()
    assert (verdict.level, verdict.line) == (Severity.OK, "no other application uses this database")


def test_another_celery_app_is_named_with_its_queues_and_workers(settings: Settings, theirs: Celery) -> None:
    theirs.send_task("mail", queue="letters")
    theirs.send_task("mail")
    with theirs.connection_for_read() as connection, connection.channel() as channel:
        theirs.amqp.TaskConsumer(channel)
        theirs.control.mailbox(connection).Node("shop@host", channel=channel).listen()
        verdict = sharing(settings)
    assert verdict.level is Severity.WARNING
    assert "another Celery app with queues celery, letters, worker shop@host" in verdict.line
    assert "a database number of its own" in (verdict.hint or "")


def test_keys_of_any_other_program_are_counted(settings: Settings) -> None:
    with redis.Redis.from_url(settings.broker_url or "") as client:
        client.mset({"session:1": "a", "session:2": "b"})
    assert sharing(settings).line == "the database is shared: 2 keys of other applications"


def test_a_large_database_is_looked_at_in_part(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_broker_sharing, "MAX_SCANS", 2)
    monkeypatch.setattr(check_broker_sharing, "KEYS_PER_SCAN", 10)
    with redis.Redis.from_url(settings.broker_url or "") as client:
        client.mset({f"session:{number}": "a" for number in range(500)})
    assert 0 < int(sharing(settings).line.split()[4]) < 500


def test_a_user_who_may_not_read_keys_of_others_still_learns_that_there_are_some(
    settings: Settings, theirs: Celery
) -> None:
    theirs.send_task("mail")
    with redis.Redis.from_url(settings.broker_url or "") as client:
        rights = ["on", ">secret", "+@all", "~pipeweave.*", "&pipeweave.*"]
        client.execute_command("ACL", "SETUSER", "reader", *rights)
        url = (settings.broker_url or "").partition("@")[2]
        verdict = sharing(Settings(broker_url=f"redis://reader:secret@{url}"))
        client.execute_command("ACL", "DELUSER", "reader")
    assert (verdict.level, "keys of other applications" in verdict.line) == (Severity.WARNING, True)
