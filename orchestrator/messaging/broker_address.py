"""Where the broker is, in the words of Celery: one server, or the sentinels that know the primary.

Behind sentinels, every new connection asks them first (kombu's SentinelChannel, Celery's SentinelBackend), so
that it leads to the primary of that moment; primary_connections.py notices when that is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.settings.sentinels import Sentinels, is_behind_sentinels, sentinels_of

# How long (s) each step of asking one sentinel may take; then the next one is asked. Short, because a
# publisher waits for it before it waits for the broker. A sentinel answers from memory.
SENTINEL_TIMEOUT_S = 0.3


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where connections go.

    Args:
        url: as Celery takes it: without options of sentinels.
        options: of every connection, besides timeouts.
        tls: of connections to the broker; empty: the URL alone says.
    """

    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tls: Mapping[str, Any] = field(default_factory=dict)


def address_of(broker_url: str) -> BrokerAddress:
    """The address that a broker URL of the settings means.

    Raises:
        ValueError: it names sentinels and cannot be used.
    """
    if not is_behind_sentinels(broker_url):
        return BrokerAddress(broker_url)
    sentinels = sentinels_of(broker_url)
    options = {"master_name": sentinels.master_name, "sentinel_kwargs": sentinel_options(sentinels)}
    return BrokerAddress(";".join(sentinels.urls), options, sentinels.tls)


def sentinel_options(sentinels: Sentinels) -> dict[str, Any]:
    """The options of redis-py for a connection to a sentinel."""
    return {
        "username": sentinels.own_username,
        "password": sentinels.own_password,
        "socket_timeout": SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": SENTINEL_TIMEOUT_S,
        # By itself redis-py asks a sentinel that is away four times, for seconds, before it asks another one.
        "retry": None,
        **({"ssl": True, **sentinels.tls} if sentinels.tls else {}),
    }
