"""The HTTP worker that both systems of the benchmarks over HTTP dispatch to: it only reports that it is done.

`python -m benchmarks.http_worker PORT REPORT_TO`. It costs as little as it can, because its time counts for
both systems. It measures hops: from just before a report is sent until the dispatch of the next step arrives.

`GET /hops` gives the hops (s) since the last time, `GET /dispatch` the newest dispatch.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

import orjson

from pipeweave.up.ports import LOOPBACK

REPORT = orjson.dumps({"status": "success", "output": None, "assets": {}})


class Worker:
    """One worker.

    Args:
        report_to: the URL of the orchestrator.
    """

    def __init__(self, report_to: str) -> None:
        parts = urlsplit(report_to)
        self._host, self._port, self._prefix = parts.hostname or "", parts.port or 80, parts.path
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._reported: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest = b"{}"
        self._hops: list[float] = []
        self._refused: Counter[int] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while line := await reader.readline():
                method, path, _ = line.split(b" ")
                status, answer = self._answer(method, path, await _body(reader))
                writer.write(_head(f"HTTP/1.1 {status} OK", len(answer)) + answer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, method: bytes, path: bytes, body: bytes) -> tuple[int, bytes]:
        if method == b"POST":
            self._take(body)
            return 202, b'{"acknowledged":true}'
        if path == b"/hops":
            found, self._hops = {"hops": self._hops, "refused": dict(self._refused)}, []
            return 200, orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS)
        return 200, self._newest

    def _take(self, body: bytes) -> None:
        now = time.perf_counter()
        self._newest = body
        dispatch = orjson.loads(body)
        run = dispatch["pipelineRunId"]
        if (since := self._reported.pop(run, None)) is not None:
            self._hops.append(now - since)
        task = asyncio.create_task(self._report(run, dispatch["runId"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, run: str, run_id: str) -> None:
        line = f"POST {self._prefix}/api/task-runs/{run_id}/complete HTTP/1.1\r\nHost: {LOOPBACK}"
        self._reported[run] = time.perf_counter()
        while True:
            is_kept = bool(self._idle)
            reader, writer = (
                self._idle.pop() if is_kept else await asyncio.open_connection(self._host, self._port)
            )
            try:
                writer.write(_head(line, len(REPORT)) + REPORT)
                status = int((await reader.readline()).split(b" ")[1])
                await _body(reader)
                break
            except (ConnectionError, asyncio.IncompleteReadError, IndexError):
                # The orchestrator closes connections that were idle for a while.
                writer.close()
                if not is_kept:
                    raise
        self._idle.append((reader, writer))
        if status != 200:
            self._refused[status] += 1


def _head(line: str, size: int) -> bytes:
    return f"{line}\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Read the headers, and the body that they announce."""
    size = 0
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            size = int(value)
    return await reader.readexactly(size)


async def _run(port: int, report_to: str) -> Any:
    server = await asyncio.start_server(Worker(report_to).serve, LOOPBACK, port, backlog=256)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_run(int(sys.argv[1]), sys.argv[2]))
