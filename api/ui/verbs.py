"""Defines the verbs that the dashboard offers: each asks before it acts, and shows what it will send.

A verb is an endpoint of the API with a question, fields and a command of the CLI. Its page works without
scripts; with scripts the same page opens in a dialog.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from pipeweave.api.ui.clock_times import from_clocks
from pipeweave.api.ui.view import View
from pipeweave.errors import FieldError, InvalidInput

# A change of more objects than this is confirmed by typing their number.
TYPED_ABOVE = 100
# Numbers of a field are smaller, so that JSON holds them.
_TOO_LARGE = 10**18

Kind = Literal[
    "text",
    "area",
    "email",
    "url",
    "date",
    "moment",
    "number",
    "boolean",
    "truth",
    "json",
    "choice",
    "several",
    "lines",
    "hidden",
    "list",
]


@dataclass(frozen=True, slots=True)
class Field:
    """A member of the body that the person may give.

    Args:
        name: of the member; with dots, of a member of a member.
        label: before the field.
        about: a sentence below the field.
        kind: a `list` is hidden, and has the values of all parameters with its name, as have `several` of
            some choices; a `hidden` number has `number` as its `items`; `lines` are plain values, one a line;
            a `truth` is chosen as true or false; a `moment` is typed as the clocks of `zone` show it.
        choices: values of a `choice` with their words.
        default: what the field shows at first.
        if_empty: JSON that counts where the field stays empty; empty: nothing does.
        flag: the option of the command that has the same meaning, e.g. `--reason`.
        is_required: whether the field may not be empty.
        is_wanted: whether the endpoint wants it; the endpoint says so where it is missing.
        items: of `lines`, what each is.
        schema: JSON that says what belongs in the field.
        zone: of a `moment`, the IANA name.
        is_further: it stands below a heading that opens, since few need it.
    """

    name: str
    label: str
    kind: Kind = "text"
    about: str = ""
    choices: Sequence[tuple[str, str]] = ()
    default: str = ""
    if_empty: str = ""
    flag: str | None = None
    is_required: bool = False
    is_wanted: bool = False
    items: Kind = "text"
    schema: str | None = None
    zone: str = "UTC"
    is_further: bool = False


REASON = Field("reason", "Reason", about="People read it in the events of the run.", flag="--reason")


@dataclass(frozen=True, slots=True)
class Effects:
    """What a verb would do now.

    Args:
        sentences: in numbers, e.g. `cancels 1 run: 3 task runs run, 412 wait`.
        count: how many objects it changes.
        typed: what the person types to confirm, such as a name; empty: the count, where it is large.
        sample: some of them, as text.
        plan: of a run that would start; see `run_plan`.
        title: what it is about, as the heading; empty: the question of the verb.
    """

    sentences: Sequence[str] = ()
    count: int = 1
    sample: Sequence[str] = ()
    plan: Mapping[str, Any] | None = None
    typed: str = ""
    title: str = ""

    @property
    def to_type(self) -> str:
        """What is typed to confirm; empty: nothing."""
        return self.typed or (str(self.count) if self.count > TYPED_ABOVE else "")


def _nothing_more(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    return Effects()


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    Args:
        operation: the endpoint's operation id.
        label: on the button, e.g. `Cancel run`.
        question: the heading of its page, e.g. `Cancel this run?`
        done: told afterwards, e.g. `The run is cancelled.`
        command: the same in a terminal, e.g. `pipeweave cancel {id}`; empty: the CLI has none.
        effects: what it would do now; gets the view, the ids and the body.
        body: members of the body that are always sent.
        after: the path of the screen that follows, with members of the answer in braces; empty: the one it
            was asked on.
        is_dangerous: it ends or removes something.
        fields_of: gives the fields where they depend on what it is done to.
        options: further words of the command, which the body gives.
        shows: the template of a page that shows the answer, once, instead of a screen that follows.
        takes_tenant: whether the command has `--tenant` for the tenant of the page.
        each: a field of the kind `list` whose values are ids: the endpoint is called for one after the other.
    """

    operation: str
    label: str
    question: str
    done: str
    command: str = ""
    fields: Sequence[Field] = ()
    effects: Callable[[View, Mapping[str, str], Any], Effects] = _nothing_more
    body: Mapping[str, Any] = field(default_factory=dict)
    after: str = ""
    is_dangerous: bool = False
    fields_of: Callable[[View], Sequence[Field]] | None = None
    options: Callable[[Any], Sequence[str]] | None = None
    shows: str = ""
    takes_tenant: bool = True
    each: str = ""

    def of(self, view: View) -> Verb:
        """The verb with the fields that it has here."""
        return self if self.fields_of is None else replace(self, fields=self.fields_of(view))

    def parameters(self, view: View) -> dict[str, str]:
        """The parameters of the address; the values of a list as one text, moments with their offset."""
        joined = {
            each.name: _SEPARATORS[each.kind].join(view.lists[each.name])
            for each in self.fields
            if each.kind in _SEPARATORS and each.name in view.lists
        }
        moments = {
            each.name: from_clocks(view.parameters[each.name].strip(), each.zone)
            for each in self.fields
            if each.kind == "moment" and each.name in view.parameters
        }
        return {**view.parameters, **joined, **moments}

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The body that these fields make.

        Raises:
            InvalidInput: a number or JSON field holds something else; all mistakes at once.
        """
        body: dict[str, Any] = json.loads(json.dumps(dict(self.body)))
        wrong: list[FieldError] = []
        for each in self.fields:
            text = texts.get(each.name, "" if each.kind == "boolean" else each.default).strip()
            if not text and each.kind != "boolean":
                if each.is_required:
                    wrong.append(FieldError(each.name, "is required", "required"))
                continue
            try:
                _put(body, each.name, _value(each, text))
            except ValueError as error:
                wrong.append(FieldError(each.name, str(error), "invalid"))
        if wrong:
            shown = "; ".join(f"{each.field} {each.message}" for each in wrong)
            raise InvalidInput(shown, errors=wrong)
        return body

    def line(self, ids: Mapping[str, str], texts: Mapping[str, str], tenant: str, body: Any = None) -> str:
        """The command for a terminal; empty without one."""
        if not self.command:
            return ""
        shown = {each.name: each.default for each in self.fields if each.default}
        quoted = {name: shlex.quote(text) for name, text in {**shown, **texts, **ids}.items()}
        parts = [self.command.format_map(_Blank(quoted))]
        for each in self.fields:
            text = texts.get(each.name, each.default).strip()
            values = _words(each, text)
            if each.flag and text:
                parts += [
                    each.flag if each.kind == "boolean" else f"{each.flag} {shlex.quote(value)}"
                    for value in values
                ]
        if self.options is not None:
            parts += map(shlex.quote, self.options(body or {}))
        if self.takes_tenant and tenant != "default":
            parts.append(f"--tenant {shlex.quote(tenant)}")
        return " ".join(parts)


# How the values of fields are joined that have several.
_SEPARATORS = {"list": "\x1f", "several": "\n"}


class _Blank(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return name.upper()


def _words(field: Field, text: str) -> list[str]:
    """What the option of a field is given, once for each value."""
    if field.kind == "lines":
        return [each.strip() for each in text.splitlines() if each.strip()]
    separator = _SEPARATORS.get(field.kind)
    return text.split(separator) if separator else [text]


def _value(field: Field, text: str) -> Any:
    if field.kind == "boolean":
        return text in ("on", "true", "1")
    if field.kind in ("list", "several"):
        return [each for each in text.split(_SEPARATORS[field.kind]) if each.strip()]
    if field.kind == "lines":
        one = replace(field, kind=field.items)
        return [_value(one, each.strip()) for each in text.splitlines() if each.strip()]
    if field.kind == "truth":
        if text not in ("true", "false"):
            raise ValueError("must be true or false")
        return text == "true"
    if field.kind == "number" or (field.kind == "hidden" and field.items == "number"):
        return _number(text)
    if field.kind == "json":
        try:
            # As the API reads a body: it takes neither NaN nor half a character.
            return orjson.loads(text)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from None
    return text


def _number(text: str) -> float:
    try:
        value = int(text) if text.removeprefix("-").isdecimal() else float(text)
    except ValueError:
        raise ValueError("must be a number") from None
    if not abs(value) < _TOO_LARGE:
        raise ValueError("must be a number of at most 18 digits")
    return value


def _put(body: dict[str, Any], name: str, value: Any) -> None:
    *parents, last = name.split(".")
    for parent in parents:
        body = body.setdefault(parent, {})
    body[last] = value


class Verbs:
    """The table of verbs, by operation id and, where an endpoint has several, a name after a colon."""

    def __init__(self) -> None:
        self.rows: dict[str, Verb] = {}

    def add(self, verb: Verb, name: str | None = None) -> Verb:
        """Add a verb.

        Args:
            name: tells verbs of one endpoint apart, e.g. `retry-all` of `dead_letters.retry_all:canary`.
        """
        key = f"{verb.operation}:{name}" if name else verb.operation
        assert key not in self.rows, f"{key} is there already"
        self.rows[key] = verb
        return verb


VERBS = Verbs()
