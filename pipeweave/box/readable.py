"""What a box may read: the interpreter and its libraries, the modules of an app, zones and certificates."""

from __future__ import annotations

import os
import ssl
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from pipeweave.box.landlock import READ, READ_DIR

# What the loader of programs and the interpreter's libraries read.
_SYSTEM = (
    *("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/etc/ld.so.cache", "/etc/localtime", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs"),
    *("/etc/pki/ca-trust/extracted", "/usr/share/ca-certificates", "/etc/mime.types"),
    *("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"),
)
_MODULES = (".py", ".pyc", ".pyi", ".so", ".pyd", ".typed")


def of_interpreter() -> Iterator[Path]:
    """What exists of this interpreter's own files, and of the system's libraries, to be read as a whole."""
    places = [
        *_SYSTEM,
        *(sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")),
    ]
    paths = ssl.get_default_verify_paths()
    places += [paths.openssl_cafile, paths.openssl_capath, paths.cafile or "", paths.capath or ""]
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        places += [f"{prefix}/lib", f"{prefix}/lib64", f"{prefix}/pyvenv.cfg"]
    places += _installed_in_place()
    return (Path(each) for each in dict.fromkeys(places) if each and os.path.exists(each))


def of_path() -> Iterator[Path]:
    """The further folders of `sys.path`, such as those of packages that are installed in place."""
    known = tuple(f"{each}/" for each in of_interpreter())
    return (Path(each) for each in sys.path if os.path.isdir(each) and not f"{each}/".startswith(known))


def _installed_in_place() -> list[str]:
    """The folders of packages that are installed in place (`pip install -e`), and of this one."""
    own = Path(__file__).resolve().parent.parent
    finders = [each for name, each in sys.modules.items() if name.startswith("__editable__")]
    mapped = [path for each in finders for path in getattr(each, "MAPPING", {}).values()]
    return [str(own), *(str(each) for each in mapped)]


def of_modules(root: Path) -> Iterator[tuple[Path, int]]:
    """The rights to import modules from a folder, as rules: its packages and modules, and nothing else of it.

    A project's folder holds secrets, too (`.env`, the data of `pipeweave up`).
    """
    yield root, READ_DIR
    for entry in sorted(os.scandir(root), key=lambda each: each.name):
        if entry.name.startswith("."):
            continue
        is_module = entry.is_file() and entry.name.endswith(_MODULES)
        if is_module or (entry.is_dir() and _is_package(Path(entry.path))):
            yield Path(entry.path), READ


def _is_package(folder: Path) -> bool:
    if folder.name == "__pycache__":
        return True
    if not folder.name.isidentifier():
        return False
    try:
        return any(
            each.suffix in (".py", ".so") or (each / "__init__.py").exists() for each in folder.iterdir()
        )
    except OSError:
        return False  # a folder of somebody else
