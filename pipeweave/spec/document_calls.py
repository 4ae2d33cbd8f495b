"""Read what a document says of errors and ends: `onError`, `errorHandlers`, `compensate` and `finally`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.spec.child_calls import MAX_ERROR_RULES, ChildCall, ErrorRule
from pipeweave.spec.child_steps import Body, ChildPipeline
from pipeweave.spec.document_children import ChildReader
from pipeweave.spec.document_expressions import (
    ALL_ROOTS,
    ERROR_ROOTS,
    ITEM_ROOTS,
    LOOP_ROOTS,
    ExpressionReader,
    Written,
    step_of,
)
from pipeweave.spec.document_graph import GraphMistakes
from pipeweave.spec.document_rules import read_flag
from pipeweave.spec.references import compile_value, json_type

_CALL_KEYS = ("pipeline", "params", "steps")
_RULE_KEYS = (*_CALL_KEYS, "handled")
# What is known at the moment at which a step fails.
_ROOTS_OF_CONDITIONS = ERROR_ROOTS | {"variables"}
_NOTHING = ChildCall(ChildPipeline(""))


@dataclass(frozen=True, slots=True)
class CallReader:
    """Reads the runs that one document starts when a step fails, and when a run ends.

    Args:
        mistakes: where mistakes go; it knows the steps of the document.
        expressions: reads the expressions in them.
        children: reads which pipeline they run.
    """

    mistakes: GraphMistakes
    expressions: ExpressionReader
    children: ChildReader

    def on_error(self, written: Any, path: str) -> ErrorRule | None:
        """Read `onError` of a step. A reference in it makes an edge, like one in `params`."""
        return None if written is None else self._rule(written, path)

    def compensate(self, written: Any, path: str) -> ChildCall | None:
        """Read `compensate` of a step. It runs after all steps, so it may refer to any of them."""
        return None if written is None else self._at_the_end(written, path)

    def at_the_end(self, written: Any, path: str) -> ChildCall | None:
        """Read `finally` of a pipeline."""
        return self.compensate(written, path)

    def error_rules(self, written: Any, path: str) -> tuple[ErrorRule, ...]:
        """Read `errorHandlers` of a pipeline. They may refer to any step: without output it gives null."""
        if written is None:
            return ()
        if not isinstance(written, (list, tuple)):
            self._wrong_kind(path, f"must be a list of error handlers, not {json_type(written)}", "array")
            return ()
        if len(written) > MAX_ERROR_RULES:
            problem = f"are {len(written)}, at most {MAX_ERROR_RULES} are allowed"
            self.mistakes.wrong(path, problem, "too_large")
            return ()
        return tuple(self._error_rule(each, f"{path}[{place}]") for place, each in enumerate(written))

    def _error_rule(self, written: Any, path: str) -> ErrorRule:
        first = len(self.expressions.written)
        condition = None
        if isinstance(written, Mapping) and "condition" in written:
            condition = self.expressions.condition(written["condition"], f"{path}.condition")
            self.expressions.allow(first, _ROOTS_OF_CONDITIONS)
            first = len(self.expressions.written)
            written = {key: each for key, each in written.items() if key != "condition"}
        rule = self._rule(written, path)
        self._check_steps(self.expressions.written[first:])
        return ErrorRule(rule.call, condition, rule.is_handled)

    def _rule(self, written: Any, path: str) -> ErrorRule:
        is_handled = True
        if isinstance(written, Mapping) and written.get("handled") is not None:
            is_handled = read_flag(self.mistakes, written, "handled", path)
        return ErrorRule(self._call(written, path, _RULE_KEYS, ERROR_ROOTS), None, is_handled)

    def _at_the_end(self, written: Any, path: str) -> ChildCall:
        first = len(self.expressions.written)
        call = self._call(written, path, _CALL_KEYS, frozenset())
        self._check_steps(self.expressions.written[first:])
        return call

    def _call(self, written: Any, path: str, keys: tuple[str, ...], roots: frozenset[str]) -> ChildCall:
        """Read what runs: the id of a pipeline, a list of steps, or an object.

        Args:
            roots: what it may name beside what every step may.
        """
        if isinstance(written, str):
            return ChildCall(self.children.pipeline(written, path))
        if isinstance(written, (list, tuple)):
            return ChildCall(self._body(written, path, roots))
        if not isinstance(written, Mapping):
            problem = (
                f"must be a list of steps, or an object such as {{pipeline: tell}}, not {json_type(written)}"
            )
            self._wrong_kind(path, problem, "object")
            return _NOTHING
        self.mistakes.unknown_keys(written, keys, path)
        if written.get("steps") is not None:
            for key in ("pipeline", "params"):
                if written.get(key) is not None:
                    self.mistakes.wrong(f"{path}.{key}", "cannot be given together with `steps`", "conflict")
            return ChildCall(self._body(written["steps"], f"{path}.steps", roots))
        params = written.get("params")
        if params is not None and not isinstance(params, Mapping):
            problem = f"must be an object of parameters by name, not {json_type(params)}"
            self._wrong_kind(f"{path}.params", problem, "object")
            params = None
        if params is not None:
            first = len(self.expressions.written)
            self.expressions.value(params, f"{path}.params")
            self.expressions.allow(first, ALL_ROOTS | roots)
        return ChildCall(self.children.pipeline(written.get("pipeline"), f"{path}.pipeline"), params)

    def _body(self, listed: Any, path: str, roots: frozenset[str]) -> Body:
        first = len(self.expressions.written)
        body = self.children.body(listed, path, roots)
        self.expressions.allow(first, ALL_ROOTS | roots)
        return body

    def _wrong_kind(self, path: str, problem: str, expected: str) -> None:
        self.mistakes.wrong(path, problem, "invalid_type", expected)

    def _check_steps(self, written: Iterable[Written]) -> None:
        """Check the steps that expressions name which make no edges."""
        # In a body, what is around it is there, too.
        known = self.mistakes.known.keys() | self.mistakes.outer
        without_value = (ITEM_ROOTS | LOOP_ROOTS) - self.mistakes.roots
        # Whoever reads a body looks at what it names.
        for each in (one for one in written if not one.is_inside):
            for path in each.expression.references:
                step = step_of(path)
                if path.root in without_value:
                    problem = f"${{{path.text}}} has no value here"
                    self.mistakes.wrong(each.field, problem, "invalid_reference")
                elif step is not None and step not in known:
                    near = self.mistakes.nearest(step, known)
                    hint = f"; did you mean {near!r}?" if near is not None else ""
                    problem = f"{step[:200]!r} is not a step{hint}"
                    self.mistakes.wrong(each.field, problem, "unknown_step", near)

    def check_conditions(self, rules: Iterable[ErrorRule], variables: Mapping[str, Any]) -> None:
        """Refuse conditions that need more than the error: nothing else is read when a step fails.

        Args:
            rules: of the pipeline.
            variables: of it, by name.
        """
        conditions = {f"errorHandlers[{place}].condition" for place, _ in enumerate(rules)}
        if not conditions or self.mistakes.errors:
            return
        of_input = {name for name, each in variables.items() if not compile_value(each).is_constant}
        for written in self.expressions.written:
            if written.field in conditions:
                self._check_condition(written, of_input)

    def _check_condition(self, written: Written, of_input: Collection[str]) -> None:
        if written.expression.uses_now:
            self.mistakes.wrong(written.field, "cannot ask for the time", "invalid_reference")
        for path in written.expression.references:
            key = path.segments[0].key if path.segments else None
            if path.root == "variables" and (key is None or key in of_input):
                problem = f"${{{path.text}}} is made of the input: a condition here takes constants alone"
                self.mistakes.wrong(written.field, problem, "invalid_reference")
