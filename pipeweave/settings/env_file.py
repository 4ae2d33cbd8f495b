"""Read a `.env` file: variables for those that the environment does not set.

python-dotenv reads the lines. Nothing in them is executed or expanded: `$HOME` and `${X}` are text. What the
environment says about a setting wins over the file, however either of them spells the name, so that a shell
or a container changes one setting without the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings.database_url import DATABASE_PARTS
from pipeweave.settings.table import PREFIX, TABLE

NAME = "PIPEWEAVE_ENV_FILE"
DEFAULT = ".env"

# A larger file is none of settings.
_MAX_BYTES = 1_000_000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_HOW = "write NAME=value, a comment after #, or quotes around a value; nothing is executed"


def additions(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the file that the environment leaves open.

    The file is `.env` of the working directory, if there is one, or the one that `PIPEWEAVE_ENV_FILE` names.

    Args:
        environ: the variables that are set. One that is set to nothing is set: it switches the file's off.

    Raises:
        InvalidSetting: a line cannot be read, or the file that is named cannot; with the numbers of lines.
    """
    named = environ.get(NAME, "").strip()
    text = _content(Path(named or DEFAULT), must_exist=bool(named))
    if text is None:
        return {}
    pairs = _pairs(named or DEFAULT, text)
    closed = _closed(environ)
    return {name: value for name, value in pairs.items() if name not in environ and name not in closed}


def _content(path: Path, *, must_exist: bool) -> str | None:
    try:
        if not must_exist and not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise _unusable(path, f"is larger than {_MAX_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unusable(path, "is not UTF-8 text") from error


def _unusable(path: Path, what: str) -> InvalidSetting:
    error = FieldError(NAME, f"names {path}, which {what}", "invalid")
    return InvalidSetting(f"{path} {what}", errors=[error], hint=f"{NAME} names the file; /dev/null for none")


def _pairs(path: str, text: str) -> dict[str, str]:
    # Imported where there is a file: most commands run without one.
    from io import StringIO

    from dotenv.parser import parse_stream

    pairs: dict[str, str] = {}
    errors = []
    for each in parse_stream(StringIO(text)):
        line = each.original.line + _blank_lines(each.original.string)
        if problem := _problem(each.key, each.value, is_unreadable=each.error):
            # Not the line itself: it may hold half of a secret.
            errors.append(FieldError(f"{path}:{line}", problem, "invalid"))
        elif each.key is not None:
            pairs[each.key] = each.value or ""
    if errors:
        detail = f"line {errors[0].field.rpartition(':')[2]} of {path} {errors[0].message}"
        raise InvalidSetting(detail, errors=errors, hint=_HOW)
    return pairs


def _blank_lines(text: str) -> int:
    """The number of line ends before the first word: the parser counts blank lines to what follows them."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def _problem(key: str | None, value: str | None, *, is_unreadable: bool) -> str | None:
    if is_unreadable:
        return "cannot be read: perhaps a quote is not closed, or something follows it"
    if key is None:
        return None
    if value is None or not _VARIABLE.match(key):
        return "is not NAME=value"
    if "\0" in value:
        return "has a value with a NUL character"
    if key == NAME:
        return f"sets {NAME}, which only the environment can"
    return None


def _closed(environ: Mapping[str, str]) -> set[str]:
    """The names of the settings that the environment sets, under any of their names."""
    set_names = {name for name, text in environ.items() if text.strip()}
    return {name for group in _groups() if group & set_names for name in group}


def _groups() -> Iterator[set[str]]:
    """Names that say the same thing. The plain ones of shared settings are not always meant for us."""
    parts = {name for names in DATABASE_PARTS.values() for name in names}
    for setting in TABLE:
        names = set(setting.names)
        if setting.field == "database_url":
            yield parts | {name for name in names if not name.startswith(PREFIX)}
            yield {PREFIX + name for name in parts} | {name for name in names if name.startswith(PREFIX)}
        elif not setting.is_shared:
            yield names
