"""Endpoints of the graphs of pipelines: one version as JSON or SVG, and how two versions differ."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pipeweave.api.contract.graphs import DrawingQuery, GraphQuery
from pipeweave.api.contract.requests import MAX_INT32
from pipeweave.api.http import Answer, Call, Download, PathId, Routes
from pipeweave.errors import NotFound
from pipeweave.orchestrator import graph
from pipeweave.orchestrator.documents.comparisons import VersionDifferences
from pipeweave.orchestrator.documents.graphs import GraphAnswer

routes = Routes("pipelines")
ID = PathId(None, "The pipeline's id.")
VERSION = {"id": ID, "version": PathId(None, "The number of a version.")}
VERSIONS = {
    "id": ID,
    "before": PathId(None, "The number of the one version."),
    "after": PathId(None, "The number of the other."),
}
# A version never changes. The same address shows another graph to another tenant, and none without a token.
_FOR_EVER = {
    "Cache-Control": "private, max-age=31536000, immutable",
    "Vary": "Authorization, Cookie, X-Tenant",
}


@routes.add(
    "GET",
    "/api/pipelines/{id}/versions/{version}/graph",
    "Show the graph of a pipeline",
    ids=VERSION,
    query=GraphQuery,
    answer=GraphAnswer,
    errors=(NotFound,),
)
def get_graph(call: Call, id: str, version: str, query: GraphQuery) -> Answer:
    """Boxes and links of one version, with their places. The answer never changes, and may be kept for ever.

    A pipeline of thousands of steps is shown as its pattern: a few boxes, each for the steps of one task and
    level. Three steps or more that all need the same three or more are linked by a junction.
    """
    with call.reading() as tx:
        drawn = graph.version_graph(
            tx,
            call.tenant,
            id,
            _number(version),
            view=query.view,
            opened=query.opened,
            is_down=query.is_down,
            has_layout=query.layout,
            body=query.body,
        )
    return Answer(drawn, headers=_FOR_EVER)


@routes.add(
    "GET",
    "/api/pipelines/{id}/versions/{version}/graph.svg",
    "Draw the graph of a pipeline",
    ids=VERSION,
    query=DrawingQuery,
    answers={200: (None, "The drawing, as an SVG file.")},
    gives_file=True,
    errors=(NotFound,),
)
def draw_graph(call: Call, id: str, version: str, query: DrawingQuery) -> Download:
    """The graph of one version as a picture in a file."""
    with call.reading() as tx:
        drawn = graph.version_svg(
            tx,
            call.tenant,
            id,
            _number(version),
            view=query.view,
            opened=query.opened,
            is_down=query.is_down,
            body=query.body,
        )

    def opened(start: int, length: int) -> AbstractContextManager[Iterator[bytes]]:
        return nullcontext(iter([drawn[start : start + length]]))

    etag = hashlib.sha256(drawn).hexdigest()[:32]
    return Download(opened, len(drawn), etag, "image/svg+xml", f"{id}-{version}.svg")


@routes.add(
    "GET",
    "/api/pipelines/{id}/versions/{before}/diff/{after}",
    "Compare two versions of a pipeline",
    ids=VERSIONS,
    answer=VersionDifferences,
    errors=(NotFound,),
)
def get_differences(call: Call, id: str, before: str, after: str) -> dict[str, Any]:
    """Steps that were added, removed or changed from one version to the other, and changed settings."""
    with call.reading() as tx:
        return graph.version_differences(tx, call.tenant, id, _number(before), _number(after))


def _number(text: str) -> int:
    """A version in a path.

    Raises:
        NotFound: it is no number that a version could have.
    """
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MAX_INT32):
        raise NotFound(f"no pipeline has a version {text!r}", hint="versions are whole numbers from 1 on")
    return int(text)
