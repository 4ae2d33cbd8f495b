"""Inject the faults of a plan into a stack, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg2
from redis.exceptions import RedisError

from chaos import (
    broker_faults,
    cause_faults,
    deploys,
    network_faults,
    process_faults,
    promotion_faults,
    server_faults,
    service_faults,
)
from chaos.aim import PATIENCE_S, Aim, Hit, Missed
from chaos.plan import Fault


@dataclass(frozen=True, slots=True)
class Injected:
    """A fault that happened.

    Args:
        began: seconds of the machine's steady clock.
        ended: likewise; the servers answered again.
        pids: the ids of the processes that it hit.
        more: further counts.
    """

    kind: str
    planned: float
    began: float
    ended: float
    pids: list[int] = field(default_factory=list)
    more: Mapping[str, int] = field(default_factory=dict)
    missed: str | None = None


def inject(aim: Aim, fault: Fault) -> Injected:
    """Inject one fault, for as long as it lasts."""
    hit, missed = Hit(), None
    for each in aim.up.lines.values():
        each.forget()
    began = time.monotonic()
    try:
        WAYS[fault.kind](aim, fault, hit)
    except (Missed, RedisError, OSError, psycopg2.Error) as error:
        missed = str(error) or type(error).__name__
    # A server that was killed recovers for a while, longer where the disk is busy: nobody can work meanwhile.
    aim.up.wait_for_servers(PATIENCE_S)
    return Injected(fault.kind, fault.at, began, time.monotonic(), hit.pids, dict(hit.more), missed)


WAYS: dict[str, Callable[[Aim, Fault, Hit], None]] = {
    "child-killed": process_faults.kill_child,
    "worker-killed": process_faults.kill_worker,
    "worker-stopped": process_faults.stop_worker,
    "worker-asked-to-end": process_faults.ask_worker_to_end,
    "worker-vanished": network_faults.lose_worker,
    "worker-deployed": deploys.deploy,
    "beat-killed": process_faults.kill_beat,
    "beat-stopped": process_faults.stop_beat,
    "beat-vanished": network_faults.lose_beat,
    "api-killed": process_faults.kill_api,
    "api-vanished": network_faults.lose_api,
    "service-killed": service_faults.kill_service,
    "service-hangs": service_faults.hang_service,
    "service-doubles": service_faults.double_requests,
    "service-late": service_faults.delay_requests,
    "service-fails": service_faults.fail_requests,
    "service-babbles": service_faults.garble_answers,
    "broker-wiped": broker_faults.wipe,
    "broker-hangs": broker_faults.hang,
    "broker-read-only": broker_faults.make_read_only,
    "broker-full": broker_faults.fill,
    "broker-silent": network_faults.silence_broker,
    "broker-failover": broker_faults.fail_over,
    "sentinel-killed": broker_faults.kill_sentinel,
    "sentinel-hangs": broker_faults.hang_sentinel,
    "postgres-killed": server_faults.kill_postgres,
    "postgres-restarted": server_faults.restart_postgres,
    "postgres-away": server_faults.take_postgres_away,
    "postgres-promoted": promotion_faults.promote_standby,
    "postgres-silent": network_faults.silence_postgres,
    "network-silent": network_faults.silence_network,
    "messages-doubled": server_faults.double_messages,
    "messages-delayed": server_faults.delay_messages,
    "messages-lost": server_faults.lose_messages,
    "messages-replayed": server_faults.replay_messages,
    "messages-of-junk": server_faults.add_junk,
    "chords-forgotten": server_faults.forget_chords,
    "storage-hangs": cause_faults.hang_storage,
    "bodies-announced": cause_faults.announce_bodies,
    "hooks-hang": cause_faults.hang_hooks,
    "rows-unreadable": cause_faults.write_odd_rows,
    "month-dropped": cause_faults.drop_month,
}
