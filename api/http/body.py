"""Parses and checks the body and the query parameters of a request.

JSON allows values that PostgreSQL or a 64-bit reader cannot take (NUL characters, numbers of any size). They
are refused here, with their place in the body, before anything is stored.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any, TypeVar, get_origin

from flask import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge

from pipeweave.api.contract.requests import Request as JsonRequest
from pipeweave.api.http.validation_errors import MAX_FIELD_ERRORS, field_errors, summary
from pipeweave.errors import FieldError, InvalidInput, MalformedJson, UnsupportedMediaType
from pipeweave.json_values import json_faults
from pipeweave.size_limits import MAX_JSON_DEPTH

Model = TypeVar("Model", bound=BaseModel)

_JSON = "application/json"
# Bytes of a body that is read at once, without werkzeug's stream that counts.
_SMALL = 65_536
# Most bodies contain none of these. Only a body that does is checked value by value.
_SUSPICIOUS = re.compile(rb"\\u0000|NaN|Infinity|[0-9]{17}|[eE]\+?[0-9]{3}")


def read_body(request: Request, model: type[Model], *, is_optional: bool = False) -> Model:
    """Parse the body of the request into the model.

    Raises:
        UnsupportedMediaType: the Content-Type is not application/json, or the body is compressed.
        PayloadTooLarge: the body is larger than the limit (werkzeug's 413, translated in errors.py).
        MalformedJson: the body is not JSON, not UTF-8, nested too deep, or has a key twice in one object.
        InvalidInput: the body does not fit the model; one FieldError per field.
    """
    is_json = request.environ.get("CONTENT_TYPE") == _JSON or request.mimetype == _JSON
    if not is_json and not (is_optional and not _has_body(request)):
        media_type = request.mimetype or "no content type"
        raise UnsupportedMediaType(
            f"the body is {media_type[:100]}, not application/json",
            hint="send Content-Type: application/json",
        )
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise UnsupportedMediaType(
            f"the body is compressed ({coding[:100]}), and none is unpacked", hint="send it as it is"
        )
    content = content_of(request)
    return parse_body(b"{}" if is_optional and not content else content, model)


def parse_body(content: bytes, model: type[Model]) -> Model:
    """Parse JSON into the model of a body.

    Raises:
        MalformedJson: as `read_body`.
        InvalidInput: as `read_body`.
    """
    try:
        parsed = model.model_validate_json(content)
    except ValidationError as error:
        raise _refusal(error, model, content) from None
    _refuse(content)
    return parsed


def parse_json(content: bytes) -> Any:
    """Parse a body that may hold any JSON value.

    Raises:
        MalformedJson: it is not JSON, not UTF-8, nested too deep, or has a key twice in one object.
        InvalidInput: it holds a value that cannot be stored.
    """
    try:
        parsed = from_json(content)
    except ValueError as error:
        raise MalformedJson(f"the body is not JSON: {error}"[:500]) from None
    _refuse(content)
    return parsed


def _refuse(content: bytes) -> None:
    _refuse_repeated_keys(content)
    if _SUSPICIOUS.search(content):
        _refuse_unstorable(from_json(content))


def parse_query(names: MultiDict[str, str], model: type[Model] | None) -> Model | None:
    """Parse the query parameters into the model. Without a model, no parameter is allowed.

    Raises:
        InvalidInput: a parameter is unknown, wrong, or given more than once.
    """
    if model is None:
        if names:
            errors = [FieldError(name[:200], "is unknown", "unknown_field", "nothing") for name in names]
            raise InvalidInput("this path takes no query parameters", errors=errors[:MAX_FIELD_ERRORS])
        return None
    parameters: dict[str, Any] = {}
    errors = []
    lists = _list_names(model)
    for name, values in names.lists():
        if any("\0" in text for text in (name, *values)):
            errors.append(FieldError(name.replace("\0", ""), "has a NUL character", "invalid_string"))
        elif len(values) > 1 and name not in lists:
            errors.append(FieldError(name[:200], "is given more than once", "invalid"))
        parameters[name] = values if name in lists else values[0]
    if errors:
        raise InvalidInput(summary(errors, "the query"), errors=errors[:MAX_FIELD_ERRORS])
    try:
        return model.model_validate(parameters)
    except ValidationError as error:
        faults = [_of_parameter(each, names) for each in field_errors(error, model)]
        raise InvalidInput(summary(faults, "the query"), errors=faults) from None


def _of_parameter(error: FieldError, parameters: MultiDict[str, str]) -> FieldError:
    """A parameter that may be given several times, and was given once, is named as it was given."""
    name = error.field.removesuffix("[0]")
    return replace(error, field=name) if len(parameters.getlist(name)) == 1 else error


def content_of(request: Request) -> bytes:
    """The bytes of the body. Without a Content-Length, werkzeug cuts a large body at the limit."""
    environ = request.environ
    said = environ.get("CONTENT_LENGTH", "")
    is_digits = said.isascii() and said.isdigit() and "HTTP_TRANSFER_ENCODING" not in environ
    length = int(said) if is_digits else request.content_length
    if length is not None and length <= _SMALL:
        content = environ["wsgi.input"].read(length)
        if len(content) < length:
            raise ClientDisconnected
        return bytes(content)
    content = request.get_data(cache=False)
    is_at_limit = request.content_length is None and len(content) == request.max_content_length
    if is_at_limit and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge
    return content


def _has_body(request: Request) -> bool:
    return bool(request.content_length) or "chunked" in request.headers.get("Transfer-Encoding", "").lower()


def _refusal(error: ValidationError, model: type[BaseModel], content: bytes) -> InvalidInput:
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return MalformedJson(first["msg"].replace("Invalid JSON: ", "the body is not JSON: "))
    faults = field_errors(error, model)
    if issubclass(model, JsonRequest) and isinstance(document := from_json(content), dict):
        faults += [each for each in model.mistakes_between_fields(document) if each not in faults]
    return InvalidInput(summary(faults, "the body"), errors=faults[:MAX_FIELD_ERRORS])


def _refuse_repeated_keys(content: bytes) -> None:
    """Readers of JSON differ in which of two equal keys they take, so the caller must say it once."""
    # An object with two keys has two colons.
    if content.count(b":") > 1:
        _KEYS.decode(content.decode())


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        name = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)[:200]
        raise MalformedJson(
            f"the body has the key {name!r} more than once in one object",
            errors=[FieldError(name, "is given more than once in one object", "repeated_key")],
        )


_KEYS = json.JSONDecoder(object_pairs_hook=_refuse_repeated)


def _refuse_unstorable(value: Any) -> None:
    if errors := json_faults(value, max_depth=MAX_JSON_DEPTH):
        raise InvalidInput(f"{errors[0].field or 'the body'} {errors[0].message}", errors=errors)


def _list_names(model: type[BaseModel]) -> set[str]:
    return {
        info.alias or name
        for name, info in model.model_fields.items()
        if any(get_origin(kind) in (list, tuple) for kind in (info.annotation, *_options(info.annotation)))
    }


def _options(annotation: Any) -> tuple[Any, ...]:
    return getattr(annotation, "__args__", ())
