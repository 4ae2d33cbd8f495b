"""Count lines, tokens, classes, functions and docstrings of a Python source file."""

from __future__ import annotations

import ast
import tokenize
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# Layout and comments, which the compiler ignores.
_NOT_COUNTED = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)
# A file may be written for another version of Python, in an unknown encoding, or not be readable at all.
_UNREADABLE = (OSError, SyntaxError, UnicodeDecodeError, ValueError, tokenize.TokenError, RecursionError)

Documentable = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The counts of one file, or the sums of many files.

    `definitions` counts modules, classes and functions; `documented` counts the definitions with a docstring.
    """

    files: int = 0
    unreadable: int = 0
    lines: int = 0
    tokens: int = 0
    classes: int = 0
    functions: int = 0
    definitions: int = 0
    documented: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def count_file(path: Path) -> FileCounts:
    """Count one file; a file that cannot be decoded or parsed counts as unreadable."""
    try:
        with tokenize.open(path) as source:
            text = source.read()
        tree = _tree(text)
        with path.open("rb") as raw:
            tokens = sum(each.type not in _NOT_COUNTED for each in tokenize.tokenize(raw.readline))
    except _UNREADABLE:
        return FileCounts(files=1, unreadable=1)
    definitions = [each for each in ast.walk(tree) if isinstance(each, Documentable)]
    return FileCounts(
        files=1,
        lines=text.count("\n"),
        tokens=tokens,
        classes=sum(isinstance(each, ast.ClassDef) for each in definitions),
        functions=sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in definitions),
        definitions=len(definitions),
        documented=sum(ast.get_docstring(each, clean=False) is not None for each in definitions),
    )


def added(rows: list[dict[str, Any]]) -> FileCounts:
    """Add up rows that hold the fields of `FileCounts`."""
    return FileCounts(**{name: sum(row[name] for row in rows) for name in FileCounts.__dataclass_fields__})


def _tree(text: str) -> ast.Module:
    with warnings.catch_warnings():
        # Old source has escape sequences that today's Python warns about.
        warnings.simplefilter("ignore")
        return ast.parse(text)
