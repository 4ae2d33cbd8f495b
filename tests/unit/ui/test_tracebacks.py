"""A traceback in parts: own frames apart from those of libraries, with short paths."""

from __future__ import annotations

from pipeweave.api.ui.tracebacks import traced

TEXT = """Traceback (most recent call last):
  File "/srv/app/.venv/lib/python3.12/site-packages/requests/api.py", line 59, in request
    return session.request()
  File "/usr/lib/python3.12/json/decoder.py", line 3, in decode
    raise error
  File "/srv/app/shop/scoring/rules.py", line 88, in score
    charge(invoice)
NegativeAmount: -12.50"""


def test_frames_of_libraries_are_one_part_that_names_their_packages() -> None:
    found = traced({"traceback": TEXT})
    assert found is not None
    assert [each.kind for each in found.parts] == ["text", "library", "own", "text"]
    assert found.parts[1].of == "2 frames of requests"
    assert found.text == TEXT


def test_a_path_is_shown_by_its_end_alone() -> None:
    found = traced({"traceback": TEXT})
    assert found is not None
    assert found.parts[2].lines[0].short == '  File "…/shop/scoring/rules.py", line 88, in score'
    short = traced({"traceback": 'Traceback\n  File "work.py", line 1, in a\n    a()'})
    assert short is not None and short.parts[1].lines[0].short == '  File "work.py", line 1, in a'


def test_what_is_no_traceback_has_none() -> None:
    assert [traced(each) for each in (None, "text", {}, {"traceback": None}, {"traceback": " "})] == [
        None
    ] * 5
