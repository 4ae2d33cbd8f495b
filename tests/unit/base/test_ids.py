"""Ids: UUIDv7 inside, TypeIDs at the edge."""

from __future__ import annotations

import itertools
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import ids
from pipeweave.errors import InvalidId, NotFound

UUIDS = st.uuids()


def test_a_new_id_is_a_uuid_of_version_7_with_room_for_ordinals() -> None:
    made = ids.new_id(1_790_000_000_000)
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 1_790_000_000_000
    assert ids.ordinal_of(made) == 0


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = [ids.new_id(stamp) for stamp in range(1_000, 1_100)]
    assert made == sorted(made)
    assert all(ids.first_id_at(stamp) <= each for stamp, each in zip(range(1_000, 1_100), made, strict=True))
    assert all(ids.show(ids.RUN, one) < ids.show(ids.RUN, two) for one, two in itertools.pairwise(made))


def test_ids_made_in_the_same_millisecond_sort_by_the_order_they_were_made() -> None:
    made = [ids.new_id(1) for _ in range(10_000)]
    assert len(set(made)) == 10_000
    assert made == sorted(made)
    assert {each.int >> 80 for each in made} == {1}
    assert {(each.version, ids.ordinal_of(each)) for each in made} == {(7, 0)}


def test_an_id_tells_its_time_even_after_the_clock_went_back() -> None:
    assert [ids.new_id(stamp).int >> 80 for stamp in (5_000, 1_000, 5_000)] == [5_000, 1_000, 5_000]


@given(st.uuids(), st.integers(min_value=1, max_value=26), st.booleans())
def test_a_beginning_spans_the_ids_that_begin_like_it(value: UUID, length: int, is_prefixed: bool) -> None:
    shown = ids.show(ids.RUN, value)
    first, last = ids.span(ids.RUN, shown[: 5 + length] if is_prefixed else shown[5 : 5 + length])
    assert first <= value <= last
    assert ids.show(ids.RUN, first).startswith(shown[: 5 + length])
    assert ids.show(ids.RUN, last).startswith(shown[: 5 + length])


@pytest.mark.parametrize("text", ["", "prun_", "8", "u", "trun_01", "0" * 27, "0 "])
def test_what_begins_no_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        ids.span(ids.RUN, text)


@given(st.integers(1, ids.MAX_TASK_RUNS - 1))
def test_a_task_run_s_id_tells_its_run_and_ordinal(ordinal: int) -> None:
    run = ids.new_id()
    task_run = ids.task_run_id(run, ordinal)
    assert (ids.run_id_of(task_run), ids.ordinal_of(task_run)) == (run, ordinal)
    assert run < task_run


@pytest.mark.parametrize("ordinal", [0, -1, ids.MAX_TASK_RUNS])
def test_ordinals_beyond_their_bits_are_refused(ordinal: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        ids.task_run_id(ids.new_id(), ordinal)


@given(UUIDS)
def test_a_shown_id_can_be_read(value: UUID) -> None:
    shown = ids.show(ids.RUN, value)
    assert len(shown) == len("prun_") + 26
    assert ids.read(ids.RUN, shown) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prun_",
        "trun_00000000000000000000000001",
        "prun_0000000000000000000000000",
        "prun_000000000000000000000000001",
        "prun_0000000000000000000000000i",
        "prun_0000000000000000000000000U",
        "prun_80000000000000000000000000",
        "prun-00000000000000000000000001",
        "01a1fb3c-8078-70df-9c45-a03706000000",
        "prun_\0",
        "prun_" + "0" * 10_000,
    ],
)
def test_a_text_that_is_no_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        ids.read(ids.RUN, text)


@given(st.text())
def test_no_text_makes_reading_an_id_fail_otherwise(text: str) -> None:
    with pytest.raises(NotFound):
        ids.read(ids.RUN, "prun_" + text + "!")


@pytest.mark.parametrize("name", ["a", "A-Z_~.:@9", "x" * 200])
def test_names_of_the_allowed_characters_are_taken(name: str) -> None:
    assert ids.check_name(name, "task") == name


@pytest.mark.parametrize("name", ["", "x" * 201, "a b", "a/b", "é", "a\n", "a\0", "a;b", None, 7, ["a"]])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(InvalidId, match="is not a valid id"):
        ids.check_name(name, "task")  # type: ignore[arg-type]
