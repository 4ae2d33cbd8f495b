"""Names say what a thing is: the words of the project, none that says nothing, one class by each name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from support.source_tree import module_of, offenders, sources, tree_of

WORDS_WE_DO_NOT_USE = {
    *("job", "jobs", "node", "nodes", "flow", "flows", "execution", "executions"),
    *("manager", "handler", "handlers", "util", "utils", "helper", "helpers", "common"),
}
WORDS_THAT_SAY_NOTHING = {"found", "given", "told"}
# Members of documents of the API, by module: they do not change.
MEMBERS_OF_DOCUMENTS = {"pipeweave.orchestrator.documents.access": {"given"}}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

_DOCUMENT = "a thing of the orchestrator, and the document of it that the API answers"
_AUTHORED = "what users write, and the document of what the orchestrator stored of it"
_OPENAPI = "the name of a schema in OpenAPI, which does not change"
# Names that two classes have, and why.
CLASSES_OF_ONE_NAME = {
    **dict.fromkeys(("BulkChange", "CodeChange", "DeadLetter", "Forecast", "Instance"), _DOCUMENT),
    **dict.fromkeys(("PlanEntry", "Queued", "Reason", "Redrive", "Signal", "Spread"), _DOCUMENT),
    **dict.fromkeys(("TaskRun", "Vote", "Wait"), _DOCUMENT),
    **dict.fromkeys(("Run", "StepProgress"), "what a client made of a document of the API, and the document"),
    **dict.fromkeys(("Pipeline", "Schedule", "Task"), _AUTHORED),
    # The error of a second report by a callback URL, and the answer to the first.
    "CallbackTaken": _OPENAPI,
    # An error in a field; the faults of an expression have columns, too.
    "Fault": _OPENAPI,
    # A reference to a large value; `${…}` of a document is one, too.
    "Reference": _OPENAPI,
    # A row of the statistics; the registry has the row of a task itself.
    "TaskRow": _OPENAPI,
}


def test_names_use_the_words_of_the_project() -> None:
    def strange_words(path: Path) -> set[str]:
        named = [path.stem, *_classes(path)]
        words = {word.lower() for name in named for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        return words & WORDS_WE_DO_NOT_USE

    assert not offenders(strange_words)


def test_variables_and_parameters_say_what_they_hold() -> None:
    def silent(path: Path) -> set[str]:
        functions = [each for each in ast.walk(tree_of(path)) if isinstance(each, FUNCTIONS)]
        inside = [node for function in functions for node in ast.walk(function)]
        variables = {
            node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        parameters = {node.arg for node in inside if isinstance(node, ast.arg)}
        return _silent(variables | parameters)

    assert not offenders(silent)


def test_functions_say_what_they_do_and_attributes_what_they_hold() -> None:
    def silent(path: Path) -> set[str]:
        nodes = list(ast.walk(tree_of(path)))
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        set_on_objects = {
            node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        }
        fields = {name for node in nodes if isinstance(node, ast.ClassDef) for name in _fields(node)}
        return _silent(functions | set_on_objects | fields) - MEMBERS_OF_DOCUMENTS.get(module_of(path), set())

    assert not offenders(silent)


def _fields(node: ast.ClassDef) -> Iterator[str]:
    assigned = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
    return (target.id for target in assigned if isinstance(target, ast.Name))


def _silent(names: set[str]) -> set[str]:
    return {each.strip("_") for each in names} & WORDS_THAT_SAY_NOTHING


def test_two_classes_of_one_name_are_listed_with_the_reason() -> None:
    """A reader who meets `Kind` must not have to look which of five it is. Private classes count: a search
    shows them, too.
    """
    times = Counter(name for path in sources() for name in _classes(path))
    assert {name for name, number in times.items() if number > 1} == set(CLASSES_OF_ONE_NAME)


def _classes(path: Path) -> Iterator[str]:
    return (node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef))
