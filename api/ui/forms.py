"""Makes the fields of a form from an input schema, as `pipeweave.schema` defines it (pure).

A form has texts, numbers, dates, choices, lists of plain values and objects two deep. What is deeper, or may
be anything, is a field for JSON. Whether the input is right is for the API to say, which names each mistake
by the name of its field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipeweave.api.ui.verbs import Field, Kind

# Characters of a default that a field shows.
_LONGEST_DEFAULT = 60
# Objects in objects that have fields of their own.
MOST_DEEP = 2
# Kinds of fields that show their value as it is.
_PLAIN: Mapping[str, Kind] = {
    "string": "text",
    "textarea": "area",
    "email": "email",
    "url": "url",
    "number": "number",
    "integer": "number",
    "date": "date",
    "datetime": "text",
    "file": "text",
}
_SAMPLES = {"datetime": "such as 2026-11-22T09:30:00Z", "file": "the id of an upload, `tmp_…`"}
_BOUNDS = {
    "min": "at least",
    "max": "at most",
    "minLength": "characters at least",
    "maxLength": "characters at most",
}
_NOTHING = object()


def fields_of(
    schema: Mapping[str, Any] | None,
    value: Any,
    prefix: str = "input",
    defaults: Mapping[str, Any] | None = None,
) -> list[Field]:
    """The fields for an input; one JSON field where there is no schema.

    Args:
        schema: {"fields": […]}; None: any JSON.
        value: what the form shows at first; its defaults fill the rest.
        prefix: the member of the body that the input is.
        defaults: of the pipeline: what counts where a member of the input is not given.
    """
    listed = (schema or {}).get("fields") or []
    if not listed or any(_is_awkward(each) for each in listed):
        return [_json(prefix, "Input", schema, {} if value is None else value)]
    fields = list(_members(listed, value if isinstance(value, Mapping) else {}, prefix, 1))
    known = (defaults or {}).items()
    texts = {f"{prefix}.{name}": _short(each) for name, each in known if each is not None}
    return [_with_default(each, texts[each.name]) if each.name in texts else each for each in fields]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_DEFAULT else text[: _LONGEST_DEFAULT - 1] + "…"


def _with_default(field: Field, text: str) -> Field:
    """The field, which says what counts where it stays empty, in its own place or as its empty choice."""
    choices = [(key, words if key else f"{text} by default") for key, words in field.choices]
    # No browser shows such a text in a date, or beside boxes.
    is_beside = field.kind in ("date", "several")
    about = "; ".join(filter(None, (field.about, f"{text} by default"))) if is_beside else field.about
    return replace(field, if_empty=text, choices=choices, about=about)


def as_json(schema: Mapping[str, Any] | None, value: Any, prefix: str = "input") -> list[Field]:
    """One field for the whole input."""
    return [_json(prefix, "Input", schema, {} if value is None else value)]


def _is_awkward(field: Mapping[str, Any]) -> bool:
    # A dot in a name would mean a member of a member.
    return "." in str(field["name"]) or any(_is_awkward(each) for each in field.get("properties") or ())


def _members(
    listed: Sequence[Mapping[str, Any]], value: Mapping[str, Any], path: str, depth: int
) -> Iterator[Field]:
    for each in listed:
        name, default = f"{path}.{each['name']}", value.get(each["name"], each.get("default", _NOTHING))
        inner = each.get("properties")
        if each["type"] == "object" and inner and depth < MOST_DEEP:
            within = default if isinstance(default, Mapping) else {}
            for field in _members(inner, within, name, depth + 1):
                yield _below(each, field)
        else:
            yield _field(each, name, default)


def _below(parent: Mapping[str, Any], field: Field) -> Field:
    label = f"{parent.get('label') or parent['name']} · {field.label}"
    return Field(**{**_members_of(field), "label": label})


def _members_of(field: Field) -> dict[str, Any]:
    return {name: getattr(field, name) for name in Field.__dataclass_fields__}


def _field(each: Mapping[str, Any], name: str, default: Any) -> Field:
    label, kind = str(each.get("label") or each["name"]), str(each["type"])
    required = bool(each.get("required"))
    common: dict[str, Any] = {"about": _about(each), "is_wanted": required and not each.get("nullable")}
    if kind in _PLAIN and not _is_other(default):
        return Field(name, label, _PLAIN[kind], default=_text(default), **common)
    if kind == "boolean" and not _is_other(default):
        words = [("true", "yes"), ("false", "no")]
        choices = words if required else [("", "not given"), *words]
        return Field(name, label, "truth", choices=choices, default=_text(default), **common)
    if kind in ("select", "multiselect") and (options := _options(each)):
        if kind == "multiselect":
            chosen = "\n".join(_text(value) for value in default) if isinstance(default, list) else ""
            return Field(name, label, "several", choices=options, default=chosen, **common)
        choices = options if required else [("", "not given"), *options]
        return Field(name, label, "choice", choices=choices, default=_text(default), **common)
    item = (each.get("items") or {}).get("type")
    if kind == "array" and item in _PLAIN and _is_plain_list(default):
        lines = "" if default is _NOTHING else "\n".join(_text(value) for value in default)
        items: Kind = "number" if item in ("number", "integer") else "text"
        about = "One a line. " + common.pop("about")
        return Field(name, label, "lines", about=about, default=lines, items=items, **common)
    return _json(name, label, each, _NOTHING if default is _NOTHING else default, **common)


def _json(name: str, label: str, schema: Any, value: Any, **common: Any) -> Field:
    text = "" if value is _NOTHING else json.dumps(value, indent=2, ensure_ascii=False)
    shown = None if schema is None else json.dumps(schema, indent=2, ensure_ascii=False)
    about = common.pop("about", "") or "JSON"
    return Field(name, label, "json", about=about, default=text, schema=shown, **common)


def _is_plain_list(value: Any) -> bool:
    return value is _NOTHING or (
        isinstance(value, list) and all(isinstance(each, str | int | float) for each in value)
    )


def _is_other(value: Any) -> bool:
    """Whether the field could not show the value."""
    return isinstance(value, list | Mapping)


def _text(value: Any) -> str:
    if value is _NOTHING or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _options(each: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Values with their labels; none where a value is no text, which a form could not send as what it is."""
    options = each.get("options") or []
    if not all(isinstance(option.get("value"), str) for option in options):
        return []
    return [(option["value"], str(option.get("label") or option["value"])) for option in options]


def _about(each: Mapping[str, Any]) -> str:
    phrases = [str(each[name]) for name in ("description", "helpText") if each.get(name)]
    phrases += [
        f"{words} {each[name]}" if "at" in words[:2] else f"{each[name]} {words}"
        for name, words in _BOUNDS.items()
        if each.get(name) is not None
    ]
    if each["type"] in _SAMPLES:
        phrases.append(_SAMPLES[each["type"]])
    if each.get("pattern"):
        phrases.append(f"matches `{each['pattern']}`")
    return "; ".join(phrases)
