"""Read the lines of the logs of `up`: PipeWeave's JSON, and those of PostgreSQL, Valkey and Flower."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from pipeweave.log_lines import plainly_named

# 2026-11-22 15:04:05.123 UTC [812] LOG:  checkpoint starting
_POSTGRES = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (?:UTC|GMT) \[\d+\][^:]*? ([A-Z]+\d?): +(.*)", re.S
)
# 812:M 22 Nov 2026 15:04:05.123 * Ready to accept connections
_VALKEY = re.compile(r"\d+:[A-Z] (\d\d \w{3} \d{4} \d\d:\d\d:\d\d\.\d{3}) ([.*#-]) (.*)", re.S)
_VALKEY_LEVELS = {".": "debug", "-": "info", "*": "info", "#": "warning"}
_POSTGRES_LEVELS = {"WARNING": "warning", "ERROR": "error", "FATAL": "error", "PANIC": "error"}
# [I 261122 15:04:05 command:177] Visit me at http://127.0.0.1:5555
_FLOWER = re.compile(r"\[([DIWEC]) (\d{6} \d\d:\d\d:\d\d) [^\]]*\] (.*)", re.S)
_FLOWER_LEVELS = {"D": "debug", "I": "info", "W": "warning", "E": "error", "C": "critical"}
_OWN = ("time", "level", "logger", "message")


@dataclass(frozen=True, slots=True)
class ProcessLogLine:
    """One line of a log.

    Args:
        text: the line as it was written.
        time: when it was written; None if the line does not say so.
        level: debug, info, warning, error or critical; None if the line does not say so.
        message: what it says.
        fields: further members of a JSON line, such as `run_id`, by their plain names.
    """

    text: str
    time: datetime | None = None
    level: str | None = None
    message: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def parse(text: str) -> ProcessLogLine:
    """Read one line of any process."""
    if text.startswith("{") and (line := _json(text)):
        return line
    if match := _POSTGRES.match(text):
        time = datetime.fromisoformat(match[1]).replace(tzinfo=UTC)
        return ProcessLogLine(text, time, _POSTGRES_LEVELS.get(match[2], "info"), match[3])
    if match := _VALKEY.match(text):
        return ProcessLogLine(
            text, _local_time(match[1], "%d %b %Y %H:%M:%S.%f"), _VALKEY_LEVELS[match[2]], match[3]
        )
    if match := _FLOWER.match(text):
        written = _local_time(match[2], "%y%m%d %H:%M:%S")
        return ProcessLogLine(text, written, _FLOWER_LEVELS[match[1]], match[3])
    return ProcessLogLine(text, message=text)


def message_of(text: str) -> str:
    """What a line says, without what is for machines."""
    return parse(text).message.strip()


def _json(text: str) -> ProcessLogLine | None:
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict) or "message" not in document:
        return None
    fields = plainly_named({name: value for name, value in document.items() if name not in _OWN})
    return ProcessLogLine(
        text, _iso(document.get("time")), str(document.get("level", "info")), str(document["message"]), fields
    )


def _iso(text: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _local_time(text: str, form: str) -> datetime | None:
    """Valkey and Flower write the local time of their process."""
    try:
        return datetime.strptime(text, form).astimezone(UTC)
    except ValueError:
        return None
