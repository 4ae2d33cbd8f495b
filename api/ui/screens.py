"""Defines the rows of the table of screens: the path, the template, and what reads what it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeweave.api.http import Download, Lines


@dataclass(frozen=True, slots=True)
class ScreenPage:
    """What a screen shows.

    Args:
        title: of the window and of the page.
        shown: the variables of the template.
        status: the status that the window's title tells, e.g. `failed`.
        run: the id of the run that the page watches; a change of it makes the page look again.
    """

    title: str
    shown: Mapping[str, Any] = field(default_factory=dict)
    status: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """The page is elsewhere: at this address."""

    url: str


@dataclass(frozen=True, slots=True)
class LinesFile:
    """Lines of JSON, which a browser saves as a file with this name."""

    lines: Lines
    filename: str


Answered = ScreenPage | Redirect | Download | LinesFile


@dataclass(frozen=True, slots=True)
class Screen:
    """One row of the table.

    Args:
        path: below `/ui/{tenant}`, with ids as `<id>`.
        read: gets the view and the ids of the path.
        template: its file in `templates`; empty: it answers with a stored object, or with lines of JSON.
        nav: the entry of the navigation that it belongs to.
        every_s: seconds after which the page looks again that shows what no event tells; 0: only after
            events.
        is_personal: it says what a person may decide, so that others do not share what is computed for it.
    """

    path: str
    read: Callable[..., Answered]
    template: str
    nav: str
    every_s: float = 0
    is_personal: bool = False


class Screens:
    """The screens of one file: `@screens.add("/runs", "runs.html")` above each function.

    Args:
        nav: the entry of the navigation that they belong to, as NAV names it.
    """

    def __init__(self, nav: str) -> None:
        self.nav = nav
        self.rows: list[Screen] = []

    def add(
        self, path: str, template: str, *, every_s: float = 0, is_personal: bool = False
    ) -> Callable[[Callable[..., Answered]], Callable[..., Answered]]:
        """Add the decorated function to the table; the arguments are those of Screen."""

        def append(read: Callable[..., Answered]) -> Callable[..., Answered]:
            self.rows.append(Screen(path, read, template, self.nav, every_s, is_personal))
            return read

        return append

    def file(self, path: str) -> Callable[[Callable[..., Answered]], Callable[..., Answered]]:
        """Add the decorated function, which answers with a stored object, or with lines of JSON."""
        return self.add(path, "")


@dataclass(frozen=True, slots=True)
class NavigationEntry:
    """An entry of the navigation.

    Args:
        key: the key after `g` that opens it.
        begins_group: it stands a little apart from the entry before it.
    """

    name: str
    title: str
    path: str
    key: str
    begins_group: bool = False


# In this order; shown are those whose screen exists.
NAV = (
    NavigationEntry("overview", "Overview", "/", "o"),
    NavigationEntry("runs", "Runs", "/runs", "r"),
    NavigationEntry("pipelines", "Pipelines", "/pipelines", "p"),
    NavigationEntry("tasks", "Tasks", "/tasks", "t"),
    NavigationEntry("queues", "Queues", "/queues", "q", begins_group=True),
    NavigationEntry("waits", "Waits", "/waits", "a"),
    NavigationEntry("dead-letters", "Dead letters", "/dead-letters", "d"),
    NavigationEntry("workers", "Workers", "/workers", "w"),
    NavigationEntry("schedules", "Schedules", "/schedules", "s", begins_group=True),
    NavigationEntry("storage", "Storage", "/storage", "f"),
    NavigationEntry("settings", "Settings", "/settings", "e"),
)
