"""The table of bounds in docs/operations.md has the bounds of the code."""

from __future__ import annotations

import re

from support.pages import section

from pipeweave import size_limits
from pipeweave.api.routes.dead_letters import MOST_BATCHES
from pipeweave.api.routes.uploads import AT_ONCE as UPLOADS_AT_ONCE
from pipeweave.api.serve import THREADS
from pipeweave.api.server import deadlines, worker
from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.store import connections, keyset, session_settings

_UNITS = {"": 1, "s": 1, "bytes": 1, "KiB": 1024, "MiB": 1024**2, "MB": 10**6}


def bounds() -> dict[str, list[float]]:
    """What is bounded -> the numbers of its row, in seconds, bytes or pieces."""
    rows = re.findall(
        r"^\| ([^|*]+) \| ([^|]*\d[^|]*) \|", section("docs/operations.md", "The API and its clients"), re.M
    )
    return {
        name.strip(): [
            int(number.replace(",", "")) * _UNITS.get(unit, 1)
            for number, unit in re.findall(r"([\d,]*\d) ?(s|bytes|KiB|MiB|MB)?\b", text)
        ]
        for name, text in rows
    }


def test_the_bounds_of_a_request_in_the_documents_are_those_of_the_code() -> None:
    verbs, reads = session_settings.DEADLINES, session_settings.READS
    assert deadlines.SMALL_BODY == deadlines.MAX_HEAD == 64 * 1024
    expected = {
        "until the head, and a body of up to 64 KiB, have arrived": [deadlines.HEAD_S],
        "until a larger body has arrived": [deadlines.BODY_S],
        "until an upload has arrived": [deadlines.UPLOAD_S],
        "an upload; uploads that a server process receives at a time": [
            size_limits.MAX_UPLOAD_BYTES,
            UPLOADS_AT_ONCE,
        ],
        "stored log lines in one answer": [size_limits.MAX_LOG_ANSWER_BYTES],
        "until the client takes the next part of its answer; all of it": [
            deadlines.STALL_S,
            deadlines.ANSWER_S,
        ],
        "until an idle connection is closed": [deadlines.KEEP_ALIVE_S],
        "a wait for a lock in PostgreSQL, in a request that writes": [int(str(verbs["lock_timeout"])) / 1000],
        "a statement of a request that writes": [int(str(verbs["statement_timeout"])) / 1000],
        "a statement of a request that only reads": [int(str(reads["statement_timeout"])) / 1000],
        "a wait for a database connection": [connections.POOL_TIMEOUT_S],
        "open connections of a server process": [deadlines.MAX_CONNECTIONS],
        "requests that are worked on at a time, in a server process": [THREADS, worker.HEALTH_THREADS],
        "first line; all headers": [deadlines.MAX_REQUEST_LINE, deadlines.MAX_HEAD],
        "a body": [size_limits.MAX_BODY_BYTES],
        "levels of nested lists and objects in a body": [size_limits.MAX_JSON_DEPTH],
        "levels of nested lists and objects in an output, or in an item of a map": [
            size_limits.MAX_JSON_DEPTH
        ],
        "large values fetched with `load=true`, together": [size_limits.MAX_LOADED_BYTES],
        "answers that clients have not taken yet, in a server process": [
            deadlines.MAX_BACKLOG,
            deadlines.SMALL_ANSWER,
        ],
        "rows of one page of a list": [keyset.MAX_LIMIT],
        "runs or tasks of a batch": [size_limits.MAX_BATCH],
        "task runs written by a batch of runs (runs times steps)": [size_limits.MAX_BATCH_TASK_RUNS],
        "task runs written by one run when it starts (its steps)": [size_limits.MAX_STEPS],
        "dead letters discarded or deleted by one request": [MOST_BATCHES * dead_letters.BATCH],
    }
    shown = bounds()
    assert {name: shown.get(name) for name in expected} == expected
