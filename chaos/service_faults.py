"""Faults of HTTP services: killed, hanging, answering twice, late, with errors and with nonsense."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack

from chaos.aim import Aim, Hit, freeze, send
from chaos.meddler import Meddling
from chaos.plan import Fault


def kill_service(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Kill an instance, whatever it works at."""
    hit.pids = aim.family(_service_of(fault))
    send(hit.pids, signal.SIGKILL)


def hang_service(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Freeze an instance: it takes connections and answers nothing."""
    hit.pids = aim.family(_service_of(fault))
    freeze(hit.pids, fault.seconds)


def double_requests(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Every dispatch and every report arrives twice."""
    _meddle(aim, fault, hit, Meddling(times=2))


def delay_requests(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Every dispatch and every report arrives late; dispatches maybe when nobody waits any more."""
    _meddle(aim, fault, hit, Meddling(delay_s=fault.options["by"]))


def fail_requests(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Every dispatch and every report is answered 500, although it arrived or because it did not."""
    _meddle(aim, fault, hit, Meddling(answer="error", times=int(fault.options["arrives"])))


def garble_answers(aim: Aim, fault: Fault, hit: Hit) -> None:
    """Every dispatch and every report is answered with nonsense."""
    _meddle(aim, fault, hit, Meddling(answer="nonsense", times=int(fault.options["arrives"])))


def _meddle(aim: Aim, fault: Fault, hit: Hit, way: Meddling) -> None:
    meddlers = [each for several in aim.up.meddlers.values() for each in several]
    with ExitStack() as stack:
        for each in meddlers:
            stack.enter_context(each.meddling(way))
        time.sleep(fault.seconds)
    hit.more = {"requests": sum(each.requests for each in meddlers)}


def _service_of(fault: Fault) -> str:
    return f"service-{fault.options['service'] + 1}"
