"""A broker behind sentinels, as Celery's app is told of it."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from redis.sentinel import Sentinel

from pipeweave.errors import Unavailable
from pipeweave.orchestrator.messaging import Publisher, make_celery
from pipeweave.orchestrator.messaging.broker_address import address_of
from pipeweave.orchestrator.messaging.inbox import GuardedSentinelChannel, GuardedSentinelTransport
from pipeweave.orchestrator.messaging.primary_connections import PrimaryConnection, PrimaryTLSConnection
from pipeweave.settings import Settings

PLAIN = "sentinel://u:p%40w@127.0.0.1:1,[::1]:2/3?master_name=m&sentinel_password=secret"
TLS = f"{PLAIN}&ssl_ca_certs=/etc/ca.pem"


def test_one_server_is_its_url() -> None:
    found = address_of("redis://:a;b@host/0")
    assert (found.url, found.options, found.tls) == ("redis://:a;b@host/0", {}, {})


@pytest.mark.parametrize(("url", "kind"), [(PLAIN, PrimaryConnection), (TLS, PrimaryTLSConnection)])
def test_publishers_and_workers_ask_the_same_sentinels_for_the_same_primary(url: str, kind: type) -> None:
    app = make_celery(Settings(broker_url=url), is_worker=True)
    published = Publisher(app, clock=time.time)._redis._pool
    with app.connection_for_read() as connection:
        assert isinstance(connection.transport, GuardedSentinelTransport)
        channel: Any = GuardedSentinelChannel.__new__(GuardedSentinelChannel)
        channel.connection = SimpleNamespace(client=connection, default_port=26379)
        for name, value in connection.transport_options.items():
            if name in GuardedSentinelChannel.from_transport_options:
                setattr(channel, name, value)
        consumed = channel._sentinel_managed_pool()
    for pool in (published, consumed):
        assert pool.service_name == "m"
        assert issubclass(pool.connection_class, kind)
        asked = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
        assert [(each["host"], each["port"]) for each in asked] == [("127.0.0.1", 1), ("::1", 2)]
        for each in asked:
            assert (each["password"], each["retry"]) == ("secret", None)
            assert each["socket_timeout"] <= 0.5
            assert each["socket_connect_timeout"] <= 0.5
        server = pool.connection_kwargs
        assert (server["username"], server["password"], server["db"]) == ("u", "p@w", 3)
        if url == TLS:
            assert server["ssl_ca_certs"] == asked[0]["ssl_ca_certs"] == "/etc/ca.pem"
    assert published.connection_kwargs["socket_timeout"] <= 2
    app.close()


def test_sentinels_that_are_away_are_asked_once_and_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    discover = Sentinel.discover_master

    def noted(self: Any, name: str) -> Any:
        asked.append(name)
        return discover(self, name)

    monkeypatch.setattr(Sentinel, "discover_master", noted)
    publisher = Publisher(make_celery(Settings(broker_url=PLAIN)), clock=time.time)
    with pytest.raises(Unavailable) as away:
        publisher.depth("pipeweave.default.python")
    assert asked == ["m"]
    assert away.value.detail == (
        "the broker cannot be used: no primary of m is named by the sentinels (2 were asked)"
    )
    publisher.close()
