"""What commands print: numbers to the right, no control characters, a unit that suits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pipeweave.cli.support.rendering import seconds, show_fields, show_table, text, took, when


def test_numbers_stand_to_the_right_and_words_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "rows", "share"), [["a", "1,000", "7 %"], ["bcd", "12", None]])
    assert capsys.readouterr().out == "NAME   ROWS  SHARE\na     1,000    7 %\nbcd      12      -\n"


def test_a_column_of_nothing_stays_to_the_left(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("name", "address"), [["a", None]])
    assert capsys.readouterr().out == "NAME  ADDRESS\na     -\n"


def test_only_fields_with_a_value_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields([("run", "x"), ("pipeline", None), ("status", "failed")])
    assert capsys.readouterr().out == "run     x\nstatus  failed\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("\x1b[31mred\x07", "?[31mred?"),
        ("‮turned", "?turned"),
        ("", "-"),
        (None, "-"),
        ([], "-"),
        (["a", "b"], "a, b"),
        (0, "0"),
        (1234.56, "1,234.6"),
    ],
)
def test_text_is_one_line_that_cannot_steer_a_terminal(value: object, shown: str) -> None:
    assert text(value) == shown


@pytest.mark.parametrize(
    ("duration", "shown"),
    [
        (-0.1, "0 ms"),
        (0.0123, "12 ms"),
        (1, "1.0 s"),
        (99.94, "99.9 s"),
        (100, "1 min 40 s"),
        (3_661, "1 h 1 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_a_duration_has_the_unit_that_suits_it(duration: float, shown: str) -> None:
    assert seconds(duration) == shown


def test_the_duration_of_open_work_ends_now() -> None:
    now = datetime(2026, 11, 20, 12, 0, 5, tzinfo=UTC)
    assert took("2026-11-20T12:00:00Z", None, now) == "5.0 s"
    assert took("2026-11-20T12:00:00Z", "2026-11-20T12:00:01.5Z", now) == "1.5 s"
    assert took(None, None) == "-"


def test_times_are_shown_in_utc() -> None:
    assert when("2026-11-20T23:30:00+02:00") == "2026-11-20 21:30:00"
    assert when(None) == "-"
