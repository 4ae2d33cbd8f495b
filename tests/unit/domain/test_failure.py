"""An exception as a value that can be stored."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import orjson
import pytest

from pipeweave.authoring.calling import encode
from pipeweave.authoring.raised import MAX_MESSAGE, MAX_TRACEBACK
from pipeweave.authoring.retry import classify_error
from pipeweave.errors import FieldError, InvalidParams, InvalidResult, TaskError, Unavailable
from pipeweave.orchestrator.domain.failure import Failure, failure_of


def raised(error: BaseException) -> Failure:
    """The failure of an error that was really raised."""
    try:
        raise error
    except BaseException as caught:
        return failure_of(caught)


class CardDeclined(Exception):
    """An error of a user's own."""


def test_a_plain_exception_keeps_its_type_message_and_traceback() -> None:
    failure = raised(ValueError("boom"))
    assert (failure.code, failure.type, failure.message) == ("ValueError", "ValueError", "boom")
    assert failure.retryable
    assert failure.traceback is not None
    assert "in raised" in failure.traceback


def test_an_exception_of_a_module_is_named_with_it() -> None:
    failure = raised(CardDeclined("no"))
    assert (failure.code, failure.type) == ("CardDeclined", f"{__name__}.CardDeclined")


def test_an_exception_without_a_text_is_called_by_its_name() -> None:
    assert raised(MemoryError()).message == "MemoryError"


def test_a_task_error_says_itself_what_it_is() -> None:
    failure = raised(TaskError("declined", code="CARD_DECLINED", retryable=False, details={"card": [1]}))
    assert (failure.code, failure.message) == ("CARD_DECLINED", "declined")
    assert (failure.retryable, failure.details) == (False, {"card": [1]})


@pytest.mark.parametrize("details", [object(), {"x": object()}, {b"1"}, "nul \0"])
def test_details_that_are_not_json_are_shown_as_text(details: Any) -> None:
    shown = raised(TaskError("x", details=details)).details
    assert isinstance(shown, str)
    assert "\0" not in shown


def test_invalid_params_and_results_are_not_retryable_and_have_no_traceback() -> None:
    error = InvalidParams("wrong", errors=[FieldError("count", "is no number", "int_parsing")])
    failure = raised(error)
    assert (failure.code, failure.retryable, failure.traceback) == ("INVALID_PARAMS", False, None)
    assert failure.details == [{"field": "count", "message": "is no number", "code": "int_parsing"}]
    assert raised(InvalidResult("no")).details is None


def test_an_error_of_ours_that_may_pass_is_retryable() -> None:
    failure = raised(Unavailable("away"))
    assert (failure.code, failure.retryable) == ("UNAVAILABLE", True)


@pytest.mark.parametrize("text", ["nul \0 in it", "lone \ud800 in it", "é" * 100_000, "\ud83d" * 10])
def test_every_text_can_be_stored(text: str) -> None:
    failure = raised(ValueError(text))
    assert len(failure.message) <= MAX_MESSAGE
    stored = orjson.dumps(failure.to_json()).decode()
    assert "\\u0000" not in stored


def test_a_long_traceback_keeps_its_end() -> None:
    def deeper(left: int) -> None:
        if left:
            return deeper_still(left)
        raise ValueError("at the bottom")

    def deeper_still(left: int) -> None:
        return deeper(left - 1)

    try:
        deeper(400)
    except ValueError as error:
        failure = failure_of(error)
    assert failure.traceback is not None
    assert len(failure.traceback) <= MAX_TRACEBACK + 1
    assert failure.traceback.rstrip().endswith("ValueError: at the bottom")


def test_absent_parts_are_left_out_of_what_is_stored() -> None:
    stored = Failure("X", "x", "ValueError", False).to_json()
    assert stored == {"code": "X", "message": "x", "type": "ValueError", "retryable": False}


def test_an_exception_whose_text_cannot_be_made_is_still_a_failure() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    failure = raised(Broken())
    assert (failure.code, failure.message) == ("Broken", "Broken")


@pytest.mark.parametrize(
    ("code", "kept"), [("", "TASK_ERROR"), (404, "404"), ("a\0b", "a\\0b"), ("x" * 300, "x" * 200)]
)
def test_any_error_code_of_a_user_can_be_stored(code: Any, kept: str) -> None:
    assert raised(TaskError("x", code=code)).code == kept


def test_details_that_cannot_even_be_shown_are_left_empty() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert raised(TaskError("x", details=Broken())).details == ""


@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"),
        CardDeclined(),
        TaskError("no", code="NO", retryable=False),
        TaskError("maybe"),
        TaskError("nameless", code=""),
        TaskError("long", code="a\0b" * 100),
        InvalidParams("wrong"),
        Unavailable("later"),
    ],
)
def test_a_local_run_judges_an_error_as_a_worker_does(error: Exception) -> None:
    failure = failure_of(error)
    assert classify_error(error) == (failure.code, failure.retryable)


@dataclasses.dataclass
class Row:
    """Details as a user may give them: orjson writes them, PostgreSQL refuses them."""

    raw: str


class Colour(enum.Enum):
    """The same."""

    RED = "red \0"


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else 1


@pytest.mark.parametrize(
    "details", [Row("nul \0"), {"row": Row("nul \0")}, Colour.RED, nested(252), {"a": "y" * 1_000_000}]
)
def test_details_that_cannot_be_stored_are_shown_as_text(details: Any) -> None:
    shown = raised(TaskError("x", details=details)).details
    assert isinstance(shown, str)
    assert "\0" not in shown
    assert len(shown) <= MAX_MESSAGE


@pytest.mark.parametrize("key", ["caf\udce9.txt", "nul \0"])
def test_the_path_of_what_is_wrong_can_be_stored(key: str) -> None:
    with pytest.raises(InvalidResult) as refused:
        encode({key: object()})
    stored = orjson.dumps(raised(refused.value).to_json()).decode()
    assert "\\u0000" not in stored


class Ends:
    """Asked anything, it ends the process."""

    def __str__(self) -> str:
        raise SystemExit(1)

    def __bool__(self) -> bool:
        raise SystemExit(1)


class Ending(Ends, Exception):
    """The same as an error."""


def test_no_exception_ends_the_process_that_asks_it() -> None:
    assert raised(Ending()).message == "Ending"
    error = TaskError("x", code=Ends(), retryable=Ends())  # type: ignore[arg-type]
    assert (raised(error).code, raised(error).retryable) == ("TASK_ERROR", True)
    assert classify_error(error) == ("TASK_ERROR", True)
