"""Tables on a terminal: nothing is cut, whatever the width; what gives way, gives way in a fixed order."""

from __future__ import annotations

import re
from collections.abc import Callable

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.cli.support import rendering
from pipeweave.cli.support.tables import Column, fold, lay_out, letters
from pipeweave.ids import RUN, new_id, show

RUN_ID = show(RUN, new_id())
RUNS = [
    Column("run"),
    Column("pipeline"),
    Column("version", drop=2),
    Column("status"),
    rendering.moment("created (UTC)"),
    Column("took", drop=1),
]
ROW = [RUN_ID, "nightly-report", "12", "completed", "2026-11-20 12:00:00", "568 ms"]

Shown = Callable[..., str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Print a table as on a terminal of this many columns, without colours."""
    monkeypatch.setattr(rendering, "is_terminal", lambda: True)

    def show(width: int, columns: list[Column], *rows: list[str]) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        rendering.show_table(columns, rows)
        return click.unstyle(capsys.readouterr().out)

    return show


def test_a_table_that_fits_is_shown_as_it_is(shown: Shown) -> None:
    head, row = shown(120, RUNS, ROW).splitlines()
    assert head.split() == ["RUN", "PIPELINE", "VERSION", "STATUS", "CREATED", "(UTC)", "TOOK"]
    assert re.split(r"  +", row) == ROW


def test_eighty_columns_show_whole_ids_and_name_the_columns_left_out(shown: Shown) -> None:
    head, row, note = shown(80, RUNS, ROW).splitlines()
    assert re.split(r"  +", row) == [RUN_ID, "nightly-report", "completed", "11-20 12:00", "568 ms"]
    assert "VERSION" not in head
    assert note == "Not shown on this narrow terminal: VERSION"


def test_the_names_of_many_columns_that_are_left_out_continue_below(shown: Shown) -> None:
    columns = [Column("task"), *(Column(f"column number {number}", drop=number) for number in range(1, 9))]
    _, _, *note = shown(60, columns, ["webhook.hand_off", *["a rather long text"] * 8]).splitlines()
    assert all(len(line) <= 60 for line in note)
    assert len(note) > 1
    assert " ".join(note).endswith("COLUMN NUMBER 8")


def test_where_not_even_the_needed_columns_fit_each_row_is_a_block_with_everything(shown: Shown) -> None:
    out = shown(40, RUNS, ROW, ROW)
    first, second = out.split("\n\n")
    assert [re.split(r"  +", line)[-1] for line in first.splitlines()] == ROW
    assert second.strip() == first.strip()


def test_texts_continue_below_at_spaces(shown: Shown) -> None:
    text = "the bank did not answer within ten seconds and the order was not charged at all"
    lines = shown(60, [Column("task"), Column("message", wraps=True)], ["charge", text]).splitlines()
    assert all(len(line) <= 60 for line in lines)
    assert " ".join(" ".join(lines[1:]).split()) == f"charge {text}"


def test_numbers_stand_to_the_right_under_their_heading(shown: Shown) -> None:
    assert shown(80, [Column("name"), Column("rows")], ["a", "1,000"], ["b", "12"]) == (
        "NAME   ROWS\na     1,000\nb        12\n"
    )


def test_wide_letters_take_two_columns() -> None:
    assert (letters("abc"), letters("注文"), letters("e\u0301")) == (3, 4, 1)


WORDS = st.lists(st.text("abcdefgh-_", min_size=1, max_size=40), min_size=1, max_size=6).map(" ".join)


@given(
    st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=4),
    st.integers(min_value=10, max_value=200),
)
def test_a_layout_fits_its_terminal_and_holds_every_word(rows: list[tuple[str, ...]], width: int) -> None:
    columns = [Column("id"), Column("text", wraps=True), Column("more", drop=1)]
    layout = lay_out(columns, rows, width)
    if layout is None:
        return
    assert sum(layout.widths) + 2 * (len(layout.widths) - 1) <= width
    assert {0, 1} <= set(layout.shown)
    for row in rows:
        for index, size in zip(layout.shown, layout.widths, strict=True):
            lines = fold(row[index], size) if columns[index].wraps else [row[index]]
            assert max(map(len, lines)) <= size
            assert " ".join(lines) == row[index]


def test_values_that_nobody_copies_may_continue_inside_a_word(shown: Shown) -> None:
    columns = [Column("setting"), Column("value", wraps=True, breaks=True)]
    lines = shown(40, columns, ["DATABASE_URL", "postgresql://pipeweave:***@127.0.0.1:18652/pipeweave"])
    head, *rest = lines.splitlines()
    assert head.split() == ["SETTING", "VALUE"]
    assert all(len(line) <= 40 for line in rest)
    assert (
        "".join(line.split()[-1] for line in rest) == "postgresql://pipeweave:***@127.0.0.1:18652/pipeweave"
    )
