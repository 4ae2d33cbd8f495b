"""Parse an expression, from the weakest operator to the strongest.

| strength | operators |
|---|---|
| 0 | `c ? a : b` |
| 1 | `\\|\\|` `or` |
| 2 | `&&` `and` |
| 3 | `!` `not` |
| 4 | `== != < <= > >= in`, not chained |
| 5 | `+ -` |
| 6 | `* / %` |
| 7 | `??` |
| 8 | `-x` |
"""

from __future__ import annotations

from typing import Final

from pipeweave.spec.expressions.bounds import MAX_DEPTH
from pipeweave.spec.expressions.faults import BadExpression
from pipeweave.spec.expressions.functions import FUNCTIONS, HAS, signature
from pipeweave.spec.expressions.tokens import END, NUMBER, SIGN, TEXT, WORD, Tokens, decoded, number_of
from pipeweave.spec.expressions.tree import (
    ROOTS,
    Chain,
    ChainedOperand,
    Comparison,
    Conditional,
    Each,
    FunctionCall,
    Listing,
    Literal,
    Member,
    Negation,
    Not,
    Path,
    Segment,
    Tree,
)
from pipeweave.suggestions import nearest

_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _DEFAULT, _OPERAND = range(1, 9)
_STRENGTHS: Final = {
    "||": _OR,
    "&&": _AND,
    "??": _DEFAULT,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), _COMPARISON),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_WORDS: Final = {"or": "||", "and": "&&", "not": "!", "in": "in"}
_CONSTANTS: Final = {"true": True, "false": False, "null": None}


def parse_whole(text: str, *, takes_references: bool) -> Tree:
    """Parse a text that is one expression.

    Args:
        takes_references: `${ e }` inside is `( e )`, as in a condition.
    """
    parser = _Parser(text, 0, takes_references)
    tree = parser.expression()
    if parser.tokens.kind != END:
        raise parser.unexpected()
    return tree


def parse_inside(text: str, start: int) -> tuple[Tree, int]:
    """Parse the expression that begins at `start` and ends before a `}`; give the place behind that, too."""
    parser = _Parser(text, start, takes_references=False)
    tree = parser.expression()
    tokens = parser.tokens
    if not tokens.is_sign("}"):
        raise parser.unexpected()
    return tree, tokens.end


