"""Doctor's check of the sentinels: whether another server could take over as the broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.orchestrator.messaging.broker_address import sentinel_options
from pipeweave.settings import Settings
from pipeweave.settings.database_hosts import Host
from pipeweave.settings.sentinels import Sentinels, is_behind_sentinels, sentinels_of


@dataclass(frozen=True, slots=True)
class SentinelView:
    """What one sentinel says.

    Args:
        primary: its address.
        replicas: how many could take over.
        quorum: how many sentinels must agree that the primary is down.
        known: how many sentinels there are, by what this one says.
    """

    primary: str
    replicas: int
    quorum: int
    known: int


def sentinels(settings: Settings) -> Verdict:
    """The sentinels agree on a primary, are enough to replace it, and have a replica to replace it by."""
    if not is_behind_sentinels(settings.broker_url or ""):
        return fine("none: BROKER_URL names one server")
    group = sentinels_of(settings.broker_url or "")
    answers = [_ask(host, group) for host in group.hosts]
    answered = [each for each in answers if each is not None]
    count = f"{len(answered)} of {len(answers)} sentinels"
    if not answered:
        return error(f"{count} answer", "check the hosts of BROKER_URL, and sentinel_password")
    known = [each for each in answered if isinstance(each, SentinelView)]
    if not known:
        return error(
            f"{count} answer, and none watches {group.master_name}",
            "set master_name in BROKER_URL to the name in their `sentinel monitor`",
        )
    return _judged(known, count, group.master_name)


def _judged(known: list[SentinelView], count: str, master_name: str) -> Verdict:
    [(primary, votes)] = Counter(each.primary for each in known).most_common(1)
    best = max((each for each in known if each.primary == primary), key=lambda each: each.replicas)
    replicas = "1 replica" if best.replicas == 1 else f"{best.replicas} replicas"
    line = f"{primary} is the primary of {master_name} ({count} answer), with {replicas}"
    if votes < len(known):
        return warning(f"{line}; {len(known) - votes} name another one", "wait: a failover may be under way")
    # The quorum notices that the primary is down; to replace it takes most of the sentinels.
    needed = max(best.quorum, best.known // 2 + 1)
    if len(known) < needed:
        return warning(f"{line}; it takes {needed} sentinels to replace it", "start the others")
    if not best.replicas:
        return warning(f"{line}: nothing could take over", "start a replica")
    return fine(line)


def _ask(host: Host, group: Sentinels) -> SentinelView | str | None:
    """What a sentinel says; a text if it does not watch this broker, None if it does not answer."""
    with Redis(host.name, host.port, **sentinel_options(group)) as client:
        try:
            primary = client.sentinel_master(group.master_name)
            replicas = client.sentinel_slaves(group.master_name)
        except ResponseError as problem:
            return str(problem)
        except (RedisError, OSError):
            return None
    able = [each for each in replicas if not (each["is_sdown"] or each["is_disconnected"])]
    address = Host(primary["ip"], primary["port"])
    return SentinelView(str(address), len(able), primary["quorum"], primary["num-other-sentinels"] + 1)


CHECK = Check("sentinels", sentinels)
