"""Lines of the log for people at a terminal."""

from __future__ import annotations

import io
import json
import logging
import re
from typing import Any

import pytest

from pipeweave import settings
from pipeweave.log_lines import JsonLines
from pipeweave.terminal_lines import TerminalLines, formatter

TIME = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def line(message: str = "said", *, level: str = "INFO", is_coloured: bool = False, **extra: Any) -> str:
    record = logging.makeLogRecord({"msg": message, "name": "shop", "levelname": level, **extra})
    shown = TerminalLines(is_coloured=is_coloured).format(record)
    assert TIME.match(shown)
    return TIME.sub("", shown)


def test_a_line_says_the_level_the_message_and_then_its_members() -> None:
    assert line("worker.ready", tasks=3, services=["a", "b"]) == "info    worker.ready tasks=3 services=a, b"


def test_ids_that_serve_machines_are_left_out_and_the_run_comes_last() -> None:
    ids = {"tenant": "acme", "trace_id": "0af7", "pipeline_id": "nightly", "task_id": "charge"}
    step = {"step_id": "charge_2", "map_index": 3, "run_id": "prun_1", "task_run_id": "trun_1"}
    assert line("task_run.failed", **ids, **step) == "info    task_run.failed step=charge_2[3] prun_1"


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[2J\x1b]0;title\x07", "?[2J?]0;title?"),
        ("one\ntwo\r\nthree", "one two three"),
        ("a\u202eb", "a?b"),
    ],
)
def test_a_text_can_neither_start_a_line_nor_command_the_terminal(hostile: str, shown: str) -> None:
    assert line(hostile, said=hostile) == f"info    {shown} said={shown}"
    assert shown in line("said", **{hostile: 1})


def test_a_traceback_stands_below_its_line() -> None:
    try:
        raise KeyError("\x1b[2J")
    except KeyError as error:
        first, *below = line(exc_info=(type(error), error, error.__traceback__)).splitlines()
    assert first == "info    said"
    assert below[0] == "    Traceback (most recent call last):"
    assert below[1].startswith("      File ")
    assert all(each.isprintable() for each in below)


def test_levels_have_colours_where_people_want_them() -> None:
    assert line(level="ERROR", is_coloured=True) == "\x1b[31merror  \x1b[0m said"
    assert line(level="ERROR") == "error   said"


@pytest.mark.parametrize(
    ("log_format", "stream", "kind"),
    [
        ("auto", Terminal(), TerminalLines),
        ("auto", io.StringIO(), JsonLines),
        ("json", Terminal(), JsonLines),
        ("text", io.StringIO(), TerminalLines),
    ],
)
def test_lines_are_for_people_on_a_terminal_and_as_the_setting_says(
    log_format: str, stream: io.StringIO, kind: type[logging.Formatter]
) -> None:
    assert isinstance(formatter(log_format, "plain", stream, is_coloured=True), kind)


def test_a_file_never_gets_colours() -> None:
    record = logging.makeLogRecord({"msg": "said", "levelname": "ERROR"})
    assert "\x1b" not in formatter("text", "plain", io.StringIO(), is_coloured=True).format(record)
    assert "\x1b" in formatter("text", "plain", Terminal(), is_coloured=True).format(record)
    assert json.loads(formatter("auto", "plain", io.StringIO(), is_coloured=True).format(record))


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_refused_as_other_programs_are_told(environ: dict[str, str], wanted: bool) -> None:
    assert settings.wants_colours(environ) == wanted


def test_the_format_of_another_program_is_not_taken_for_ours() -> None:
    assert settings.load({"LOG_FORMAT": "%(message)s"}).log_format == "auto"
    assert settings.load({"PIPEWEAVE_LOG_FORMAT": "json", "LOG_FORMAT": "%(message)s"}).log_format == "json"
