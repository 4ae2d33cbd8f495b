"""Say which extra of the package a command needs, where one of its packages is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from pipeweave.errors import MissingExtra

# Packages of the extras, by the name they are imported with.
_PACKAGES = frozenset(
    {"alembic", "billiard", "celery", "flask", "flower", "gunicorn", "hiredis", "kombu", "psycopg2", "redis"}
    | {"cryptography", "sqlalchemy", "waitress", "werkzeug"}
)
# Command -> the extra that has all it needs; the other commands that need one need `server`.
_EXTRAS = {"up": "up", "demo": "up", "worker": "worker", "beat": "worker", "http-worker": "http"}


def check_up() -> None:
    """Look for the packages of `up` before it starts a server.

    Raises:
        ModuleNotFoundError: one is not installed.
    """
    for package in ("alembic", "celery", "flask", "gunicorn", "sqlalchemy"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def missing_extra(command: str | None, error: ModuleNotFoundError) -> MissingExtra | None:
    """The error to show instead of a ModuleNotFoundError; None if the module is not of an extra."""
    package = (error.name or "").partition(".")[0]
    if package not in _PACKAGES:
        return None
    extra = _EXTRAS.get(command or "", "server")
    return MissingExtra(
        f"`pipeweave {command}` needs packages that are not installed ({package})",
        hint=f"pip install 'pipeweave[{extra}]'",
    )
