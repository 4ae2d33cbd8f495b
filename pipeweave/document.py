"""A pipeline written as a document (YAML or JSON) -> its normalised spec, or every mistake with the field
it is in.

A step without `needs` follows the step before it, `needs: []` starts at once, and `parallel:` holds members
that all follow what is before them and precede what comes after. A reference makes its step a predecessor
by itself. A normalised spec is a document too, and comes out as it went in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pipeweave.errors import FieldError, InvalidId, InvalidSpec
from pipeweave.graph import validate
from pipeweave.ids import check_name
from pipeweave.json_values import json_faults
from pipeweave.limits import MAX_DESCRIPTION, MAX_EDGES, MAX_SPEC_BYTES, MAX_STEPS
from pipeweave.references import Reference, find_references, json_type
from pipeweave.rules import FAIL_FAST, FAILURE_MODES
from pipeweave.spec import MapSpec, PipelineSpec, StepSpec

_PIPELINE_KEYS = ("id", "description", "failureMode", "priority", "defaults", "steps")
_STEP_KEYS = ("id", "task", "needs", "params", "map", "parallel")
_MAP_KEYS = ("over", "as")
_MOST_ERRORS = 100
_SMALLEST_INT, _LARGEST_INT = -(2**31), 2**31 - 1
_DEEPEST = 72  # MAX_VALUE_DEPTH below steps[].parallel[].params


def parse_spec(document: Mapping[str, Any], *, id: str | None = None) -> PipelineSpec:
    """The normalised spec of a document.

    Args:
        document: with `id`, `description`, `failureMode`, `priority`, `defaults` and `steps`.
        id: of the pipeline, where the document does not say it; both must agree.

    Raises:
        InvalidSpec: with one FieldError for each mistake (`steps[2].needs[0]`); `graphErrors` in its
            context names the steps of each mistake in the graph.
    """
    reading = _Reading()
    spec = reading.pipeline(document, id)
    reading.refuse_if_wrong(document)
    found = validate(spec)
    if found:
        raise InvalidSpec(
            found[0].message,
            errors=[FieldError("steps", each.message, each.code.lower()) for each in found[:_MOST_ERRORS]],
            graphErrors=[each.to_json() for each in found[:_MOST_ERRORS]],
        )
    if len(spec.canonical) > MAX_SPEC_BYTES:
        size = f"comes to {len(spec.canonical)} bytes, at most {MAX_SPEC_BYTES} are allowed"
        raise InvalidSpec(f"the spec {size}", errors=[FieldError("", size, "too_large")])
    return spec


@dataclass(slots=True)
class _Entry:
    """One step of the document on its way to a StepSpec."""

    field: str
    members: Mapping[str, Any]
    before: tuple[int, ...]
    id: str = ""


@dataclass(slots=True)
class _Reading:
    """Reads one document and collects what is wrong with it."""

    errors: list[FieldError] = field(default_factory=list)
    known: dict[str, int] = field(default_factory=dict)
    edges: int = 0

    def wrong(self, field: str, message: str, code: str = "invalid", expected: str | None = None) -> None:
        self.errors.append(FieldError(field, message, code, expected))

    def refuse_if_wrong(self, document: Any) -> None:
        if self.errors:
            named = document.get("id") if isinstance(document, Mapping) else None
            which = f"pipeline {named!r}" if isinstance(named, str) else "the pipeline"
            first = self.errors[0]
            raise InvalidSpec(
                f"{which}: {first.field or 'the document'} {first.message}", errors=self.errors[:_MOST_ERRORS]
            )

    # --- the pipeline --------------------------------------------------------------------------------------

    def pipeline(self, document: Any, id: str | None) -> PipelineSpec:
        if not isinstance(document, Mapping):
            self.wrong(
                "", f"must be an object with `steps`, not {json_type(document)}", "invalid_type", "object"
            )
            self.refuse_if_wrong(document)
        self.errors += json_faults(document, budget=MAX_SPEC_BYTES, max_depth=_DEEPEST)
        self.refuse_if_wrong(document)
        self.unknown_keys(document, _PIPELINE_KEYS, "")
        return PipelineSpec(
            id=self.pipeline_id(document, id),
            description=self.description(document),
            failure_mode=self.failure_mode(document),
            priority=self.priority(document),
            defaults=self.defaults(document),
            steps=self.steps(document),
        )

    def pipeline_id(self, document: Mapping[str, Any], id: str | None) -> str:
        named = document.get("id", id)
        if named is None:
            self.wrong("id", "is required", "missing")
            return ""
        if id is not None and named != id:
            self.wrong("id", f"is {named!r}, but the pipeline is called {id!r}", "mismatch")
        return self.name(named, "id")

    def description(self, document: Mapping[str, Any]) -> str | None:
        text = document.get("description")
        if text is not None and not isinstance(text, str):
            self.wrong("description", f"must be a text, not {json_type(text)}", "invalid_type", "string")
            return None
        if text is not None and len(text) > MAX_DESCRIPTION:
            self.wrong("description", f"is longer than {MAX_DESCRIPTION} characters", "too_long")
        return text

    def failure_mode(self, document: Mapping[str, Any]) -> str:
        mode = document.get("failureMode", FAIL_FAST)
        if not isinstance(mode, str) or mode not in FAILURE_MODES:
            allowed = ", ".join(FAILURE_MODES)
            self.wrong("failureMode", f"is {mode!r}: use one of {allowed}", "invalid_value", allowed)
            return FAIL_FAST
        return mode

    def priority(self, document: Mapping[str, Any]) -> int | None:
        priority = document.get("priority")
        if priority is None:
            return None
        if not isinstance(priority, int) or isinstance(priority, bool):
            self.wrong("priority", f"must be a whole number, not {priority!r}", "invalid_type", "integer")
            return None
        if not _SMALLEST_INT <= priority <= _LARGEST_INT:
            self.wrong("priority", f"must lie between {_SMALLEST_INT} and {_LARGEST_INT}", "out_of_range")
        return priority

    def defaults(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        defaults = document.get("defaults", {})
        if not isinstance(defaults, Mapping):
            self.wrong("defaults", f"must be an object, not {json_type(defaults)}", "invalid_type", "object")
            return {}
        return defaults

    # --- its steps -----------------------------------------------------------------------------------------

    def steps(self, document: Mapping[str, Any]) -> tuple[StepSpec, ...]:
        listed = document.get("steps")
        if not isinstance(listed, (list, tuple)):
            found = "is required" if listed is None else f"must be a list, not {json_type(listed)}"
            self.wrong("steps", found, "missing" if listed is None else "invalid_type", "array")
            return ()
        entries = self.entries(listed)
        if not entries:
            if not self.errors:
                self.wrong("steps", "must hold at least one step", "no_entry")
            return ()
        if len(entries) > MAX_STEPS:
            self.wrong("steps", f"are {len(entries)}, at most {MAX_STEPS} are allowed", "too_many_steps")
            return ()
        self.give_ids(entries)
        return tuple(self.step(entry, entries) for entry in entries)

    def entries(self, listed: Iterable[Any]) -> list[_Entry]:
        """The steps in document order, each with the places of those it follows if it does not say so
        itself.
        """
        entries: list[_Entry] = []
        before: tuple[int, ...] = ()
        for place, each in enumerate(listed):
            path = f"steps[{place}]"
            members = (
                self.parallel(each, path)
                if isinstance(each, Mapping) and "parallel" in each
                else [(path, each)]
            )
            first = len(entries)
            for member_path, member in members:
                if isinstance(member, Mapping):
                    entries.append(_Entry(member_path, member, before))
                else:
                    self.wrong(
                        member_path, f"must be a step, not {json_type(member)}", "invalid_type", "object"
                    )
            if len(entries) > first:
                before = tuple(range(first, len(entries)))
        return entries

    def parallel(self, block: Mapping[str, Any], path: str) -> list[tuple[str, Any]]:
        others = [key for key in block if key != "parallel"]
        if others:
            self.wrong(
                f"{path}.{others[0]}", "cannot stand next to `parallel`: put it into the members", "invalid"
            )
        members = block["parallel"]
        if not isinstance(members, (list, tuple)) or not members:
            self.wrong(f"{path}.parallel", "must be a list of steps", "invalid_type", "array")
            return []
        for place, member in enumerate(members):
            if isinstance(member, Mapping) and "parallel" in member:
                self.wrong(
                    f"{path}.parallel[{place}].parallel", "cannot be nested: use `needs` instead", "invalid"
                )
        return [(f"{path}.parallel[{place}]", member) for place, member in enumerate(members)]

    def give_ids(self, entries: list[_Entry]) -> None:
        """Check the ids that are there; a step without one takes its task's, with _2, _3 … where that is
        taken.
        """
        for place, entry in enumerate(entries):
            if entry.members.get("id") is not None:
                entry.id = self.name(entry.members["id"], f"{entry.field}.id")
                if entry.id and self.known.setdefault(entry.id, place) != place:
                    first = entries[self.known[entry.id]].field
                    self.wrong(
                        f"{entry.field}.id", f"{entry.id!r} is the id of {first} too", "duplicate_step"
                    )
        numbers: dict[str, int] = {}
        for place, entry in enumerate(entries):
            task = entry.members.get("task")
            if entry.members.get("id") is None and isinstance(task, str):
                entry.id = task
                while entry.id in self.known:
                    numbers[task] = numbers.get(task, 1) + 1
                    entry.id = f"{task}_{numbers[task]}"
                self.known[entry.id] = place

    def step(self, entry: _Entry, entries: list[_Entry]) -> StepSpec:
        self.unknown_keys(entry.members, _STEP_KEYS, entry.field)
        task = entry.members.get("task")
        if task is None:
            self.wrong(f"{entry.field}.task", "is required", "missing")
        params, map_spec = self.params(entry), self.map(entry)
        if map_spec is not None and map_spec.name is not None and map_spec.name in (params or {}):
            self.wrong(f"{entry.field}.map.as", f"{map_spec.name!r} is one of `params` too", "duplicate")
        needs = self.needs(entry, entries)
        needs |= self.referenced(params, f"{entry.field}.params", entry, in_map=map_spec is not None)
        if map_spec is not None:
            over = f"{entry.field}.map" + (".over" if isinstance(entry.members["map"], Mapping) else "")
            needs |= self.referenced(map_spec.over, over, entry, in_map=False)
        self.edges += len(needs)
        ordered = sorted(needs, key=lambda each: self.known[each]) if self.edges <= MAX_EDGES else ()
        if self.edges > MAX_EDGES and not ordered and needs:
            self.wrong(f"{entry.field}.needs", f"brings more than {MAX_EDGES} edges", "too_many_steps")
            self.refuse_if_wrong(None)
        return StepSpec(
            id=entry.id,
            task=self.name(task, f"{entry.field}.task") if task is not None else "",
            needs=tuple(ordered),
            params=params,
            map=map_spec,
        )

    def needs(self, entry: _Entry, entries: list[_Entry]) -> set[str]:
        listed = entry.members.get("needs")
        if listed is None:
            return {entries[place].id for place in entry.before} - {""}
        if not isinstance(listed, (list, tuple)):
            self.wrong(
                f"{entry.field}.needs", f"must be a list of step ids, not {json_type(listed)}", "invalid_type"
            )
            return set()
        found: set[str] = set()
        for place, each in enumerate(listed):
            if isinstance(each, str) and each in self.known:
                found.add(each)
            else:
                self.unknown_step(each, f"{entry.field}.needs[{place}]")
        return found

    def params(self, entry: _Entry) -> Mapping[str, Any] | None:
        params = entry.members.get("params")
        if params is not None and not isinstance(params, Mapping):
            found = f"must be an object of parameters by name, not {json_type(params)}"
            self.wrong(f"{entry.field}.params", found, "invalid_type", "object")
            return None
        return params

    def map(self, entry: _Entry) -> MapSpec | None:
        written, path = entry.members.get("map"), f"{entry.field}.map"
        if written is None:
            return None
        if not isinstance(written, Mapping):
            return self.map_over(written, None, path)
        self.unknown_keys(written, _MAP_KEYS, path)
        name = written.get("as")
        if name is not None and (not isinstance(name, str) or not name.isidentifier()):
            self.wrong(f"{path}.as", f"must be the name of a parameter, not {name!r}", "invalid_value")
            name = None
        if written.get("over") is None:
            self.wrong(f"{path}.over", "is required", "missing")
            return None
        return self.map_over(written["over"], name, f"{path}.over")

    def map_over(self, over: Any, name: str | None, path: str) -> MapSpec | None:
        if isinstance(over, (list, tuple)) or (isinstance(over, str) and "${" in over):
            return MapSpec(list(over) if isinstance(over, tuple) else over, name)
        found = repr(over) if isinstance(over, str) else json_type(over)
        self.wrong(
            path, f"must be a list or a reference to one, like ${{steps.id}}, not {found}", "invalid_type"
        )
        return None

    # --- what they share -----------------------------------------------------------------------------------

    def referenced(self, value: Any, path: str, entry: _Entry, *, in_map: bool) -> set[str]:
        found, errors = find_references(value, path)
        self.errors += errors
        return {
            step for place, each in found if (step := self.reference(each, place, entry, in_map)) is not None
        }

    def reference(self, each: Reference, path: str, entry: _Entry, in_map: bool) -> str | None:
        if each.root in ("item", "mapIndex") and not in_map:
            where = "inside `map`" if ".map" in path else "in a step without `map`"
            self.wrong(path, f"{each.text} means nothing {where}", "invalid_reference")
        if each.step is None:
            return None
        if each.step not in self.known:
            self.unknown_step(each.step, path)
            return None
        if each.step == entry.id:
            self.wrong(path, f"{each.text} is the step's own output", "invalid_reference")
            return None
        return each.step

    def unknown_step(self, step: Any, path: str) -> None:
        if not isinstance(step, str):
            self.wrong(path, f"must be the id of a step, not {json_type(step)}", "invalid_type", "string")
            return
        near = (
            get_close_matches(step, list(self.known)[:MAX_STEPS], 1)
            if len(self.errors) < _MOST_ERRORS
            else []
        )
        hint = f"; did you mean {near[0]!r}?" if near else ""
        self.wrong(path, f"{step[:200]!r} is not a step{hint}", "unknown_step", near[0] if near else None)

    def unknown_keys(self, members: Mapping[str, Any], allowed: tuple[str, ...], path: str) -> None:
        for key in members:
            if key not in allowed:
                near = get_close_matches(key, allowed, 1, 0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"the keys here are {', '.join(allowed)}"
                place = f"{path}.{key}" if path else key
                self.wrong(place, f"is not known here; {hint}", "unknown_key", near[0] if near else None)

    def name(self, text: Any, path: str) -> str:
        if not isinstance(text, str):
            self.wrong(
                path, f"must be a text, not {json_type(text)} (put it in quotes)", "invalid_type", "string"
            )
            return ""
        try:
            return check_name(text, path)
        except InvalidId as error:
            hint = str(error.hint)
            self.wrong(path, f"{text[:80]!r} is not a valid id: {hint}", "invalid_id", hint)
            return ""
