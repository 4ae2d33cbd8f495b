"""Talks to clients: one loop per process takes requests in and hands answers out, threads do the work.

No thread waits for a client whose token nobody has checked. The loop takes a request in until its head, and a
small body, are there; it hands out what a client does not take at once. Only the rest of a larger body is
awaited by a thread, after authentication and with a deadline. `/health` has a thread of its own. This room
must never know an endpoint beside `/health`, or a token.
"""

from pipeweave.api.server.refusals import unreadable
from pipeweave.api.server.worker import ServerWorker

__all__ = ["ServerWorker", "unreadable"]
