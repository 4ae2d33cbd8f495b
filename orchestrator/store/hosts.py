"""The servers of a URL that names several: the one that answered last in this process is asked first.

The client library begins with the first one of the URL. A host that vanished does not refuse, so each new
connection would wait for it until its timeout.
"""

from __future__ import annotations

from typing import Any

from pipeweave.settings.database_hosts import Host, hosts_of, with_hosts

# The server that answered last, by the servers of a URL. Of all threads: who comes last may be wrong for one
# connection, and then the next one is asked.
_ANSWERED: dict[tuple[Host, ...], Host] = {}


class Hosts:
    """The servers of a database.

    Args:
        url: of the database, with one host or several.
    """

    def __init__(self, url: str) -> None:
        self._all = hosts_of(url)
        self.are_several = len(self._all) > 1
        # SQLAlchemy reads one host and one port; `arguments` tells the driver all of them.
        self.url = with_hosts(url, self._all[0]) if self.are_several else url

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
