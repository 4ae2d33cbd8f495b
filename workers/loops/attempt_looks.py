"""When the loop looks for attempts that are due, so that short delays of retries are kept (pure).

A look also tells when the next attempt will be due, and the loop wakes up for it: a delay that is longer than
the time between two looks ends on time. Where shorter ones occur, the looks come more often.
"""

from __future__ import annotations

from dataclasses import dataclass

# Between two looks (s): while attempts come that no look has foreseen, and when none did for a minute.
EVERY_S = 0.03
SELDOM_S = 0.25
IN_USE_FOR_S = 60.0


@dataclass(slots=True)
class AttemptLooks:
    """The looks of one process, by a monotonic clock (s).

    Args:
        next_at: when it is time to look.
        foreseen_at: when the next attempt will be due, as the last look told; None: none soon.
        surprised_at: when a look last found an attempt whose delay had begun and ended since the look before.
    """

    next_at: float = 0.0
    foreseen_at: float | None = None
    surprised_at: float | None = None

    def saw(self, now: float, due_in_s: float | None) -> bool:
        """Note what a look told: whether an attempt is due.

        Args:
            due_in_s: of `due_attempts.DUE_IN_S`.
        """
        was_foreseen, self.foreseen_at = self.foreseen_at is not None, None
        if due_in_s is not None and due_in_s > 0:
            self.foreseen_at = self.next_at = now + due_in_s
            return False
        if due_in_s is not None and -due_in_s > EVERY_S and not was_foreseen:
            self.surprised_at = now
        self.next_at = now + (EVERY_S if self.are_often(now) else SELDOM_S)
        return due_in_s is not None

    def are_often(self, now: float) -> bool:
        """Whether delays occur that are shorter than the time between two rare looks."""
        return self.surprised_at is not None and now - self.surprised_at < IN_USE_FOR_S

    def until_foreseen(self, now: float) -> float | None:
        """How long until the attempt that was foreseen is due (s); None: none was."""
        return None if self.foreseen_at is None else max(0.0, self.foreseen_at - now)
