"""The text of a place gives the same place back, and anything else is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.errors import CursorExpired, InvalidInput
from pipeweave.orchestrator.feed import Place, SeenTransactions, place_text

BIG = 1 << 50


def _seen(before: int, ages: set[int]) -> SeenTransactions:
    return SeenTransactions(before, tuple(sorted(before - age for age in ages if age < before)))


def _place(seen: SeenTransactions, later: tuple[int, set[int]] | None, seq: int, at: int) -> Place:
    if later is None:
        return Place(seen, at=at)
    return Place(seen, _seen(seen.before + later[0], later[1]), seq, at)


AGES = st.sets(st.integers(1, 1 << 20), max_size=8)
PLACES = st.builds(
    _place,
    st.builds(_seen, st.integers(0, BIG), AGES),
    st.none() | st.tuples(st.integers(0, 1 << 20), AGES),
    st.integers(-1, BIG),
    st.integers(0, 1 << 40),
)


@given(PLACES, st.text(max_size=10))
def test_a_place_comes_back_from_its_text(place: Place, tenant: str) -> None:
    text = place_text.write(place, "database", tenant)
    assert place_text.read(text, "database", tenant) == place
    assert text.replace("-", "").replace("_", "").isalnum()


@given(PLACES)
def test_the_text_is_another_tenants_or_databases(place: Place) -> None:
    text = place_text.write(place, "database", "one")
    with pytest.raises(InvalidInput):
        place_text.read(text, "database", "two")
    with pytest.raises(CursorExpired):
        place_text.read(text, "elsewhere", "one")


@given(st.text() | st.binary().map(lambda content: content.hex()))
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        place_text.read(text, "database", "one", field="Last-Event-ID")
    assert caught.value.errors[0].field == "Last-Event-ID"


def test_a_text_that_was_cut_is_refused() -> None:
    text = place_text.write(Place(SeenTransactions(1_000_000, (999_000, 999_900)), at=1), "database")
    for length in range(len(text)):
        with pytest.raises(InvalidInput):
            place_text.read(text[:length], "database")


def test_a_text_is_short() -> None:
    place = Place(
        SeenTransactions(900_000_000, (899_999_990,)),
        SeenTransactions(900_000_004, (899_999_990,)),
        10**9,
        2 * 10**9,
    )
    assert len(place_text.write(place, "database")) <= 48
