"""Give the steps of a document the edges that references, branches and gathers add."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipeweave.spec.branches import Branches, Unreachable
from pipeweave.spec.document_expressions import ITEM_ROOTS, LOOP_ROOTS, ExpressionReader, Written, step_of
from pipeweave.spec.document_graph import GraphMistakes, StepDraft
from pipeweave.spec.engine_steps import Choice, Gather
from pipeweave.spec.expressions import Fault, Path
from pipeweave.spec.joins import ALL_DONE


@dataclass(frozen=True, slots=True)
class _Use:
    """That a step refers to another one, and where: in an expression, or in `needs`."""

    reader: StepDraft
    target: str
    written: Written | None = None
    path: Path | None = None

    @property
    def is_status(self) -> bool:
        return self.path is not None and self.path.root == "status"


class EdgeReader:
    """Adds edges to the drafts of one document.

    Args:
        mistakes: where mistakes go.
        expressions: which adds the mistakes of expressions.
        drafts: all steps, with the predecessors that they have without their references.
    """

    def __init__(
        self, mistakes: GraphMistakes, expressions: ExpressionReader, drafts: Sequence[StepDraft]
    ) -> None:
        self.mistakes = mistakes
        self.expressions = expressions
        self.drafts = drafts
        self.named = [each for each in drafts if each.id]
        self.by_id = {each.id: each for each in self.named}

    def read(self) -> None:
        """Add the edges. Raises TooManyEdges."""
        uses = [use for draft in self.drafts for use in self._uses(draft)]
        is_clear = len(self.by_id) == len(self.named)
        if is_clear and any(isinstance(each.step.decides, Choice) for each in self.named):
            self._with_branches(uses)
        else:
            for use in uses:
                self._add(use.target, use.reader)
        if is_clear:
            self._check_gathers()

    def _add(self, before: str, draft: StepDraft) -> None:
        if before not in draft.needs:
            draft.needs.add(before)
            self.mistakes.count(1, draft.entry)

    def _uses(self, draft: StepDraft) -> Iterator[_Use]:
        """The steps that a step refers to, each once for its value and once for its status."""
        seen: set[tuple[str, bool]] = set()
        for written in draft.written:
            for path in written.expression.references:
                step = self._step(path, written, draft)
                if step is not None and (step, path.root == "status") not in seen:
                    seen.add((step, path.root == "status"))
                    yield _Use(draft, step, written, path)

    def _step(self, path: Path, written: Written, draft: StepDraft) -> str | None:
        """The step that a path names; None if it names none, or one that it must not name."""
        shown, step = f"${{{path.text}}}", step_of(path)
        # The reader of a body has refused what has no value there.
        if not written.is_inside:
            self._check_root(path, written, draft)
            if step is None and path.root in ("status", "errors"):
                problem = f"{shown} names no step: write {path.root}.<step id>"
                self.mistakes.wrong(written.field, problem, "invalid_reference")
        if step is None or step in self.mistakes.outer:
            return None
        if step not in self.mistakes.known:
            if not written.is_inside:
                self.mistakes.unknown_step(draft.id, step, written.field)
        elif step == draft.id:
            whose = "output of the step around it" if written.is_inside else "step's own output"
            self.mistakes.wrong(written.field, f"{shown} is the {whose}", "invalid_reference")
        else:
            return step
        return None

    def _check_root(self, path: Path, written: Written, draft: StepDraft) -> None:
        if path.root in self.mistakes.roots:
            return
        shown = f"${{{path.text}}}"
        if path.root in ITEM_ROOTS and not written.has_item:
            where = "in a step without `map`"
            if draft.step.map is not None:
                where = "inside `map`" if ".map" in written.field else "outside of the params of a map"
            self.mistakes.wrong(written.field, f"{shown} has no value {where}", "invalid_reference")
        if path.root in LOOP_ROOTS and not written.has_loop:
            self.mistakes.wrong(
                written.field, f"{shown} has no value here: only in a loop", "invalid_reference"
            )

    def _with_branches(self, uses: Sequence[_Use]) -> None:
        crossing = [*self._enter_blocks(), *self._enter_cases()]
        self._refuse_always()
        cases = {each.id: each.cases for each in self.named if each.cases}
        always = {each.id for each in self.named if each.step.join == ALL_DONE}
        branches = Branches({each.id: frozenset(each.needs) for each in self.named}, cases, always)
        for use in (*crossing, *uses):
            try:
                for before, after in branches.edges(use.reader.id, use.target, is_status=use.is_status):
                    self._add(before, self.by_id[after])
            except Unreachable as refused:
                self._refuse(use, refused)

    def _refuse(self, use: _Use, refused: Unreachable) -> None:
        if use.written is None or use.path is None:
            self.mistakes.wrong(f"{use.reader.entry.field}.needs", refused.why, refused.code)
        else:
            self.expressions.fault(Fault(refused.why, use.path.column, refused.code), use.written)

    def _enter_blocks(self) -> Iterator[_Use]:
        """Let the first steps of the branches that choices hold follow their choice alone."""
        for draft in self.named:
            own = draft.entry.branches
            if not own or not self.drafts[own[-1][0]].id:
                continue
            place, number = own[-1]
            choice = self.drafts[place]
            inside = {each for each in draft.needs if self.by_id[each].entry.branches[: len(own)] == own}
            outside = draft.needs - inside - {choice.id}
            draft.needs = inside or {choice.id}
            if not inside and number < len(choice.cases):
                choice.cases[number].add(draft.id)
            yield from (_Use(draft, each) for each in sorted(outside))

    def _enter_cases(self) -> Iterator[_Use]:
        """Let the first steps of the branches that choices name follow their choices alone."""
        choices_of: dict[str, set[str]] = {}
        for choice in self.named:
            for number, first in enumerate(choice.cases):
                path = f"{choice.entry.field}.choice[{number}].next"
                for each in sorted(first):
                    if each not in self.mistakes.known:
                        self.mistakes.unknown_step(choice.id, each, path)
                    elif each == choice.id:
                        self.mistakes.wrong(path, "is the choice itself", "invalid_reference")
                    else:
                        choices_of.setdefault(each, set()).add(choice.id)
                first.intersection_update(self.mistakes.known)
        for step, choices in choices_of.items():
            draft = self.by_id[step]
            outside = draft.needs - choices if draft.names_needs else set()
            draft.needs = set(choices)
            yield from (_Use(draft, each) for each in sorted(outside))

    def _refuse_always(self) -> None:
        """Refuse `all-done` in a branch: it would run although the branch was not taken."""
        first = {each for choice in self.drafts for case in choice.cases for each in case}
        for draft in self.drafts:
            if draft.step.join == ALL_DONE and (draft.id in first or draft.entry.branches):
                problem = "would run although its branch was not taken: put the step behind the choice"
                self.mistakes.wrong(f"{draft.entry.field}.join", problem, "invalid_value")

    def _check_gathers(self) -> None:
        """Refuse a gather that does not come after all its members: nobody would tell of their failures."""
        gathers = [each for each in self.named if isinstance(each.step.decides, Gather)]
        if not gathers:
            return
        graph = Branches({each.id: frozenset(each.needs) for each in self.named}, {})
        if graph.has_cycle:
            return
        for draft in gathers:
            members = draft.step.decides.members if isinstance(draft.step.decides, Gather) else ()
            for each in members:
                if each in self.mistakes.known and not graph.is_before(each, draft.id):
                    problem = f"member {each!r} does not come before the gather"
                    self.mistakes.wrong(f"{draft.entry.field}.gather", problem, "invalid_value")
