"""Read the steps that the engine decides and that do not wait: choice, transform and gather."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.option_checks import MAX_CODE
from pipeweave.spec.document_expressions import ExpressionReader
from pipeweave.spec.engine_steps import Case, FailIf, Transform
from pipeweave.spec.references import json_type

MAX_CASES = 50
MAX_FAILURES = 50
_MAX_NAME = 200
_CASE_KEYS = ("condition", "name", "steps", "next")
_FAIL_KEYS = ("condition", "code", "message")
_CODE = re.compile(rf"[A-Za-z0-9_.:\-]{{1,{MAX_CODE}}}\Z")


@dataclass(frozen=True, slots=True)
class EngineStepReader:
    """Reads the engine's steps of one document.

    Args:
        mistakes: where mistakes go.
        expressions: reads the expressions in them.
    """

    mistakes: FieldErrors
    expressions: ExpressionReader

    def cases(self, written: Any, path: str) -> tuple[Case, ...]:
        """Read the cases of a choice; what they hold as `steps` is no part of them."""
        listed = self._list(written, path, "cases", MAX_CASES)
        cases = tuple(
            self._case(each, f"{path}[{place}]", place, len(listed)) for place, each in enumerate(listed)
        )
        if len(cases) == 1 and cases[0].condition is None and not self.mistakes.errors:
            problem = "is the only case: a choice needs a case with a condition"
            self.mistakes.wrong(f"{path}[0]", problem, "missing")
        return cases

    def _case(self, case: Any, path: str, place: int, count: int) -> Case:
        if not isinstance(case, Mapping):
            self.mistakes.wrong(path, f"must be a case, not {json_type(case)}", "invalid_type", "object")
            return Case(None, ())
        self.mistakes.unknown_keys(case, _CASE_KEYS, path)
        condition = self.expressions.condition(case.get("condition"), f"{path}.condition")
        if case.get("condition") is None and place < count - 1:
            problem = "is required: only the last case, the default, has none"
            self.mistakes.wrong(f"{path}.condition", problem, "missing")
        name = case.get("name")
        if name is not None and not (isinstance(name, str) and 1 <= len(name) <= _MAX_NAME):
            self.mistakes.wrong(
                f"{path}.name", f"must be a text of 1 to {_MAX_NAME} characters", "invalid_value"
            )
            name = None
        if case.get("steps") is not None and case.get("next") is not None:
            problem = "cannot be given together with `steps`: leave one of the two out"
            self.mistakes.wrong(f"{path}.next", problem, "conflict")
        elif case.get("steps") is None and case.get("next") is None:
            self.mistakes.wrong(f"{path}.steps", "is required: the steps of the branch, or []", "missing")
        return Case(condition, self._ids(case.get("next"), f"{path}.next"), name)

    def _ids(self, listed: Any, path: str) -> tuple[str, ...]:
        if listed is None:
            return ()
        if not isinstance(listed, (list, tuple)) or not all(isinstance(each, str) for each in listed):
            self.mistakes.wrong(path, "must be a list of step ids", "invalid_type", "array")
            return ()
        return tuple(dict.fromkeys(listed))

    def members(self, written: Any, path: str) -> tuple[str, ...]:
        """Read the members of a gather in a normalised document."""
        members = self._ids(written, path)
        if not members and not self.mistakes.errors:
            self.mistakes.wrong(path, "must name the steps of the block", "invalid_value")
        return members

    def transform(self, written: Any, path: str) -> Transform:
        """Read a transform: a value, or an object of `output` and `failIf` alone."""
        is_whole = isinstance(written, Mapping) and bool(written) and set(written) <= {"output", "failIf"}
        if not is_whole:
            self.expressions.value(written, path)
            return Transform(written)
        self.expressions.value(written.get("output"), f"{path}.output")
        listed = written.get("failIf")
        failures = () if listed is None or listed == [] else self._failures(listed, f"{path}.failIf")
        return Transform(written.get("output"), failures)

    def _failures(self, written: Any, path: str) -> tuple[FailIf, ...]:
        listed = self._list(written, path, "failures", MAX_FAILURES)
        read = [self._fail_if(each, f"{path}[{place}]") for place, each in enumerate(listed)]
        return tuple(each for each in read if each is not None)

    def _fail_if(self, written: Any, path: str) -> FailIf | None:
        if not isinstance(written, Mapping):
            problem = f"must be an object of condition, code and message, not {json_type(written)}"
            self.mistakes.wrong(path, problem, "invalid_type", "object")
            return None
        self.mistakes.unknown_keys(written, _FAIL_KEYS, path)
        condition = self.expressions.condition(written.get("condition"), f"{path}.condition")
        if written.get("condition") is None:
            self.mistakes.wrong(f"{path}.condition", "is required", "missing")
        code, message = written.get("code"), written.get("message")
        if not isinstance(code, str) or not _CODE.match(code):
            problem = f"must be an error code of 1 to {MAX_CODE} letters, digits, . _ : -, not {code!r}"[:500]
            self.mistakes.wrong(f"{path}.code", problem, "invalid_value")
        if not isinstance(message, str) or not message:
            self.mistakes.wrong(f"{path}.message", "must be a text", "invalid_type", "string")
        else:
            self.expressions.value(message, f"{path}.message")
        return FailIf(condition or "", str(code), str(message))

    def _list(self, written: Any, path: str, what: str, most: int) -> Sequence[Any]:
        if not isinstance(written, (list, tuple)) or not written:
            self.mistakes.wrong(path, f"must be a list of {what}", "invalid_type", "array")
            return ()
        if len(written) > most:
            self.mistakes.wrong(path, f"has {len(written)} {what}, at most {most} are allowed", "too_large")
            return ()
        return written
