"""Makes SQL of the kinds of task runs, as `pipeweave/spec/kinds.py` defines them."""

from __future__ import annotations

from collections.abc import Collection

from pipeweave.spec import CALLED, ITEMS, KINDS, STEPS, WITH_ITEMS


def kind_in(kinds: Collection[str], row: str = "t") -> str:
    """SQL: whether a task run or dead letter is of one of these kinds.

    Args:
        row: the alias of its table.
    """
    others = [each for each in KINDS if each not in kinds]
    # The shorter list. The partial indexes are written in this way: PostgreSQL must prove that they apply.
    if len(others) < len(kinds):
        return f"{row}.kind NOT IN {_listed(others)}" if len(others) > 1 else f"{row}.kind <> '{others[0]}'"
    return f"{row}.kind IN {_listed(kinds)}" if len(kinds) > 1 else f"{row}.kind = '{next(iter(kinds))}'"


def _listed(kinds: Collection[str]) -> str:
    return "({})".format(", ".join(f"'{each}'" for each in KINDS if each in kinds))


# Of task runs whose table has the alias `t`.
IS_CALLED = kind_in(CALLED)
IS_STEP = kind_in(STEPS)
IS_ITEM = kind_in(ITEMS)
HAS_ITEMS = kind_in(WITH_ITEMS)
