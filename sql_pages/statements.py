"""Finds the statements that the orchestrator sends, and the functions that send them.

Most statements are constants of a module, made when it is imported: their final text is the constant's value.
A statement that a function composes is recorded while the function is called (composed.py).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any

import pipeweave.orchestrator

ROOT = "pipeweave.orchestrator."
# What these modules execute is sent by others: it has a name there. `other_end` speaks to the driver itself.
TRANSPORT = {
    *("store.database", "store.statements", "store.connections", "store.silence", "store.other_end"),
    "store.remembering",
}

_TEMPLATE = re.compile(r"\{\w+\}")
_STATEMENT = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|SET|DROP|CREATE|LOCK|DECLARE|FETCH)\b")


@dataclass(frozen=True, slots=True)
class Call:
    """A call of `tx.execute`.

    Args:
        sender: module and function, `engine.fast_path._complete_last`.
        text: the statement, or the one that locks before it.
        name: what the text is in the source; empty where the function composes it.
        after: the text that locks before it, in the same round trip.
    """

    sender: str
    text: ast.expr
    name: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as it is sent.

    Args:
        name: module and constant, or module and function where that composes it.
        sql: the final text, parameters as `:name`.
        senders: the functions that send it.
        after: the statement that goes before it in the same round trip.
        does: what the sender does, in a sentence.
        why: the comment above the constant.
        variant: which of several texts of one function it is.
    """

    name: str
    sql: str
    senders: tuple[str, ...]
    does: str
    why: str = ""
    after: str = ""
    variant: str = ""

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Module:
    """A module of the orchestrator, as source and as it is imported."""

    name: str
    loaded: ModuleType
    tree: ast.Module = field(repr=False)
    lines: list[str] = field(repr=False)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """Functions and methods by their qualified names."""
        return dict(_functions(self.tree, ""))

    @cached_property
    def imported(self) -> dict[str, str]:
        """Imported name -> where it is defined, below the orchestrator."""
        return {
            alias.asname or alias.name: f"{node.module}.{alias.name}".removeprefix(ROOT)
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def value(self, text: ast.expr) -> str | None:
        """The value of an expression over the module's constants; None where it needs more than those."""
        try:
            found: Any = eval(ast.unparse(text), dict(vars(self.loaded)))
        except (NameError, AttributeError, KeyError):
            return None
        return found if isinstance(found, str) else None

    def line(self, name: str) -> int:
        """The line on which a constant or a function begins."""
        if name in self.functions:
            return self.functions[name].lineno
        lines = (node.lineno for node in self.tree.body if _target(node) == name)
        return next(lines, 0)

    def comment(self, constant: str) -> str:
        """The comment above the assignment of a constant."""
        for node in self.tree.body:
            if _target(node) == constant:
                return self._comment_above(node.lineno - 1)
        return ""

    def _comment_above(self, line: int) -> str:
        found: list[str] = []
        while line > 0 and self.lines[line - 1].startswith("# ") and not self.lines[line - 1].endswith("---"):
            line -= 1
            found.insert(0, self.lines[line].removeprefix("# ").strip())
        return " ".join(found)


def modules() -> list[Module]:
    """Every module of the orchestrator that speaks SQL."""
    found = []
    for info in pkgutil.walk_packages(pipeweave.orchestrator.__path__, ROOT):
        name = info.name.removeprefix(ROOT)
        if name not in TRANSPORT:
            loaded = importlib.import_module(info.name)
            source = inspect.getsource(loaded)
            found.append(Module(name, loaded, ast.parse(source), source.splitlines()))
    return found


def _target(node: ast.stmt) -> str:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{child.name}.")


def calls(module: Module) -> Iterator[Call]:
    """Every text that a module hands to a transaction."""
    for name, function in module.functions.items():
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _is_execute(node):
                locks = [each.value for each in node.keywords if each.arg == "lock"]
                before = [call for lock in locks for call in _resolved(module, name, lock)]
                yield from before
                after = before[0].name if before else ""
                for call in _resolved(module, name, node.args[0]):
                    yield replace(call, after=after)


def _is_execute(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr != "execute":
        return False
    return "redis" not in ast.unparse(function.value)


def _resolved(module: Module, function: str, text: ast.expr) -> Iterator[Call]:
    """The call itself or, where a function hands its parameter on, what others call it with."""
    sender = f"{module.name}.{function}"
    is_constant = not _locals(module.functions[function]) & set(_names_in(text))
    if is_constant and module.value(text) is not None:
        yield Call(sender, text, _name(module, function, text))
        return
    given = list(_given(module, function, text.id)) if isinstance(text, ast.Name) else []
    yield from given or [Call(sender, text)]


def _locals(function: ast.FunctionDef) -> set[str]:
    given = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    bound = (each for each in ast.walk(function) if isinstance(each, ast.Name))
    return given | {each.id for each in bound if isinstance(each.ctx, ast.Store)}


def _given(module: Module, function: str, parameter: str) -> Iterator[Call]:
    """Constants that reach a parameter of a function, or a loop's variable in it."""
    body = module.functions[function]
    places = [each.arg for each in body.args.args]
    if parameter in places:
        for caller, call in _calls_of(module, function):
            yield from _constants(module, caller, call.args[places.index(parameter)])
        return
    for node in ast.walk(body):
        if isinstance(node, ast.For) and parameter in _names_in(node.target):
            yield from _constants(module, function, node.iter)
        elif isinstance(node, ast.Assign) and parameter in _names_in(node.targets[0]):
            yield from _constants(module, function, node.value)


def _calls_of(module: Module, function: str) -> Iterator[tuple[str, ast.Call]]:
    for caller, body in module.functions.items():
        for node in ast.walk(body):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
                yield caller, node


def _constants(module: Module, function: str, node: ast.expr) -> Iterator[Call]:
    if any(isinstance(each, ast.Call | ast.JoinedStr) for each in ast.walk(node)):
        return
    for name in _names_in(node):
        text = ast.Name(name, ast.Load())
        value = module.value(text)
        if value is not None and _STATEMENT.match(value) and not _TEMPLATE.search(value):
            yield Call(f"{module.name}.{function}", text, _name(module, function, text))


def _names_in(node: ast.AST) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _name(module: Module, function: str, text: ast.expr) -> str:
    """Where a text is defined: the module of a constant, or the function that holds it."""
    match text:
        case ast.Name(id=name):
            return module.imported.get(name, f"{module.name}.{name}")
        case ast.Attribute(value=ast.Name(id=base), attr=name):
            return f"{module.imported.get(base, base)}.{name}"
    return f"{module.name}.{function}"


def sentence(module: Module, function: str) -> str:
    """What a function does, by its docstring or by those of the functions that call it."""
    seen, wanted = set(), [function]
    while wanted:
        name = wanted.pop(0)
        if name in seen:
            continue
        seen.add(name)
        if text := ast.get_docstring(module.functions[name]):
            return _first_sentence(text)
        wanted += _callers(module, name)
    return _first_sentence(_docstring_of_class(module, function))


def _docstring_of_class(module: Module, method: str) -> str:
    name = method.rpartition(".")[0]
    classes = (each for each in module.tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    return next((ast.get_docstring(each) or "" for each in classes), "")


def _callers(module: Module, function: str) -> list[str]:
    short = function.rpartition(".")[2]
    return [
        name
        for name, body in module.functions.items()
        if short in {getattr(each, "id", getattr(each, "attr", "")) for each in ast.walk(body)}
    ]


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z)`\]}][.])\s|: \{", flat)[0].rstrip(".") + "."


def constants(found: list[Module]) -> list[Statement]:
    """The statements that are constants, each with everyone who sends it."""
    by_name = {module.name: module for module in found}
    sent: dict[tuple[str, str], list[Call]] = {}
    for module in found:
        for call in calls(module):
            if call.name:
                sent.setdefault((call.name, module.value(call.text) or ""), []).append(call)
    return [
        Statement(
            name,
            text,
            tuple(dict.fromkeys(call.sender for call in its_calls)),
            _does(by_name, its_calls[0].sender),
            _why(by_name, name),
            its_calls[0].after,
        )
        for (name, text), its_calls in sent.items()
    ]


def composed_by(found: list[Module]) -> set[str]:
    """The functions that compose a statement."""
    return {call.sender for module in found for call in calls(module) if not call.name}


def _does(by_name: dict[str, Module], sender: str) -> str:
    module, function = split(by_name, sender)
    return sentence(module, function)


def _why(by_name: dict[str, Module], name: str) -> str:
    module, constant = split(by_name, name)
    return module.comment(constant)


def split(by_name: dict[str, Module], name: str) -> tuple[Module, str]:
    """The module of a name, and the name within it."""
    for end in (3, 2, 1):
        parts = name.split(".")
        if module := by_name.get(".".join(parts[:end])):
            return module, ".".join(parts[end:])
    raise LookupError(name)
