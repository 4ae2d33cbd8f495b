"""Read the steps that wait: for a time, a signal, or a person's decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pipeweave.durations import DURATION_EXPECTED, MAX_MS, milliseconds
from pipeweave.field_errors import FieldErrors
from pipeweave.schema import validate_schema
from pipeweave.spec.document_durations import read_duration
from pipeweave.spec.document_expressions import ExpressionReader
from pipeweave.spec.document_rules import read_flag
from pipeweave.spec.references import json_type
from pipeweave.spec.wait_steps import (
    DECISION_KEYS,
    DEFAULT_WAIT_MS,
    MAX_ASSIGNEES,
    MAX_NAMES,
    NO_DEFAULT,
    Approval,
    SignalWait,
    Sleep,
)

MAX_NAME = 200
MAX_TITLE = 1_000
MAX_OPTIONS = 50
MAX_FORM_FIELDS = 100
_SIGNAL_KEYS = ("name", "names", "timeout", "timeoutMs", "default")
_APPROVAL_KEYS = (
    *("title", "assignees", "needs", "options", "form", "context", "timeout", "timeoutMs", "default"),
    *("onReject", "fourEyes"),
)
# The number of people is called so in Python, where `needs` are the steps before.
_WORDS = {"votes": "needs"}
_COMPLETE, _FAIL = "complete", "fail"


@dataclass(frozen=True, slots=True)
class WaitReader:
    """Reads the waiting steps of one document.

    Args:
        mistakes: where mistakes go.
        expressions: reads the expressions in them.
    """

    mistakes: FieldErrors
    expressions: ExpressionReader

    def sleep(self, written: Any, path: str) -> Sleep:
        """Read `sleep`: seconds, a duration, or a text with an expression."""
        if _is_template(written):
            self.expressions.value(written, path)
            return Sleep(seconds=written)
        ms = milliseconds(written)
        if ms is None:
            problem = f"is {written!r}: use {DURATION_EXPECTED}, or an expression in ${{…}}"[:500]
            self.mistakes.wrong(path, problem, "invalid_value", DURATION_EXPECTED)
        return Sleep(ms=ms or 1)

    def sleep_ms(self, written: Any, path: str) -> Sleep:
        """Read `sleepMs` of a normalised document."""
        if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= MAX_MS:
            expected = f"a whole number from 1 to {MAX_MS}"
            self.mistakes.wrong(path, f"must be {expected}, not {written!r}"[:500], "invalid_value", expected)
            return Sleep(ms=1)
        return Sleep(ms=written)

    def sleep_until(self, written: Any, path: str) -> Sleep:
        """Read `sleepUntil`: a time with its zone, or a text with an expression."""
        if _is_template(written):
            self.expressions.value(written, path)
        elif not _is_time(written):
            shown = written if isinstance(written, str) else json_type(written)
            problem = (
                f"must be a time with its zone such as 2030-01-31T08:00:00Z, or an expression, not {shown!r}"
            )
            self.mistakes.wrong(path, problem[:500], "invalid_value")
        return Sleep(until=str(written))

    def signal(self, written: Any, path: str) -> SignalWait:
        """Read `signal`: a name, a list of names, or an object."""
        if isinstance(written, (str, list, tuple)):
            return SignalWait(self._names(written, path))
        if not isinstance(written, Mapping):
            problem = f"must be a name, a list of names or an object, not {json_type(written)}"
            self.mistakes.wrong(path, problem, "invalid_type", "object")
            return SignalWait(())
        self.mistakes.unknown_keys(written, _SIGNAL_KEYS, path)
        if written.get("name") is not None and written.get("names") is not None:
            problem = "cannot be given together with `name`: leave one of the two out"
            self.mistakes.wrong(f"{path}.names", problem, "conflict")
        key = "name" if written.get("name") is not None else "names"
        names = self._names(written.get(key), f"{path}.{key}")
        return SignalWait(names, *self._end(written, path))

    def _names(self, written: Any, path: str) -> tuple[str, ...]:
        if written in ([], ()):
            self.mistakes.wrong(path, "must name a signal", "invalid_value")
        listed = [written] if isinstance(written, str) else written
        return self._texts(listed, path, "signals", MAX_NAMES, MAX_NAME)

    def _end(self, written: Mapping[str, Any], path: str) -> tuple[int, Any]:
        """How long a step waits (ms), and its output if the time is over."""
        timeout_ms = read_duration(self.mistakes, written, "timeout", path)
        self.expressions.value(written.get("default"), f"{path}.default")
        return timeout_ms or DEFAULT_WAIT_MS, written.get("default", NO_DEFAULT)

    def approval(self, written: Any, path: str) -> Approval:
        """Read `approval`."""
        if not isinstance(written, Mapping):
            problem = f"must be an object with a title, not {json_type(written)}"
            self.mistakes.wrong(path, problem, "invalid_type", "object")
            return Approval("")
        self.mistakes.unknown_keys(written, _APPROVAL_KEYS, path, _WORDS)
        self.expressions.value(written.get("context"), f"{path}.context")
        timeout_ms, default = self._end(written, path)
        return Approval(
            title=self._title(written.get("title"), f"{path}.title"),
            assignees=self._optional_texts(written, "assignees", path, MAX_ASSIGNEES),
            needs=self._needs(written.get("needs"), f"{path}.needs"),
            options=self._options(written, path),
            form=self._form(written.get("form"), f"{path}.form"),
            context=written.get("context"),
            timeout_ms=timeout_ms,
            default=default,
            fails_when_rejected=self._fails(written.get("onReject"), f"{path}.onReject"),
            four_eyes=read_flag(self.mistakes, written, "fourEyes", path),
        )

    def _title(self, title: Any, path: str) -> str:
        if not isinstance(title, str) or not 1 <= len(title) <= MAX_TITLE:
            problem = "is required" if title is None else f"must be a text of 1 to {MAX_TITLE} characters"
            self.mistakes.wrong(path, problem, "missing" if title is None else "invalid_value", "string")
            return ""
        self.expressions.value(title, path)
        return title

    def _needs(self, needs: Any, path: str) -> int:
        if needs is None:
            return 1
        if isinstance(needs, bool) or not isinstance(needs, int) or not 1 <= needs <= MAX_ASSIGNEES:
            expected = f"a whole number from 1 to {MAX_ASSIGNEES}"
            problem = f"must be {expected}, the number of people who must say yes, not {needs!r}"[:500]
            self.mistakes.wrong(path, problem, "invalid_value", expected)
            return 1
        return needs

    def _options(self, written: Mapping[str, Any], path: str) -> tuple[str, ...]:
        options = self._optional_texts(written, "options", path, MAX_OPTIONS)
        if len(options) == 1:
            self.mistakes.wrong(f"{path}.options", "must be two choices or more", "invalid_value")
        return options

    def _optional_texts(self, written: Mapping[str, Any], key: str, path: str, most: int) -> tuple[str, ...]:
        listed = written.get(key)
        return () if listed is None else self._texts(listed, f"{path}.{key}", key, most, MAX_NAME)

    def _texts(self, listed: Any, path: str, what: str, most: int, longest: int) -> tuple[str, ...]:
        """Read a list of different texts, which may hold expressions."""
        if not isinstance(listed, (list, tuple)):
            problem = "is required" if listed is None else f"must be a list of texts, not {json_type(listed)}"
            self.mistakes.wrong(path, problem, "missing" if listed is None else "invalid_type", "array")
            return ()
        if len(listed) > most:
            self.mistakes.wrong(path, f"has {len(listed)} {what}, at most {most} are allowed", "too_large")
            return ()
        for place, each in enumerate(listed):
            if isinstance(each, str) and 1 <= len(each) <= longest:
                self.expressions.value(each, f"{path}[{place}]")
            else:
                problem = f"must be a text of 1 to {longest} characters"
                self.mistakes.wrong(f"{path}[{place}]", problem, "invalid_value", "string")
        return tuple(dict.fromkeys(each for each in listed if isinstance(each, str)))

    def _form(self, form: Any, path: str) -> Mapping[str, Any] | None:
        if form is None:
            return None
        faults = validate_schema(form)
        for fault in faults:
            place = f"{path}.{fault.field}" if fault.field else path
            self.mistakes.wrong(place, fault.message, fault.code, fault.expected)
        if faults:
            return None
        if len(form["fields"]) > MAX_FORM_FIELDS:
            problem = f"has {len(form['fields'])} fields, at most {MAX_FORM_FIELDS} are allowed"
            self.mistakes.wrong(f"{path}.fields", problem, "too_large")
        return dict(form)

    def _fails(self, written: Any, path: str) -> bool:
        if written not in (None, _COMPLETE, _FAIL):
            expected = f"{_COMPLETE} or {_FAIL}"
            self.mistakes.wrong(path, f"is {written!r}: use {expected}"[:500], "invalid_value", expected)
        return bool(written == _FAIL)


def check_default(mistakes: FieldErrors, approval: Approval, path: str) -> None:
    """Check that what an approval gives when its time is over looks like what people decide.

    Args:
        mistakes: where mistakes go.
        path: of the default in the document.
    """
    default = approval.default
    if not isinstance(default, Mapping):
        return
    mistakes.unknown_keys(default, DECISION_KEYS, path)
    choice, options = default.get("choice"), approval.options
    if not options or choice is None or any(_is_template(each) for each in (choice, *options)):
        return
    if choice not in options:
        near = mistakes.nearest(choice, options) if isinstance(choice, str) else None
        problem = f"is {choice!r}: use one of {', '.join(options)}"[:500]
        mistakes.wrong(f"{path}.choice", problem, "invalid_value", near)


def _is_template(written: Any) -> bool:
    return isinstance(written, str) and "${" in written


def _is_time(written: Any) -> bool:
    if not isinstance(written, str):
        return False
    try:
        time = datetime.fromisoformat(written)
    except ValueError:
        return False
    return time.tzinfo is not None
