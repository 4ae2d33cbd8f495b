"""Changes that many are told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

# Changes and bytes of them that are told at once: less than half of what may wait for a watcher.
MOST_AT_ONCE = 100
MAX_BYTES_AT_ONCE = 100_000

Change = tuple[str, bytes]


class Told:
    """Some changes in their order: each is the cursor behind it and its JSON.

    Whoever shows them in the same way shares the bytes, however many watch.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self._shown: dict[Callable[[str, bytes], bytes], bytes] = {}

    def shown(self, show: Callable[[str, bytes], bytes]) -> bytes:
        """All of them, one after the other.

        Args:
            show: shows a change.
        """
        known = self._shown.get(show)
        if known is None:
            known = self._shown[show] = b"".join([show(*each) for each in self.changes])
        return known


def portions(changes: Sequence[tuple[int, Change]]) -> Iterator[tuple[int, Told]]:
    """Changes as they are told, and the index of the first event of each portion.

    Args:
        changes: with the indexes of their events.
    """
    first, size = 0, 0
    for position, (_, (_, content)) in enumerate(changes):
        is_much = position - first >= MOST_AT_ONCE or size + len(content) > MAX_BYTES_AT_ONCE
        if position > first and is_much:
            yield changes[first][0], Told([each for _, each in changes[first:position]])
            first, size = position, 0
        size += len(content)
    if changes:
        yield changes[first][0], Told([each for _, each in changes[first:]])
