"""Read the steps of a pipeline document into StepSpecs: ids, predecessors, params and maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeweave.field_errors import FieldErrors
from pipeweave.size_limits import MAX_EDGES, MAX_MAP_ITEMS, MAX_STEPS
from pipeweave.spec.graph import GraphError
from pipeweave.spec.pipeline_spec import MapSpec, StepSpec
from pipeweave.spec.references import Reference, find_references, json_type

_STEP_KEYS = ("id", "task", "needs", "params", "map", "parallel")
# Options of `@task` that a step does not have, but that an author may look for there.
_TASK_OPTIONS = ("retries", "retry_on", "timeout", "concurrency", "rate_limit", "priority", "queue")
_MAP_KEYS = ("over", "as")


class TooManyEdges(Exception):
    """Stops the reader at MAX_EDGES edges; the mistake itself is already in `errors`.

    Never leaves this room.
    """


@dataclass(slots=True)
class _Entry:
    """One step as the document has it, before it becomes a StepSpec.

    Args:
        field: the step's path in the document, e.g. `steps[2]`.
        members: the step's keys and values.
        before: indexes of the steps that it follows if it has no `needs`.
        id: its id, once `give_ids` has set it.
    """

    field: str
    members: Mapping[str, Any]
    before: tuple[int, ...]
    id: str = ""


class StepReader(FieldErrors):
    """Reads the steps of one document and collects their mistakes."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, int] = {}
        self.graph_errors: list[GraphError] = []
        self.edges = 0

    def steps(self, document: Mapping[str, Any]) -> tuple[StepSpec, ...]:
        listed = document.get("steps")
        if not isinstance(listed, (list, tuple)):
            problem = "is required" if listed is None else f"must be a list, not {json_type(listed)}"
            self.wrong("steps", problem, "missing" if listed is None else "invalid_type", "array")
            return ()
        entries = self.entries(listed)
        if not entries:
            if not self.errors:
                self.wrong("steps", "must hold at least one step", "no_entry")
            return ()
        if len(entries) > MAX_STEPS:
            why = f"are {len(entries)}, at most {MAX_STEPS} are allowed"
            self.wrong_graph("steps", why, "TOO_MANY_STEPS", ())
            return ()
        self.give_ids(entries)
        return tuple(self.step(entry, entries) for entry in entries)

    def entries(self, listed: Iterable[Any]) -> list[_Entry]:
        """List the steps in document order, each with the steps that it follows if it has no `needs`."""
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
                f"{path}.{others[0]}",
                "is not allowed next to `parallel`: put it into the members",
                "invalid",
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
        """Check the ids in the document, and give each step without an id the id of its task.

        If another step has that id already, `_2`, `_3` … is appended.
        """
        for place, entry in enumerate(entries):
            if entry.members.get("id") is not None:
                entry.id = self.name(entry.members["id"], f"{entry.field}.id")
                if entry.id and self.known.setdefault(entry.id, place) != place:
                    first = entries[self.known[entry.id]].field
                    why = f"{entry.id!r} is the id of {first}, too"
                    self.wrong_graph(f"{entry.field}.id", why, "DUPLICATE_STEP", (entry.id,))
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
        for key in entry.members:
            if key in _TASK_OPTIONS:
                self.wrong(
                    f"{entry.field}.{key}",
                    f"is an option of the task, not of a step; set it at the task: @task({key}=…)",
                    "unknown_key",
                )
        members = [each for each in entry.members if each not in _TASK_OPTIONS]
        self.unknown_keys(members, _STEP_KEYS, entry.field)
        task = entry.members.get("task")
        if task is None:
            self.wrong(f"{entry.field}.task", "is required", "missing")
        params, map_spec = self.params(entry), self.map(entry)
        if map_spec is not None and map_spec.name is not None and map_spec.name in (params or {}):
            self.wrong(f"{entry.field}.map.as", f"{map_spec.name!r} is in `params`, too", "duplicate")
        needs = self.needs(entry, entries)
        needs |= self.referenced(params, f"{entry.field}.params", entry, in_map=map_spec is not None)
        if map_spec is not None:
            over = f"{entry.field}.map" + (".over" if isinstance(entry.members["map"], Mapping) else "")
            needs |= self.referenced(map_spec.over, over, entry, in_map=False)
        self.edges += len(needs)
        if self.edges > MAX_EDGES:
            why = f"gives the pipeline more than {MAX_EDGES} edges"
            self.wrong_graph(f"{entry.field}.needs", why, "TOO_MANY_STEPS", (entry.id,))
            raise TooManyEdges
        return StepSpec(
            id=entry.id,
            task=self.name(task, f"{entry.field}.task") if task is not None else "",
            needs=tuple(sorted(needs, key=self.known.__getitem__)),
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
        ids: set[str] = set()
        for place, each in enumerate(listed):
            if isinstance(each, str) and each in self.known:
                ids.add(each)
            else:
                self.unknown_step(entry, each, f"{entry.field}.needs[{place}]")
        return ids

    def params(self, entry: _Entry) -> Mapping[str, Any] | None:
        params = entry.members.get("params")
        if params is not None and not isinstance(params, Mapping):
            problem = f"must be an object of parameters by name, not {json_type(params)}"
            self.wrong(f"{entry.field}.params", problem, "invalid_type", "object")
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
        if isinstance(over, (list, tuple)) and len(over) > MAX_MAP_ITEMS:
            why = f"has {len(over):,} items, a map takes at most {MAX_MAP_ITEMS:,}"
            self.wrong(path, why, "too_large")
            return None
        if isinstance(over, (list, tuple)) or (isinstance(over, str) and "${" in over):
            return MapSpec(list(over) if isinstance(over, tuple) else over, name)
        text = repr(over) if isinstance(over, str) else json_type(over)
        self.wrong(
            path, f"must be a list or a reference to one, like ${{steps.id}}, not {text}", "invalid_type"
        )
        return None

    def referenced(self, value: Any, path: str, entry: _Entry, *, in_map: bool) -> set[str]:
        references, errors = find_references(value, path)
        self.errors += errors
        return {
            step
            for place, each in references
            if (step := self.reference(each, place, entry, in_map)) is not None
        }

    def reference(self, reference: Reference, path: str, entry: _Entry, in_map: bool) -> str | None:
        if reference.root in ("item", "mapIndex") and not in_map:
            where = "inside `map`" if ".map" in path else "in a step without `map`"
            self.wrong(path, f"{reference.text} has no value {where}", "invalid_reference")
        if reference.step is None:
            return None
        if reference.step not in self.known:
            self.unknown_step(entry, reference.step, path)
            return None
        if reference.step == entry.id:
            self.wrong(path, f"{reference.text} is the step's own output", "invalid_reference")
            return None
        return reference.step

    def unknown_step(self, entry: _Entry, step: Any, path: str) -> None:
        if not isinstance(step, str):
            self.wrong(path, f"must be the id of a step, not {json_type(step)}", "invalid_type", "string")
            return
        near = self.nearest(step, self.known)
        hint = f"; did you mean {near!r}?" if near is not None else ""
        why = f"{step[:200]!r} is not a step{hint}"
        self.wrong_graph(path, why, "UNKNOWN_STEP", (entry.id, step[:200]), near)

    def wrong_graph(
        self, path: str, message: str, code: str, steps: tuple[str, ...], expected: str | None = None
    ) -> None:
        """Add a mistake in the graph: a FieldError with its field, and a GraphError with its steps."""
        self.wrong(path, message, code.lower(), expected)
        self.graph_errors.append(GraphError(code, f"{path} {message}", steps))
