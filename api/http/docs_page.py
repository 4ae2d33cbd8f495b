"""Renders the OpenAPI document as one HTML page, `/docs`, which loads nothing from other hosts."""

from __future__ import annotations

import functools
import re
from typing import Any

from flask import Flask, Response, current_app, redirect, render_template
from markupsafe import Markup, escape
from werkzeug.wrappers import Response as AnyResponse

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
METHODS = ("get", "put", "post", "patch", "delete")


def register(app: Flask) -> None:
    """Add the page `/docs` to the app."""
    # Anyone may ask for it, so it is made once.
    app.extensions["pipeweave.docs_html"] = functools.cache(_html)
    app.add_url_rule("/docs", "pages.docs", docs, methods=["GET"])
    app.jinja_env.filters["prose"] = prose
    app.jinja_env.filters["type_text"] = type_text
    app.jinja_env.filters["constraints"] = constraints


def home() -> AnyResponse:
    """Redirect to `/docs`."""
    return redirect("/docs")


def docs() -> Response:
    """The page: every operation by tag, then every schema."""
    html: bytes = current_app.extensions["pipeweave.docs_html"]()
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Referrer-Policy": "no-referrer"}
    return Response(html, headers=headers, content_type="text/html; charset=utf-8")


def _html() -> bytes:
    document = current_app.extensions["pipeweave.openapi"]()
    return render_template(
        "docs.html",
        document=document,
        operations=operations(document),
        schemas=document["components"]["schemas"],
    ).encode()


def operations(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The operations by tag, each with its method and path. References are resolved one level deep."""
    by_tag: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in document["tags"]}
    shared = document["components"]
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            operation = item[method]
            parameters = [_resolved(part, shared) for part in operation.get("parameters", [])]
            responses = {code: _resolved(part, shared) for code, part in operation["responses"].items()}
            by_tag[operation["tags"][0]].append(
                {
                    **operation,
                    "method": method,
                    "path": path,
                    "parameters": parameters,
                    "responses": responses,
                }
            )
    return by_tag


def _resolved(part: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in part:
        return part
    _, _, kind, name = part["$ref"].split("/")
    resolved: dict[str, Any] = components[kind][name]
    return resolved


def prose(text: str) -> Markup:
    """A description as HTML: paragraphs, with text between backticks as code."""
    marked = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text.strip())))
    return Markup("".join(f"<p>{paragraph}</p>" for paragraph in marked.split("\n\n")))


def type_text(schema: dict[str, Any]) -> str:
    """A schema's type in a few words: `string`, `list of integer`, `Run or null`."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for kind in ("anyOf", "oneOf"):
        if kind in schema:
            return " or ".join(dict.fromkeys(type_text(option) for option in schema[kind]))
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return " | ".join(map(repr, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_text(schema.get('items', {}))}"
    type_names = schema.get("type", "any JSON")
    return " or ".join(type_names) if isinstance(type_names, list) else str(type_names)


_SHOWN = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "minLength": "min length",
    "maxLength": "max length",
    "minItems": "min items",
    "maxItems": "max items",
    "pattern": "pattern",
    "default": "default",
}


def constraints(schema: dict[str, Any]) -> str:
    """A schema's limits and default in a few words."""
    shown = [f"{words} {schema[key]}" for key, words in _SHOWN.items() if schema.get(key) is not None]
    return ", ".join(shown)
