"""How long, and for how much, a server process waits for one client. None of them is a setting."""

from __future__ import annotations

HEAD_S = 10.0
"""Seconds in which the head of a request, and a body of at most SMALL_BODY bytes, must arrive."""

BODY_S = 30.0
"""Seconds in which a larger body must arrive."""

UPLOAD_S = 300.0
"""Seconds in which the body of an upload must arrive. A thread waits for it; there are few at a time."""

STALL_S = 10.0
"""Seconds in which a client must take the next part of its answer."""

STREAM_STALL_S = 30.0
"""Seconds in which the client of a stream must take the next part of what waits for it."""

ANSWER_S = 120.0
"""Seconds in which a client must have taken all of its answer."""

LINGER_S = 2.0
"""Seconds for which a connection is read after its last answer, so that the client can read it."""

KEEP_ALIVE_S = 30
"""Seconds for which an idle connection is kept open for the client's next request."""

MAX_CONNECTIONS = 500
"""Open connections of one server process. Beyond it, the connection that has waited longest is closed."""

MAX_REQUEST_LINE = 8_190
"""Bytes of method, path and query."""

MAX_HEAD = 65_536
"""Bytes of the head of a request: its first line and its headers."""

SMALL_BODY = 65_536
"""Bytes of a body that must arrive as soon as its head."""

MAX_TAKEN_IN = 32_000_000
"""Bytes of larger bodies of JSON that one process takes in at a time before a thread is occupied. What has no
room there, or does not say its length, is awaited by a thread (BODY_PLACES)."""

BODY_PLACES = 2
"""Threads that wait at a time for bodies of clients whose token was checked; further ones are refused."""

OPEN_BODY_PLACES = 1
"""Threads that wait at a time for bodies of clients whom nobody knows."""

SMALL_ANSWER = 2_000_000
"""Bytes of an answer that a thread always leaves to the loop. All answers without a token are smaller."""

MAX_BACKLOG = 128_000_000
"""Bytes of untaken answers of one process beyond which a thread waits for the client of a larger answer."""
