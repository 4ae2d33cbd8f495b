"""Asks instances that were set aside, or said nothing for long, whether they are there: a chore of the tick.

The tick does not wait for them: an instance that hangs would hold up everything else that the tick does.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial

from pipeweave.errors import PipeWeaveError, TargetRefused
from pipeweave.orchestrator.registry import instances
from pipeweave.orchestrator.registry.instances import Instance
from pipeweave.orchestrator.store.database import Database, Transaction
from pipeweave.sending import Networks, NoReply, Reply, Sender

log = logging.getLogger(__name__)

# One tick asks so many instances, and waits so long (s) for those that answer at once.
BATCH = 16
WAIT_S = 0.2


def run_once(database: Database, allowed: Sequence[str]) -> int:
    """Ask the instances whose time has come. Returns their number.

    Args:
        allowed: the networks that dispatches may reach.
    """

    def take(tx: Transaction) -> list[Instance]:
        instances.forget_gone(tx)
        return instances.take_probes(tx, BATCH) + instances.quiet(tx, BATCH)

    probes = database.caches.own(_Probes)
    due = [each for each in database.run(take) if _named(each) not in probes.asked]
    probes.asked.update(map(_named, due))
    networks = Networks(allowed)
    asked = [probes.threads.submit(_probe, database, probes, networks, each) for each in due]
    wait(asked, timeout=WAIT_S)
    return len(due)


class _Probes:
    """The instances that are being probed. A quiet instance is recorded only when it answers."""

    def __init__(self) -> None:
        self.asked: set[tuple[str, str, str]] = set()
        self.threads = ThreadPoolExecutor(BATCH, thread_name_prefix="probe")
        self.close = partial(self.threads.shutdown, wait=False)


def _named(instance: Instance) -> tuple[str, str, str]:
    return instance.tenant, instance.service_id, instance.base_url


def _probe(database: Database, probes: _Probes, networks: Networks, instance: Instance) -> None:
    try:
        reply = _ask(networks, instance)
        with database.statements() as tx:
            _record(tx, instance, reply)
    except PipeWeaveError as error:
        log.warning("probe.failed", extra={"service_id": instance.service_id, "reason": error.detail})
    except Exception:
        log.exception("probe.failed", extra={"service_id": instance.service_id})
    finally:
        probes.asked.discard(_named(instance))


def _ask(networks: Networks, instance: Instance) -> Reply | NoReply:
    try:
        target = networks.resolve(instance.base_url, instance.tenant)
    except TargetRefused as error:
        return NoReply(str(error.detail), is_certain=True)
    except (OSError, UnicodeError) as error:
        return NoReply(f"its host cannot be resolved ({error})", is_certain=True)
    sender = Sender(cuts=True)
    try:
        return sender.get(target, f"{target.path}/health")
    finally:
        sender.close()


def _record(tx: Transaction, instance: Instance, reply: Reply | NoReply) -> None:
    named = _named(instance)
    answered, is_aside = isinstance(reply, Reply), instance.set_aside_at is not None
    names = {"service_id": instance.service_id, "base_url": instance.base_url}
    # A worker without a health page answers 404: it is there all the same.
    if isinstance(reply, Reply) and reply.status < 500:
        if is_aside:
            instances.bring_back(tx, *named)
            log.info("instance.back", extra=names)
        else:
            instances.seen(tx, *named)
        return
    said = reply.reason if isinstance(reply, NoReply) else f"/health answered {reply.status}"
    instances.set_aside(tx, *named, said, answered=answered)
    if not is_aside:
        log.warning("instance.silent", extra={**names, "reason": said})
