"""Write and read references: texts that name an object by its storage backend and its path.

A row of PostgreSQL holds a reference, so that a value is read from the backend that it was written to, also
after another backend became the default (docs/decisions/0023-references-name-their-backend.md).
"""

from __future__ import annotations

from dataclasses import dataclass

# No valid path has an empty part, so this stands in no path.
_BETWEEN = "//"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The backend's id and the path of an object; as a text `main//artifacts/sha256/ab/…`."""

    backend: str
    path: str

    def __str__(self) -> str:
        return f"{self.backend}{_BETWEEN}{self.path}"

    @classmethod
    def parse(cls, text: str, default_backend: str) -> ObjectRef:
        """Read a reference; a text of an older version is a path alone, in the default backend."""
        backend, between, path = text.partition(_BETWEEN)
        return cls(backend, path) if between else cls(default_backend, text)


def plain_path(text: str) -> str:
    """The path of a reference."""
    return text.partition(_BETWEEN)[2] or text


def backend_of(text: str) -> str | None:
    """The backend's id of a reference; None in a text of an older version."""
    backend, between, _ = text.partition(_BETWEEN)
    return backend if between else None
