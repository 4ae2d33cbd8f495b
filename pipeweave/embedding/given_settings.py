"""Read settings that a program gives as arguments, with the checks of those in the environment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import Settings, load
from pipeweave.settings.table import TABLE
from pipeweave.suggestions import nearest

_NAMES = {setting.field: setting.name for setting in TABLE}


def read(fields: Mapping[str, Any]) -> Settings:
    """The settings with these values, and the defaults of all others; the environment is not read.

    Args:
        fields: by the field of Settings, such as `database_url`. A value may be of its type, or the text that
            the variable would have; None leaves the default.

    Raises:
        InvalidSetting: a name is unknown, or a value is wrong; one FieldError for each.
    """
    unknown = [_unknown(name) for name in fields if name not in _NAMES]
    if unknown:
        raise InvalidSetting(f"{unknown[0].field} {unknown[0].message}", errors=unknown)
    return load({_NAMES[name]: _text(value) for name, value in fields.items() if value is not None})


def _unknown(name: str) -> FieldError:
    near = nearest(name, _NAMES)
    return FieldError(
        name, "is no setting" + (f"; did you mean {near!r}?" if near else ""), "unknown_setting"
    )


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return json.dumps(value) if isinstance(value, list | tuple | dict) else str(value)
