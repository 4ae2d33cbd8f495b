"""What a worker keeps of an output is what PostgreSQL would give it."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeweave.orchestrator.store import Database, read_back

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=5)
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)

STORED = """
SELECT CAST(n.text AS jsonb) FROM unnest(CAST(:texts AS text[])) WITH ORDINALITY AS n(text, number)
ORDER BY n.number
"""


@given(values=st.lists(VALUES, max_size=8))
@example(
    values=[1e16, -1e16, 1.8446744073709552e19, 1.8446744073709550e19, -9.3e18, 1e300, -1e19, 5e-324, -0.0]
)
@example(values=[{"é": 1, "zz": 2, "b": 3, "a": {"long": 1e22, "c": [1e18]}}, {"": None}])
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_text_is_read_back_as_postgresql_gives_it(database: Database, values: list[Any]) -> None:
    texts = [orjson.dumps(each).decode() for each in values]
    with database.reading() as tx:
        stored = tx.execute(STORED, {"texts": texts}).scalars()
    # `repr` tells 1 from 1.0, and one order of members from another.
    assert [repr(read_back(each)) for each in texts] == [repr(each) for each in stored]
