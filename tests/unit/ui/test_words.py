"""Texts as pages of the dashboard show them."""

from __future__ import annotations

import unicodedata

import pytest

from pipeweave.api.ui.words import compact, lines, sentence, unturned, uptime


@pytest.mark.parametrize("code", [*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
def test_a_control_that_turns_a_text_is_shown_and_turns_nothing(code: int) -> None:
    assert unturned(f"a{chr(code)}b") == f"a[U+{code:04X}]b"
    assert sentence({"message": f"a{chr(code)}b"}) == f"a[U+{code:04X}]b"


def test_no_other_character_is_changed() -> None:
    others = "".join(chr(code) for code in range(0x3000) if unicodedata.category(chr(code)) != "Cf")
    assert unturned(others) == others


def test_a_reason_and_a_value_show_such_a_control_too() -> None:
    assert lines("`a\u202eb` waits") == "<code>a[U+202E]b</code> waits"
    assert compact({"a\u202eb": "c\u2066d"}) == '{"a[U+202E]b": "c[U+2066]d"}'


@pytest.mark.parametrize(
    ("share", "shown"), [(1.0, "100 %"), (0.999999, "99.99 %"), (0.9, "90.00 %"), (0.0, "0.00 %")]
)
def test_an_uptime_is_never_rounded_up_to_all_of_the_time(share: float, shown: str) -> None:
    assert uptime(share) == shown
