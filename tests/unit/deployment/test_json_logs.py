"""Lines of the log as JSON."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.log_lines import DOCUMENT_NAMES, MOST_OF_A_TEXT, JsonLines, plainly_named
from pipeweave.orchestrator.deployment import json_logs
from pipeweave.settings import Settings


def line(message: str = "said", *args: object, **extra: Any) -> dict[str, Any]:
    record = logging.makeLogRecord(
        {"msg": message, "args": args, "name": "shop", "levelname": "INFO", **extra}
    )
    shown = json.loads(JsonLines().format(record))
    assert isinstance(shown, dict)
    return shown


class Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"a": (1, 2)}, {"a": [1, 2]}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"raw", "b'raw'"),
        (Unspeakable(), "<Unspeakable>"),
        (math.nan, None),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (2**70, str(2**70)),
        ("\ud800", "?"),
    ],
)
def test_a_value_that_json_cannot_hold_is_text(value: object, shown: object) -> None:
    assert line(value=value)["value"] == shown


def test_a_value_that_holds_itself_is_text() -> None:
    value: list[Any] = []
    value.append(value)
    assert line(value=value)["value"] == "[[...]]"


def test_a_member_named_as_one_of_the_line_s_own_is_renamed() -> None:
    shown = line(level="gold", time=3)
    assert (shown["level"], shown["extra_level"], shown["extra_time"]) == ("info", "gold", 3)


def test_a_line_is_bounded() -> None:
    text = "x" * 10_000_000
    shown = line(text, body=text, rows=[text])
    assert [len(shown[each]) for each in ("message", "body", "rows")] == [MOST_OF_A_TEXT] * 3


def test_an_exception_has_its_type_and_traceback() -> None:
    try:
        raise KeyError("config")
    except KeyError as error:
        shown = line(exc_info=(type(error), error, error.__traceback__))
    assert shown["exception_type"] == "KeyError"
    assert shown["exception"].endswith("KeyError: 'config'")


@pytest.mark.parametrize(
    "extra",
    [{"\ud800": "\ud800"}, {"n": math.nan, "text": "\ud800"}, {f"k{at}": "x" * 99 for at in range(9_999)}],
)
def test_a_line_with_hostile_extra_is_strict_json(extra: dict[str, Any]) -> None:
    record = logging.makeLogRecord({"msg": "said", **extra})
    text = JsonLines().format(record)
    assert orjson.loads(text.encode())["message"] == "said"
    assert len(text) < 2 * MOST_OF_A_TEXT


def test_a_message_whose_arguments_do_not_fit_is_logged_with_them() -> None:
    assert line("%d files", "no")["message"].startswith("%d files ('no',) (not formatted: TypeError: ")
    assert line("%s", Unspeakable())["message"].endswith("(not formatted: RuntimeError: )")


@pytest.fixture
def levels() -> Iterator[None]:
    """Puts the levels of loggers back that a test changes."""
    names = ("celery.app.trace", "celery.worker.strategy", "kombu", "amqp", "botocore", "shop.tasks")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
def test_single_loggers_have_levels_of_their_own() -> None:
    levels = ("shop.tasks=detailed", "kombu=normal", "botocore=detailed")
    json_logs.configure(Settings(log_level="minimal", log_levels=levels))
    level = {
        name: logging.getLogger(name).getEffectiveLevel() for name in ("shop", "shop.tasks.send", "kombu")
    }
    assert level == {"shop": logging.WARNING, "shop.tasks.send": logging.DEBUG, "kombu": logging.INFO}
    assert logging.getLogger("amqp").level == logging.WARNING
    assert logging.getLogger("botocore").level == logging.WARNING, "its lines hold session tokens"


IDS = {
    "tenant": "acme",
    "pipeline_id": "nightly",
    "run_id": "prun_1",
    "trace_id": "0af7",
    "task_run_id": "trun_1",
    "task_id": "charge",
    "step_id": "charge_2",
    "attempt": 1,
    "map_index": 3,
}
BY_THE_DOCUMENTS = {
    "tenant": "acme",
    "pipelineId": "nightly",
    "dagId": "nightly",
    "runId": "prun_1",
    "trace_id": "0af7",
    "taskRunId": "trun_1",
    "taskId": "charge",
    "stepId": "charge_2",
    "attempt": 1,
    "mapIndex": 3,
}


def named(names: str, **extra: Any) -> dict[str, Any]:
    """The members of a line beside its own ones."""
    record = logging.makeLogRecord({"msg": "said", "name": "shop", "levelname": "INFO", **extra})
    shown = json.loads(JsonLines(names).format(record))
    return {name: value for name, value in shown.items() if name not in line()}


def test_ids_have_plain_names_or_those_of_the_documents_or_both() -> None:
    assert named("plain", **IDS) == IDS
    assert named("documents", **IDS) == BY_THE_DOCUMENTS
    assert named("both", **IDS) == IDS | BY_THE_DOCUMENTS


def test_a_member_that_the_caller_named_like_an_id_of_the_documents_is_the_caller_s() -> None:
    assert named("documents", run_id="prun_1", runId="mine") == {"run_id": "prun_1", "runId": "mine"}


@given(
    st.dictionaries(st.sampled_from(["tenant", "said_by", *DOCUMENT_NAMES]), st.text("ab", min_size=1)),
    st.sampled_from(["plain", "documents", "both"]),
)
def test_a_line_is_read_by_its_plain_names_whichever_it_was_written_with(
    ids: dict[str, str], names: str
) -> None:
    assert plainly_named(named(names, **ids)) == ids


@pytest.mark.usefixtures("levels")
def test_the_setting_names_the_ids_of_every_line(capsys: pytest.CaptureFixture[str]) -> None:
    json_logs.configure(Settings(log_names="documents"))
    logging.getLogger("shop").info("said", extra={"run_id": "prun_1"})
    assert json.loads(capsys.readouterr().err)["runId"] == "prun_1"
