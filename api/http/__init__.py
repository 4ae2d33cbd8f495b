"""Handles what every request needs: authentication, parsing, headers, errors and the OpenAPI document.

`create_app` puts the parts together; `api/routes` writes its endpoints with the names below. It must never
import a route or contain a rule of a single endpoint.
"""

from pipeweave.api.http.application import HttpApplication
from pipeweave.api.http.auth import Authenticator, Identity
from pipeweave.api.http.body import parse_json
from pipeweave.api.http.download import Download
from pipeweave.api.http.endpoint import Answer, Call, Endpoint, PathId, Routes, Watching
from pipeweave.api.http.form_file import FormFile, ReceivedFile
from pipeweave.api.http.inside import Caller, Inside, RecordedCall
from pipeweave.api.http.metrics_text import Format, MetricsText, Text, wanted_format
from pipeweave.api.http.ndjson import Lines
from pipeweave.api.http.path_rules import PathRule
from pipeweave.api.http.process_metrics import ProcessMetrics
from pipeweave.api.http.raw_body import RawBody
from pipeweave.api.http.renewal import Renewal
from pipeweave.api.http.request_pipeline import RequestPipeline
from pipeweave.api.http.socket_requests import SocketRequests
from pipeweave.api.http.streaming import EventSink, SocketSink, Stream

__all__ = [
    "Answer",
    "Authenticator",
    "Call",
    "Caller",
    "Download",
    "Endpoint",
    "EventSink",
    "FormFile",
    "Format",
    "HttpApplication",
    "Identity",
    "Inside",
    "Lines",
    "MetricsText",
    "PathId",
    "PathRule",
    "ProcessMetrics",
    "RawBody",
    "ReceivedFile",
    "RecordedCall",
    "Renewal",
    "RequestPipeline",
    "Routes",
    "SocketRequests",
    "SocketSink",
    "Stream",
    "Text",
    "Watching",
    "parse_json",
    "wanted_format",
]