class _Parser:
    def __init__(self, text: str, start: int, takes_references: bool) -> None:
        self.tokens = Tokens(text, start)
        self.takes_references = takes_references
        self.depth = 0

    def unexpected(self) -> BadExpression:
        tokens = self.tokens
        if tokens.kind == END:
            return BadExpression("the expression ends too early", tokens.column, "unexpected_end")
        return BadExpression(f"unexpected {tokens.value[:40]!r}", tokens.column)

    def expression(self) -> Tree:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise BadExpression(f"is nested deeper than {MAX_DEPTH}", self.tokens.column, "too_deep")
        column, cases = self.tokens.column, []
        value = self._binary(_OR)
        while self.tokens.is_sign("?"):
            self.tokens.advance()
            then = self.expression()
            self._close(":")
            cases.append((value, then))
            value = self._binary(_OR)
        self.depth -= 1
        return Conditional(tuple(cases), value, column) if cases else value

    def _close(self, sign: str) -> None:
        if not self.tokens.is_sign(sign):
            if self.tokens.kind == END:
                raise self.unexpected()
            raise BadExpression(
                f"expected {sign!r}, not {self.tokens.value[:40]!r}", self.tokens.column, "unclosed"
            )
        self.tokens.advance()

    def _operator(self) -> str:
        """The operator that the present token is; empty if it is none."""
        tokens = self.tokens
        if tokens.kind == SIGN:
            return tokens.value
        return _WORDS.get(tokens.value, "") if tokens.kind == WORD else ""

    def _binary(self, least: int) -> Tree:
        left = self._operand(least)
        while (strength := _STRENGTHS.get(self._operator(), 0)) >= least:
            left = self._comparison(left) if strength == _COMPARISON else self._chain(left, strength)
        return left

    def _chain(self, first: Tree, strength: int) -> Tree:
        links = []
        while _STRENGTHS.get(operator := self._operator(), 0) == strength:
            column = self.tokens.column
            self.tokens.advance()
            links.append(ChainedOperand(operator, self._binary(strength + 1), column))
        return Chain(first, tuple(links), first.column)

    def _comparison(self, left: Tree) -> Tree:
        operator, column = self._operator(), self.tokens.column
        self.tokens.advance()
        right = self._binary(_SUM)
        if _STRENGTHS.get(self._operator(), 0) == _COMPARISON:
            raise BadExpression(
                "comparisons are not chained: write a < b && b < c", self.tokens.column, "chained"
            )
        return Comparison(operator, left, right, column)

    def _operand(self, least: int) -> Tree:
        operator, column = self._operator(), self.tokens.column
        if operator == "!":
            if least > _NOT:
                raise BadExpression(f"put ( ) around {self.tokens.value} and what follows", column)
            return self._not(column)
        if operator == "-":
            self.tokens.advance()
            return Negation(self._atom(), column)
        return self._atom()

    def _not(self, column: int) -> Tree:
        count = 0
        while self._operator() == "!":
            self.tokens.advance()
            count += 1
        operand = self._binary(_COMPARISON)
        # Two of them are not none: they still demand a truth value.
        return Not(operand, column) if count % 2 else Not(Not(operand, column), column)

    def _atom(self) -> Tree:
        tokens, column = self.tokens, self.tokens.column
        if tokens.kind in (NUMBER, TEXT):
            return self._literal(column)
        if tokens.kind == WORD:
            return self._word(column)
        if tokens.is_sign("("):
            return self._closed(")", column)
        if tokens.is_sign("${"):
            if not self.takes_references:
                raise BadExpression("a ${…} cannot stand in another one: use ( )", column)
            return self._closed("}", column)
        if tokens.is_sign("["):
            tokens.advance()
            entries = self._separated("]")
            self._close("]")
            return Listing(entries, column)
        raise self.unexpected()

    def _literal(self, column: int) -> Literal:
        kind, written = self.tokens.kind, self.tokens.value
        value = number_of(written, column) if kind == NUMBER else decoded(written, column)
        if kind == TEXT and "\x00" in str(value):
            raise BadExpression("holds the character U+0000, which no text may hold", column, "bad_text")
        self.tokens.advance()
        return Literal(value, column)

    def _closed(self, sign: str, column: int) -> Tree:
        self.tokens.advance()
        inner = self.expression()
        return self._with_members(inner, sign, column)

    def _with_members(self, owner: Tree, sign: str, column: int) -> Tree:
        """Close what is open, and read the segments behind it, if there are some."""
        tokens = self.tokens
        if not tokens.is_sign(sign):
            self._close(sign)
        segments = tokens.segments(tokens.start)
        if not segments:
            return owner
        written = tokens.text[column - 1 : tokens.start].rstrip()
        return Member(owner, segments, written, column)

    def _separated(self, sign: str) -> tuple[Tree, ...]:
        entries: list[Tree] = []
        if self.tokens.is_sign(sign):
            return ()
        while True:
            entries.append(self.expression())
            if not self.tokens.is_sign(","):
                return tuple(entries)
            self.tokens.advance()

    def _word(self, column: int) -> Tree:
        tokens, word = self.tokens, self.tokens.value
        if word in _CONSTANTS:
            tokens.advance()
            return Literal(_CONSTANTS[word], column)
        if word in _WORDS:
            raise self.unexpected()
        if tokens.is_before_parenthesis():
            return self._call(word, column)
        if word not in ROOTS:
            near = nearest(word, ROOTS)
            hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(ROOTS)}"
            raise BadExpression(f"a path starts with {word[:40]!r}: {hint}", column, "unknown_root", near)
        return self._path(word, column)

    def _call(self, name: str, column: int) -> Tree:
        if name not in FUNCTIONS:
            near = nearest(name, FUNCTIONS)
            hint = f"did you mean {near!r}?" if near else f"the functions are {', '.join(FUNCTIONS)}"
            raise BadExpression(f"{name[:40]!r} is no function: {hint}", column, "unknown_function", near)
        self.tokens.advance()
        self.tokens.advance()
        arguments = self._separated(")")
        function = FUNCTIONS[name]
        if not function.least <= len(arguments) <= function.most:
            raise BadExpression(
                f"{name} has {len(arguments)} arguments: write {signature(name)}", column, "wrong_arguments"
            )
        if name == HAS and not isinstance(arguments[0], Path):
            raise BadExpression("has takes a path: write has(input.name)", column, "wrong_arguments")
        return self._with_members(FunctionCall(name, arguments, column), ")", column)

    def _path(self, root: str, column: int) -> Path:
        tokens = self.tokens
        segments = tokens.segments(tokens.start)
        text = _path_text(tokens, column)
        if root == "mapIndex" and segments:
            raise BadExpression("mapIndex is a number and has no parts", column, "bad_path")
        step = _step_of(root, segments, column)
        return Path(
            text=text,
            root=root,
            step=step,
            path=_keys(segments if step is None else segments[1:]),
            segments=segments,
            column=column,
        )


def _step_of(root: str, segments: tuple[Segment, ...], column: int) -> str | None:
    """The step of a path into `steps`. `status` and `errors` may stand alone, and know steps by name, too."""
    key = segments[0].key if segments else None
    is_wrong = root in ("status", "errors") and key is not None and not isinstance(key, str)
    if is_wrong or (root == "steps" and not isinstance(key, str)):
        raise BadExpression(f"names no step: write {root}.<step id>", column, "no_step")
    return key if root == "steps" and isinstance(key, str) else None


def _path_text(tokens: Tokens, column: int) -> str:
    return tokens.text[column - 1 : tokens.start].rstrip()


def _keys(segments: tuple[Segment, ...]) -> tuple[str | int, ...]:
    keys: list[str | int] = []
    for each in segments:
        if isinstance(each.key, Each):
            break
        keys.append(each.key)
    return tuple(keys)
