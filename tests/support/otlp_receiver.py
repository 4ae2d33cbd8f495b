"""An OpenTelemetry collector that keeps what it gets: spans over HTTP, as OTLP says."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """A span as a collector reads it; ids as hexadecimal digits, times in ns since 1970."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    started: int
    ended: int
    attributes: dict[str, Any]
    is_error: bool
    service: str


@dataclass
class Receiver:
    """What has arrived."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)

    def of_run(self, run_id: str) -> list[ReceivedSpan]:
        """The spans of a run, as its id is shown."""
        return [each for each in self.spans if each.attributes.get("runId") == run_id]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A collector on a free port."""

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
            assert self.path == "/v1/traces", self.path
            receiver.spans += _read(ExportTraceServiceRequest.FromString(content))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _read(request: Any) -> Iterator[ReceivedSpan]:
    for resource in request.resource_spans:
        own = {each.key: _value(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    {each.key: _value(each.value) for each in span.attributes},
                    span.status.code == span.status.STATUS_CODE_ERROR,
                    own["service.name"],
                )


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))
