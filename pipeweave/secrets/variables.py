"""Values in environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.secrets.provider import readable


class SecretVariables:
    """Variables whose names begin alike: `DB-PASSWORD` and `DB.PASSWORD` are in `SECRET_DB_PASSWORD`.

    Args:
        environ: the variables.
        begin: how their names begin.
    """

    def __init__(self, environ: Mapping[str, str], begin: str) -> None:
        self._values = {name: text for name, text in environ.items() if name.startswith(begin)}
        self._begin = begin

    def get(self, place: str) -> str | None:
        name = self._begin + place.replace("-", "_").replace(".", "_")
        value = self._values.get(name, self._values.get(name.upper()))
        return None if value is None else readable(value.encode(errors="surrogateescape"), place)
