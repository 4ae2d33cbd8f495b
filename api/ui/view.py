"""One request for a screen: who asks, what the address says, and how the screen reads what it shows.

A screen reads only through `ask`, which calls an endpoint of the API. So a page shows nothing that the API
does not tell, and says with which requests a program would get the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

from pipeweave.api.http import Caller, Download, Inside, Lines, RecordedCall
from pipeweave.api.http.inside import Query
from pipeweave.api.http.validation_errors import unknown_field
from pipeweave.api.ui.clock_times import from_clocks
from pipeweave.api.ui.kept_answers import KeptAnswers
from pipeweave.api.ui.live_views import moment
from pipeweave.errors import InvalidInput, PipeWeaveError

ROOT = "/ui"
# Parameters that the address of each list may have: its page, and what a verb has just done.
_OF_EVERY_LIST = ("cursor", "done")
# Names that a filter offers.
_OFFERED = "100"


@dataclass(slots=True)
class View:
    """One request for a screen.

    Args:
        caller: in whose name it reads, and for which tenant.
        path: below `/ui/{tenant}`, e.g. `/runs`.
        parameters: the parameters of the address, the first value of each.
        lists: all values of each parameter.
        is_read_only: no verb may be shown, whatever the caller may do.
        host: the address of the server, e.g. `http://localhost:3000`.
        is_fragment: a script asks, which shows what has changed on a page that it has.
        kept: answers of some seconds ago.
        read_at: when the reading began (s since 1970, by the clock of this machine).
    """

    inside: Inside
    caller: Caller
    path: str
    parameters: Mapping[str, str]
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_read_only: bool = False
    host: str = ""
    is_fragment: bool = False
    asked: list[RecordedCall] = field(default_factory=list)
    kept: KeptAnswers | None = None
    read_at: float = field(default_factory=moment)

    @property
    def tenant(self) -> str:
        return self.caller.tenant

    @property
    def now(self) -> datetime:
        """The time by PostgreSQL's clock."""
        return self.inside.deployment.database.now()

    def ask(self, operation: str, query: Query | None = None, body: Any = None, **ids: str) -> Any:
        """What an endpoint answers; see `Inside.ask`. `ids` are the parts of its path.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        answer, asked = self.inside.ask(self.caller, operation, ids, query, body)
        self.asked.append(asked)
        return answer

    def fetch(self, operation: str, query: Query | None = None, **ids: str) -> Download:
        """The stored object that an endpoint answers with; see `ask`."""
        return self.inside.fetch(self.caller, operation, ids, query)

    def lines(self, operation: str, query: Query | None = None, **ids: str) -> Lines:
        """The lines of JSON that an endpoint answers with; see `ask`."""
        return self.inside.lines(self.caller, operation, ids, query)

    def ask_now_and_then(self, operation: str, query: Query | None = None, **ids: str) -> Any:
        """What an endpoint of statistics answers, or did some seconds ago. It must not be changed.

        Raises:
            PipeWeaveError: as the endpoint.
        """
        if self.kept is None:
            return self.ask(operation, query, **ids)
        answer, asked = self.kept.ask(self.caller, operation, query or {}, ids)
        self.asked.append(asked)
        return answer

    def only(self, *names: str, **more: str | None) -> dict[str, str | Sequence[str] | None]:
        """These parameters of the address as the query of an endpoint, and further ones.

        A name `a=b` takes the parameter `a` of the address as `b`.
        """
        query: dict[str, str | Sequence[str] | None] = dict(more)
        for name in names:
            own, _, other = name.partition("=")
            values = self.lists.get(own, ())
            if values:
                query[other or own] = values if len(values) > 1 else values[0]
        return query

    def require_filters(self, *names: str) -> None:
        """Refuse an address with a parameter that the list does not have; it would show all rows instead.

        Args:
            names: the filters of the list.

        Raises:
            InvalidInput: a parameter is none of them, and none that every list has.
        """
        known = (*names, *_OF_EVERY_LIST)
        for name in self.lists:
            if name not in known:
                wrong = unknown_field(name[:200], name[:200], sorted(names))
                raise InvalidInput(f"{wrong.field} {wrong.message}", errors=[wrong])

    def has_any(self, *names: str) -> bool:
        """Whether the address has a value for one of these parameters."""
        return any(self.parameters.get(name) for name in names)

    @property
    def known_pipelines(self) -> list[str]:
        """Names that a filter offers: those of the first pipelines, some seconds old."""
        return self._known("pipelines.list_pipelines", "pipelines")

    @property
    def known_tasks(self) -> list[str]:
        """Those of the first tasks."""
        return self._known("tasks.list_tasks", "tasks")

    def _known(self, operation: str, part: str) -> list[str]:
        # Only an offer: a page does without it, and no program needs to know of it.
        if self.kept is None:
            return []
        with suppress(PipeWeaveError):
            answer, _ = self.kept.ask(self.caller, operation, {"limit": _OFFERED}, {})
            return [each["id"] for each in answer[part]]
        return []

    def instants(self, *names: str) -> dict[str, str | Sequence[str] | None]:
        """These parameters, which are times, as the query of an endpoint: what has no offset is in UTC."""
        return {name: from_clocks(text, "UTC") for name in names if (text := self.parameters.get(name))}

    def may(self, operation: str) -> bool:
        """Whether to show the verb of this endpoint."""
        return not self.is_read_only and self.inside.may(self.caller, operation)

    def url(self, path: str, /, **query: Any) -> str:
        """The address of a screen of this tenant; parameters that are None or empty are left out."""
        pairs = [(name, value) for name, value in query.items() if value not in (None, "")]
        return f"{ROOT}/{quote(self.tenant)}{path}" + (f"?{urlencode(pairs, doseq=True)}" if pairs else "")

    def here(self, **changes: Any) -> str:
        """The address of this screen with some parameters changed; None removes one."""
        query: dict[str, Any] = {
            name: list(values) for name, values in self.lists.items() if name not in ("done", "cursor")
        }
        return self.url(self.path, **{**query, **changes})
