"""A worker that is asked to stop notices it, whenever the signal comes."""

from __future__ import annotations

import signal
import threading

import pytest

from pipeweave.http_worker.stop_signals import SIGNALS, StopSignals


def actions() -> list[object]:
    return [signal.getsignal(each) for each in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_wait_ends_it(number: signal.Signals) -> None:
    with StopSignals() as signals:
        signal.raise_signal(number)
        signals.wait()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_another_thread_gets_ends_the_wait(number: signal.Signals) -> None:
    def later() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    timer = threading.Timer(0.05, later)
    with StopSignals() as signals:
        timer.start()
        signals.wait()
    timer.join()


def test_a_second_signal_ends_the_process_at_once() -> None:
    with StopSignals():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(signal.SIGINT)
    assert caught.value.code == 128 + signal.SIGINT


def test_afterwards_signals_do_what_they_did_before() -> None:
    before, descriptor = actions(), signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    with StopSignals():
        assert actions() != before
    assert actions() == before
    assert signal.set_wakeup_fd(descriptor) == descriptor
