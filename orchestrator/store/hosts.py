"""The servers of a URL that names several: the one that answered last in this process is asked first.

The client library begins with the first one of the URL. A host that vanished does not refuse, so each new
connection would wait for it until its timeout.
"""

from __future__ import annotations

import re
from typing import Any

from pipeweave.settings.database_hosts import Host, hosts_of, with_hosts

_DRIVER = re.compile(r"^postgres(ql)?(\+psycopg2)?://")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
# The server that answered last, by the servers of a URL. Of all threads: who comes last may be wrong for one
# connection, and then the next one is asked.
_ANSWERED: dict[tuple[Host, ...], Host] = {}


class Hosts:
    """The servers of a database.

    Args:
        url: of the database, with one host or several.

    Attributes:
        url: with one of them, for the driver.
    """

    def __init__(self, url: str) -> None:
        self._all = hosts_of(url)
        self.are_several = len(self._all) > 1
        self.url = _readable(url)
        # SQLAlchemy has a server with its port in the query. Of several, `arguments` tells the driver all.
        if self.are_several or ("host=" in url.partition("?")[2] and not self._all[0].name.startswith("/")):
            self.url = with_hosts(self.url, self._all[0])

    def arguments(self) -> dict[str, str]:
        """The driver's arguments for the servers, in the order in which to try them."""
        if not self.are_several:
            return {}
        first = _ANSWERED.get(self._all, self._all[0])
        order = [first, *(each for each in self._all if each != first)]
        return {
            "host": ",".join(each.name for each in order),
            "port": ",".join(str(each.port) for each in order),
        }

    def record(self, connection: Any) -> None:
        """Begin with this connection's server the next time."""
        if self.are_several and (server := Host(connection.info.host, connection.info.port)) in self._all:
            _ANSWERED[self._all] = server


def _readable(url: str) -> str:
    """The URL without what SQLAlchemy reads and the client library does not."""
    return _BARE_PERCENT.sub("%25", _DRIVER.sub("postgresql://", url))
