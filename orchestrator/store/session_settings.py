"""What a session is told when it opens: settings of the client library, and of the server for this session.

A connection may go silent: its packets are dropped, and nobody closes it. Both ends send probes on an idle
connection and give up one that does not answer, so that neither waits for ever, and the locks of a client
that vanished are free within seconds. Round trips on the network must be shorter than LINE_TIMEOUT_S.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

APPLICATION_NAME = "pipeweave"
CONNECT_TIMEOUT_S = 5

# A side that hears nothing for so long (s) sends the first probe, then one every PROBE_EVERY_S, and gives the
# connection up after PROBES without an answer; and so it does when what it sent is not acknowledged for
# LINE_TIMEOUT_S, which is as long. Unix sockets have none of this.
PROBE_AFTER_S = 2
PROBE_EVERY_S = 1
PROBES = 3
LINE_TIMEOUT_S = 5
# While it executes a statement, the server looks this often (s) whether its client is still there.
CLIENT_CHECK_S = 2

# Lists and pages must not slow running work: a read that takes longer (ms) is cancelled.
READ_TIMEOUT_MS = 5_000
# A process that froze or vanished in the middle of a transaction must not hold its locks for long: the server
# ends a session that is silent in one for so long (ms). No transaction waits for anything but the server.
IDLE_IN_TRANSACTION_MS = 5_000
# The chores of a tick wait for a lock at most this long (ms).
LOCK_TIMEOUT_MS = 100

CLIENT = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives": 1,
    "keepalives_idle": PROBE_AFTER_S,
    "keepalives_interval": PROBE_EVERY_S,
    "keepalives_count": PROBES,
    "tcp_user_timeout": LINE_TIMEOUT_S * 1000,
}

SERVER = {
    "tcp_keepalives_idle": PROBE_AFTER_S,
    "tcp_keepalives_interval": PROBE_EVERY_S,
    "tcp_keepalives_count": PROBES,
    "tcp_user_timeout": LINE_TIMEOUT_S * 1000,
    "client_connection_check_interval": CLIENT_CHECK_S * 1000,
}

# Verbs name their rows by key, so one plan serves all parameters and prunes partitions when it runs. The plan
# is made once, when a table may be nearly empty, and kept: it must not scan or join whole tables. Nor may it
# collect a run's pages first (a bitmap), which looks cheap while runs and tables are small.
VERBS: Mapping[str, object] = {
    "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_MS,
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# For verbs of a process whose callers wait (ms). To cancel a run of a million task runs is one statement.
DEADLINES: Mapping[str, object] = {"lock_timeout": 3_000, "statement_timeout": 120_000}
# For the chores of a tick.
IMPATIENT: Mapping[str, object] = {**VERBS, "lock_timeout": LOCK_TIMEOUT_MS}
READS: Mapping[str, object] = {
    "statement_timeout": READ_TIMEOUT_MS,
    "default_transaction_read_only": "on",
}
# For a reader that asks the same few times a second what is new: planned once, by the indexes, like verbs.
FOLLOWS: Mapping[str, object] = {**READS, **VERBS}


# The client library takes a session that is read-only for one of a replica.
_WRITABLE, _PRIMARY = "target_session_attrs=read-write", "primary"


def connect_arguments(
    settings: Mapping[str, object], name: str = APPLICATION_NAME, url: str = ""
) -> dict[str, Any]:
    """The keyword arguments of the driver's `connect`.

    Args:
        settings: of the server for these sessions: VERBS, with or without DEADLINES, or READS.
        name: of these sessions in `pg_stat_activity`; at most 63 ASCII characters.
        url: what these arguments come on top of.
    """
    options = " ".join(f"-c {name}={value}" for name, value in {**SERVER, **settings}.items())
    arguments = {**CLIENT, "application_name": name, "options": options}
    if "default_transaction_read_only" in settings and _WRITABLE in url.partition("?")[2].split("&"):
        # Of the servers of a failover URL this session wants the same one as those that write.
        arguments["target_session_attrs"] = _PRIMARY
    return arguments
