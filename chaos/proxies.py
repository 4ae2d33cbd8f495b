"""The connections of one process to several servers of which any may be the one in use, as one."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.proxy import Proxy, Recognise, Trap


class Proxies:
    """A proxy for each server, all of which are silenced, cut and mended together.

    Args:
        targets: the ports of the servers.
    """

    def __init__(self, targets: Sequence[int]) -> None:
        self._each = [Proxy(port) for port in targets]

    @property
    def ports(self) -> list[int]:
        """Of the proxies, in the order of the servers."""
        return [each.port for each in self._each]

    def silence(self) -> int:
        """As `Proxy.silence`."""
        return sum(each.silence() for each in self._each)

    def silence_when(self, recognise: Recognise, seconds: float) -> bool:
        """As `Proxy.silence_when`, whichever server says it."""
        trap = Trap(recognise)
        for each in self._each:
            each.arm(trap)
        was_said = trap.is_off.wait(seconds)
        for each in self._each:
            each.arm(None)
        self.silence()
        return was_said

    def cut(self) -> None:
        """As `Proxy.cut`."""
        for each in self._each:
            each.cut()

    def mend(self, *, delivers: bool) -> None:
        """As `Proxy.mend`."""
        for each in self._each:
            each.mend(delivers=delivers)

    def forget(self, seconds: float) -> None:
        """As `Proxy.forget`."""
        for each in self._each:
            each.forget(seconds)

    def close(self) -> None:
        """As `Proxy.close`."""
        for each in self._each:
            each.close()
