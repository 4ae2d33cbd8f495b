"""The type hints of tasks are checked before the first call."""

from __future__ import annotations

import subprocess
import sys
import typing
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from pipeweave import pipeline, task
from pipeweave.authoring import check_hints, classify_error
from pipeweave.errors import InvalidTask
from pipeweave.testing import run_pipeline


class Odd:
    pass


class Old(typing.TypedDict):
    sku: str


class Model(BaseModel):
    sku: str


@dataclass
class Tree:
    children: list[Tree]


def odd(a: int, b: Odd, c: list[Odd]) -> None: ...


def unreadable(a: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def old(order: Old) -> None: ...


def right(a: str, b: list[int], c: Model, d: Tree, e: Any = None) -> None: ...


def test_every_hint_that_cannot_be_checked_is_told_with_its_place() -> None:
    with pytest.raises(InvalidTask) as refused:
        check_hints({"odd": odd, "unreadable": unreadable, "right": right})
    assert [each.field for each in refused.value.errors] == [
        "task 'odd', parameter 'b'",
        "task 'odd', parameter 'c'",
        "task 'unreadable'",
    ]
    assert all(f"({__file__}:" in each.message for each in refused.value.errors)
    assert "values cannot be checked against <class" in refused.value.detail
    assert refused.value.detail.endswith("(and 2 more)")


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes typing.TypedDict from Python 3.12 on")
def test_pydantics_own_advice_is_handed_on() -> None:
    with pytest.raises(InvalidTask, match=r"use `typing_extensions.TypedDict`"):
        check_hints({"old": old})


def test_right_hints_are_accepted() -> None:
    check_hints({"right": right})


def test_a_pipeline_with_a_wrong_hint_is_refused_before_its_first_step() -> None:
    called: list[int] = []

    @task(id="first")
    def first() -> int:
        called.append(1)
        return 1

    @pipeline(id="wrong")
    def wrong() -> None:
        task(id="odd-task")(odd)(first(), 2, [])  # type: ignore[arg-type]

    with pytest.raises(InvalidTask, match="'odd-task'"):
        run_pipeline(wrong)
    assert not called


def test_a_wrong_definition_is_not_retried() -> None:
    assert classify_error(InvalidTask("no")) == ("INVALID_TASK", False)


def test_plain_hints_are_checked_without_pydantic() -> None:
    code = (
        "import sys\nfrom pipeweave import pipeline, task\nfrom pipeweave.authoring import check_hints\n"
        "@task\ndef plain(a: str, b: int = 1, c: dict = None, *, d: list = ()) -> None: ...\n"
        "@pipeline\ndef daily(day: str, n: int = 3):\n    plain(day, n)\n"
        "assert daily.spec.input_schema\ncheck_hints({'plain': plain.fn})\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_hint_that_is_a_list_is_named_as_wrong() -> None:
    def listed(rows: [int]) -> None: ...  # type: ignore[valid-type]

    with pytest.raises(
        InvalidTask, match=r"task 'listed', parameter 'rows': values cannot be checked against"
    ):
        check_hints({"listed": listed})
