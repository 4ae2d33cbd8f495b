"""Limits of memory and processor time around a call in this process."""

from __future__ import annotations

import resource
import signal
import threading
import time

import pytest

from pipeweave.errors import CpuLimitExceeded, MemoryLimitExceeded, SandboxUnavailable
from pipeweave.workers.consumer.call_limits import CallLimits

MIB = 1024 * 1024


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_memory_beyond_the_limit_is_refused_and_the_limit_is_lifted() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryLimitExceeded, match="33,554,432 bytes"), CallLimits(32 * MIB, None):
        kept = []
        while True:
            kept.append(bytearray(MIB))
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    assert len(bytearray(64 * MIB)) == 64 * MIB


def test_memory_within_the_limit_is_there() -> None:
    with CallLimits(64 * MIB, None):
        assert len(bytearray(16 * MIB)) == 16 * MIB


def test_processor_time_beyond_the_limit_ends_the_call_and_the_signal_is_given_back() -> None:
    before = signal.getsignal(signal.SIGPROF)
    with pytest.raises(CpuLimitExceeded, match=r"0\.05 s"), CallLimits(None, 0.05):
        spin(20)
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    spin(0.1)


def test_a_call_that_catches_the_error_of_its_limit_gets_another_one() -> None:
    caught = 0
    with pytest.raises(CpuLimitExceeded), CallLimits(None, 0.05):
        while True:
            try:
                spin(20)
            except CpuLimitExceeded:
                caught += 1
                if caught == 2:
                    raise
    assert caught == 2


def test_time_that_passes_is_no_processor_time() -> None:
    with CallLimits(None, 0.2):
        threading.Event().wait(0.3)


def test_an_exception_of_the_call_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="mine"), CallLimits(64 * MIB, 1):
        raise ValueError("mine")


def test_a_thread_cannot_be_limited() -> None:
    refused: list[BaseException] = []

    def call() -> None:
        try:
            with CallLimits(64 * MIB, None):
                pass
        except SandboxUnavailable as error:
            refused.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert len(refused) == 1
