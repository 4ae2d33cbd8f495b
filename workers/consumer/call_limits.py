"""Limits the memory and the processor time of a call in this process, and lifts the limits after it.

Only the main thread of a child, which runs one call at a time, can be limited so. Its other threads share the
memory: what they need during the call is small, and they try again.
"""

from __future__ import annotations

import gc
import resource
import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType

from pipeweave.errors import CpuLimitExceeded, MemoryLimitExceeded, SandboxUnavailable

# A function that catches the error of its limit gets another one after so much more processor time (s).
_AGAIN_S = 1.0


class CallLimits:
    """Limits the call in the block: `with CallLimits(memory, cpu_s): call()`.

    Args:
        memory: how much it may take beside what the process has (bytes); None for no limit.
        cpu_s: how much processor time it may take (s); None for no limit.

    Raises:
        MemoryLimitExceeded, CpuLimitExceeded: it took more.
        SandboxUnavailable: this is not the main thread, or the system does not say how large the process is.
    """

    def __init__(self, memory: int | None, cpu_s: float | None) -> None:
        self._memory = memory
        self._cpu_s = cpu_s
        self._space_before = resource.getrlimit(resource.RLIMIT_AS)
        self._signal_before: object = None
        self._is_over = True

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise SandboxUnavailable("limits of a call need the main thread of a process")
        if self._cpu_s is not None:
            self._is_over = False
            self._signal_before = signal.signal(signal.SIGPROF, self._on_signal)
            signal.setitimer(signal.ITIMER_PROF, self._cpu_s, _AGAIN_S)
        if self._memory is not None:
            soft, hard = self._space_before
            wanted = _size() + self._memory
            limits = [each for each in (wanted, soft, hard) if each != resource.RLIM_INFINITY]
            resource.setrlimit(resource.RLIMIT_AS, (min(limits), hard))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over = True
        if self._memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, self._space_before)
        if self._cpu_s is not None:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, self._signal_before)  # type: ignore[arg-type]
        if isinstance(error, MemoryError) and self._memory is not None:
            # The frames of the call hold what has filled the memory.
            error.__traceback__ = None
            gc.collect()
            raise MemoryLimitExceeded(
                f"the call took more than the {self._memory:,} bytes that its task may"
            ) from None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_over:
            raise CpuLimitExceeded(f"the call took more than {self._cpu_s:g} s of processor time")


def _size() -> int:
    """The address space of this process (bytes)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError as error:
        raise SandboxUnavailable("the system does not say how large the process is") from error
    return pages * resource.getpagesize()
