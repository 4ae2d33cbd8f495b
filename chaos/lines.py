"""The lines of one process to the servers, which faults cut or silence."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.proxies import Proxies
from chaos.proxy import Proxy, Recognise

# Silent connections end after so long (s): much later than the product may need.
KEPT_S = 30.0
# A moment is waited for at most so long (s).
MOMENT_WITHIN_S = 2.0


def _is_in_transaction(said: bytes) -> bool:
    """Whether PostgreSQL answered a statement within a transaction, and waits for the next one."""
    return said.endswith(b"Z\0\0\0\5T") and not said.endswith(b"BEGIN\0Z\0\0\0\5T")


def _is_committed(said: bytes) -> bool:
    """Whether PostgreSQL says that it committed."""
    return b"COMMIT\0" in said


# When a host vanishes: at any moment, within a transaction, or before it hears that it committed.
MOMENTS: dict[str, Recognise | None] = {
    "any": None,
    "transaction": _is_in_transaction,
    "commit": _is_committed,
}


@dataclass(frozen=True, slots=True)
class Lines:
    """The connections of one process.

    Args:
        broker: None: it reaches the broker without a proxy.
    """

    postgres: Proxies
    broker: Proxy | None

    def vanish(self, moment: str) -> bool:
        """Silence all connections at this moment; False if it did not come."""
        recognise = MOMENTS[moment]
        came = recognise is None or self.postgres.silence_when(recognise, MOMENT_WITHIN_S)
        for each in self.all:
            each.silence()
        return came

    @property
    def all(self) -> tuple[Proxies | Proxy, ...]:
        return (self.postgres,) if self.broker is None else (self.postgres, self.broker)

    def forget(self) -> None:
        """End connections that have been silent for long."""
        for each in self.all:
            each.forget(KEPT_S)

    def close(self) -> None:
        for each in self.all:
            each.close()
