"""Flatten the blocks of a pipeline document: parallel blocks, sequences in them, and the branches of choices.

Each step becomes an entry, in document order, with the steps that it follows if it has no `needs`. A parallel
block whose members all end gets an entry more, its gather.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.spec.references import json_type

Places = tuple[int, ...]

RUN, SETTLE = "run", "settle"
_PARALLEL_KEYS = ("steps", "failure")


@dataclass(slots=True)
class Entry:
    """One step as the document has it, before it becomes a StepSpec.

    Args:
        field: the step's path in the document, e.g. `steps[2]`.
        members: the step's keys and values.
        before: indexes of the steps that it follows if it has no `needs`.
        branches: the branches of choices that it is written in, outermost first, each as the index of the
            choice and the place of the case.
        gathers: of a gather that a block wrote: the indexes of the members. None for every other step.
        id: its id, once ids are given.
    """

    field: str
    members: Mapping[str, Any]
    before: Places
    branches: tuple[tuple[int, int], ...] = ()
    gathers: Places | None = None
    id: str = ""


@dataclass(slots=True)
class BlockReader:
    """Lists the steps of one document.

    Args:
        mistakes: where mistakes go.
        entries: the steps so far.
    """

    mistakes: FieldErrors
    entries: list[Entry] = field(default_factory=list)
    _branches: tuple[tuple[int, int], ...] = ()

    def sequence(self, listed: Any, path: str, before: Places = ()) -> Places:
        """List steps that follow each other.

        Args:
            listed: the steps, a list.
            path: where it is in the document.
            before: the steps that the first of them follows.

        Returns:
            The steps that whatever comes next follows: the last ones.
        """
        for place, each in enumerate(listed):
            before = self._item(each, f"{path}[{place}]", before) or before
        return before

    def _item(self, item: Any, path: str, before: Places) -> Places:
        if not isinstance(item, Mapping):
            problem = f"must be a step, not {json_type(item)}"
            self.mistakes.wrong(path, problem, "invalid_type", "object")
            return ()
        if "parallel" in item:
            return self._parallel(item, path, before)
        place = self._add(Entry(path, item, before, self._branches))
        return self._branches_of(item, place, path)

    def _add(self, entry: Entry) -> int:
        self.entries.append(entry)
        return len(self.entries) - 1

    def _branches_of(self, item: Mapping[str, Any], place: int, path: str) -> Places:
        """List the steps that the cases of a choice hold; the choice itself is among those that come last."""
        cases = item.get("choice")
        ends: Places = ()
        outer = self._branches
        for number, case in enumerate(cases if isinstance(cases, (list, tuple)) else ()):
            if not isinstance(case, Mapping) or case.get("steps") is None:
                continue
            field = f"{path}.choice[{number}].steps"
            if not isinstance(case["steps"], (list, tuple)):
                problem = f"must be a list of steps, not {json_type(case['steps'])}"
                self.mistakes.wrong(field, problem, "invalid_type", "array")
                continue
            self._branches = (*outer, (place, number))
            last = self.sequence(case["steps"], field, (place,))
            ends += tuple(each for each in last if each != place)
        self._branches = outer
        return (*ends, place)

    def _parallel(self, block: Mapping[str, Any], path: str, before: Places) -> Places:
        members, failure, path_of_members = self._members(block, path)
        self._refuse_others(block, path, may_have_id=failure == SETTLE)
        ends: Places = ()
        first = len(self.entries)
        for place, member in enumerate(members):
            ends += self._member(member, f"{path_of_members}[{place}]", before)
        if failure != SETTLE or not ends:
            return ends
        written = {key: block[key] for key in ("id",) if key in block}
        held = tuple(range(first, len(self.entries)))
        return (self._add(Entry(path, {**written, "gather": True}, ends, self._branches, held)),)

    def _members(self, block: Mapping[str, Any], path: str) -> tuple[list[Any], str, str]:
        """The members of a parallel block, what a failure of one does, and where they are written."""
        written, path = block["parallel"], f"{path}.parallel"
        failure = RUN
        if isinstance(written, Mapping):
            self.mistakes.unknown_keys(written, _PARALLEL_KEYS, path)
            failure = written.get("failure", RUN)
            if failure not in (RUN, SETTLE):
                problem = f"is {failure!r}: use {RUN} or {SETTLE}"[:500]
                self.mistakes.wrong(f"{path}.failure", problem, "invalid_value", f"{RUN}, {SETTLE}")
            written, path = written.get("steps"), f"{path}.steps"
        if not isinstance(written, (list, tuple)) or not written:
            self.mistakes.wrong(path, "must be a list of steps", "invalid_type", "array")
            return [], RUN, path
        return list(written), str(failure), path

    def _refuse_others(self, block: Mapping[str, Any], path: str, *, may_have_id: bool) -> None:
        others = [key for key in block if key != "parallel" and not (may_have_id and key == "id")]
        if others:
            self.mistakes.wrong(
                f"{path}.{others[0]}",
                "is not allowed next to `parallel`: put it into the members",
                "invalid",
            )

    def _member(self, member: Any, path: str, before: Places) -> Places:
        if isinstance(member, Mapping) and "parallel" in member:
            problem = "cannot be nested: use `needs` instead"
            self.mistakes.wrong(f"{path}.parallel", problem, "invalid")
            return ()
        if isinstance(member, Mapping) and set(member) == {"steps"}:
            return self._sequence_in(member["steps"], f"{path}.steps", before)
        return self._item(member, path, before)

    def _sequence_in(self, listed: Any, path: str, before: Places) -> Places:
        if not isinstance(listed, (list, tuple)) or not listed:
            self.mistakes.wrong(path, "must be a list of steps", "invalid_type", "array")
            return ()
        first = len(self.entries)
        ends = self.sequence(listed, path, before)
        return ends if len(self.entries) > first else ()
