"""Turn the values of assets into bytes with a type, and back."""

from __future__ import annotations

import re
from typing import Any

import orjson

from pipeweave.errors import CorruptValue, FieldError, InvalidInput
from pipeweave.json_conversion import LEFT_TO_CONVERSION, to_json_value
from pipeweave.json_values import write_json

BINARY, TEXT, JSON = "binary", "text", "json"

CONTENT_TYPES = {JSON: "application/json", TEXT: "text/plain", BINARY: "application/octet-stream"}

KEY_EXPECTED = "1 to 200 letters, digits and . _ ~ : @ -, not dots alone"
# A key is part of a path, also on workers that know no other rule.
_KEY = re.compile(r"(?!\.+\Z)[A-Za-z0-9._~:@-]{1,200}\Z")


def checked_key(key: Any) -> str:
    """Return the key of an asset if it is valid.

    Raises:
        InvalidInput: it is not.
    """
    if isinstance(key, str) and _KEY.match(key):
        return key
    wrong = FieldError("key", f"must be {KEY_EXPECTED}", "invalid", KEY_EXPECTED)
    raise InvalidInput(f"{key!r:.220} is not the key of an asset", errors=[wrong])


def asset_bytes(value: Any) -> tuple[bytes, str]:
    """The content and the type of an asset.

    Raises:
        InvalidInput: the value is neither bytes nor a text, and is not JSON.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), BINARY
    if isinstance(value, str):
        try:
            return value.encode(), TEXT
        except UnicodeEncodeError as error:
            raise InvalidInput("the text holds half of a surrogate pair") from error
    converted, faults = to_json_value(value, "value")
    if faults:
        first = faults[0]
        raise InvalidInput(f"the asset is not JSON: {first.field} {first.message}", errors=faults)
    return write_json(converted, LEFT_TO_CONVERSION), JSON


def asset_value(content: bytes, type_: str) -> Any:
    """The value of an asset: JSON parsed, a text decoded, bytes of any other type.

    Raises:
        CorruptValue: the content is not what its type says.
    """
    try:
        if type_ == JSON:
            return orjson.loads(content)
        return content.decode() if type_ == TEXT else content
    except ValueError as error:
        raise CorruptValue(f"an asset of type {type_} cannot be read: {error}") from error
