"""Notice changed source files for `up --reload`, by looking at their times.

Looking works on every file system, also on mounts of containers and networks that report no changes, and
needs no further package (docs/decisions/0021-reload-by-looking.md). It takes at most a twentieth of one
processor.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

# Seconds between two looks; longer where a look takes long.
PAUSE_S = 0.2
PAUSE_PER_LOOK = 20
# Folders that hold no code of the app, next to hidden ones and virtual environments.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}
# A change of a test changes no task.
_TESTS = ("test_", "conftest")
_DOCUMENTS = (".yaml", ".yml", ".json")

State = dict[str, tuple[int, int]]


class FileWatch:
    """Calls `on_change` with the names of the files that changed, once they do not change any more.

    Args:
        apps: modules, files and folders, as `--app` has them.
        cwd: the folder from which modules are imported; it is watched with all its folders.
        on_change: called in the thread of the watch.
    """

    def __init__(self, apps: Iterable[str], cwd: Path, on_change: Callable[[list[str]], None]) -> None:
        self._cwd = cwd
        self._roots = _roots(apps, cwd)
        self._documents = _document_places(apps, cwd)
        self._on_change = on_change
        self._ended = threading.Event()
        self._known = self.look()

    def start(self) -> None:
        """Begin to watch, in a thread."""
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._ended.set()

    def look(self) -> State:
        """The time and size of every watched file."""
        return dict(self._files())

    def _watch(self) -> None:
        changed: set[str] = set()
        pause = PAUSE_S
        while not self._ended.wait(pause):
            began = time.thread_time()
            state = self.look()
            pause = max(PAUSE_S, PAUSE_PER_LOOK * (time.thread_time() - began))
            fresh = {
                each for each in state.keys() | self._known.keys() if state.get(each) != self._known.get(each)
            }
            self._known = state
            changed |= fresh
            # An editor or a checkout writes several files: act when a look finds nothing new.
            if changed and not fresh:
                self._on_change(sorted(self._shown(each) for each in changed))
                changed = set()

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        for root in self._roots:
            yield from _sources(root)
        for place in self._documents:
            yield from _documents(place)

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self._cwd) if path.startswith(f"{self._cwd}{os.sep}") else path


def _roots(apps: Iterable[str], cwd: Path) -> list[str]:
    """The folders to watch: the current one, and those of apps elsewhere, none inside another."""
    folders = {cwd.resolve()}
    for app in apps:
        path = (cwd / app).resolve()
        if path.is_dir():
            folders.add(path)
        elif path.is_file():
            folders.add(path.parent)
    return [str(each) for each in sorted(folders) if not any(other in each.parents for other in folders)]


def _document_places(apps: Iterable[str], cwd: Path) -> list[str]:
    """Where pipeline documents lie: folders that are apps, and apps that are documents."""
    places = ((cwd / app).resolve() for app in apps)
    return [str(each) for each in places if each.is_dir() or each.suffix in _DOCUMENTS]


def _sources(folder: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(entry.path)
        elif entry.name.endswith(".py") and not entry.name.startswith(_TESTS):
            yield from _state(entry.path)


def _documents(place: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        names = os.listdir(place)
    except NotADirectoryError:
        yield from _state(place)
        return
    except OSError:
        return
    for name in names:
        if name.endswith(_DOCUMENTS) and not name.startswith("."):
            yield from _state(os.path.join(place, name))


def _state(path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield path, (status.st_mtime_ns, status.st_size)
