"""Collect the mistakes of a document's graph, which name their steps for machines, too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.size_limits import MAX_EDGES
from pipeweave.spec.document_blocks import Entry
from pipeweave.spec.document_expressions import Written
from pipeweave.spec.engine_steps import Choice
from pipeweave.spec.graph_error import GraphError
from pipeweave.spec.pipeline_spec import StepSpec
from pipeweave.spec.references import json_type


class TooManyEdges(Exception):
    """Stops the reader at MAX_EDGES edges; the mistake itself is already in `errors`.

    Never leaves this room.
    """


@dataclass(slots=True)
class StepDraft:
    """A step without the predecessors that its references add.

    Args:
        entry: the step in the document.
        step: what it does, without `needs`.
        needs: its predecessors so far.
        names_needs: whether the document names them.
        written: its expressions.
        cases: of a choice: the first steps of each case so far.
    """

    entry: Entry
    step: StepSpec
    needs: set[str]
    names_needs: bool
    written: list[Written]
    cases: list[set[str]] = field(init=False)

    def __post_init__(self) -> None:
        decides = self.step.decides
        self.cases = [set(case.next) for case in decides.cases] if isinstance(decides, Choice) else []

    @property
    def id(self) -> str:
        return self.entry.id


class GraphMistakes(FieldErrors):
    """The mistakes of one list of steps, and the steps that it has.

    Args:
        outer: those of the steps that the list is written inside of, which a body may refer to, too; None for
            the steps of the pipeline itself.
        roots: what expressions in it may name beside the roots that every step has.

    Attributes:
        known: the place of each step in the list, by its id.
        outer: the ids of the steps around it.
        fields: the field of each step of the whole document, by its id.
        graph_errors: those mistakes that are in the graph.
        edges: how many edges the steps have so far.
    """

    def __init__(self, outer: GraphMistakes | None = None, roots: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.known: dict[str, int] = {}
        self.outer: frozenset[str] = frozenset()
        self.roots = roots
        self.fields: dict[str, str] = {}
        self.graph_errors: list[GraphError] = []
        self.edges = 0
        if outer is not None:
            self.errors, self.graph_errors, self.fields = outer.errors, outer.graph_errors, outer.fields
            self.outer = outer.outer | outer.known.keys()
            self.roots = outer.roots | roots

    def count(self, edges: int, entry: Entry) -> None:
        """Count edges to a step. Raises TooManyEdges."""
        self.edges += edges
        if self.edges > MAX_EDGES:
            why = f"gives the pipeline more than {MAX_EDGES} edges"
            self.wrong_graph(f"{entry.field}.needs", why, "TOO_MANY_STEPS", (entry.id,))
            raise TooManyEdges

    def unknown_step(self, at: str, step: Any, path: str) -> None:
        """Add the mistake that `path`, in the step `at`, names a step that is not there."""
        if not isinstance(step, str):
            self.wrong(path, f"must be the id of a step, not {json_type(step)}", "invalid_type", "string")
            return
        if step in self.fields and step not in self.known:
            where = "around this body" if step in self.outer else f"in a body, at {self.fields[step]}"
            self.wrong_graph(path, f"{step!r} is a step {where}", "UNKNOWN_STEP", (at, step))
            return
        near = self.nearest(step, [*self.known, *self.outer])
        hint = f"; did you mean {near!r}?" if near is not None else ""
        why = f"{step[:200]!r} is not a step{hint}"
        self.wrong_graph(path, why, "UNKNOWN_STEP", (at, step[:200]), near)

    def wrong_graph(
        self, path: str, message: str, code: str, steps: tuple[str, ...], expected: str | None = None
    ) -> None:
        """Add a mistake in the graph: a FieldError with its field, and a GraphError with its steps."""
        self.wrong(path, message, code.lower(), expected)
        self.graph_errors.append(GraphError(code, f"{path} {message}", steps))
