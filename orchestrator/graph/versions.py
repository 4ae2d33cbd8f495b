"""Draws stored versions of pipelines. A version never changes, so a drawing is made once and kept."""

from __future__ import annotations

import orjson

from pipeweave.errors import NotFound
from pipeweave.orchestrator.documents.comparisons import VersionDifferences
from pipeweave.orchestrator.domain.plan import Plan
from pipeweave.orchestrator.graph.differences import differences
from pipeweave.orchestrator.graph.document import graph_document
from pipeweave.orchestrator.graph.layout import layout
from pipeweave.orchestrator.graph.pattern import DrawingView, shape_of
from pipeweave.orchestrator.graph.svg import svg
from pipeweave.orchestrator.registry import pipelines
from pipeweave.orchestrator.store.cache import CacheSpec
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import Document

_Key = tuple[str, str, int, str | None, tuple[str, ...], bool, str, str]

# JSON or SVG by tenant, pipeline, version, view, open classes, direction, kind of drawing and body. A graph
# of 5,000 steps takes 300 KB, an ordinary one 2 KB.
DRAWINGS = CacheSpec[_Key, bytes]("drawings of graphs", 256)


def version_graph(
    tx: Transaction,
    tenant: str,
    pipeline_id: str,
    version: int,
    *,
    view: str | None = None,
    opened: tuple[str, ...] = (),
    is_down: bool = False,
    has_layout: bool = True,
    body: str | None = None,
) -> bytes:
    """The graph of a version as JSON.

    Args:
        view: `all` or `pattern`; None: what fits its size.
        opened: keys of the classes that show their members.
        is_down: from the top down, not from left to right.
        has_layout: whether it says where everything lies.
        body: draw this body of it, such as `files.map`; None: the whole pipeline.

    Raises:
        NotFound: the tenant has no such version, or it has no such body.
    """
    key = tenant, pipeline_id, version, view, opened, is_down, "json" if has_layout else "links", body or ""
    if (kept := tx.cache(DRAWINGS).get(key)) is not None:
        return kept
    plan = _plan(tx, tenant, pipeline_id, version, body)
    graph = graph_document(
        plan,
        DrawingView.of(plan, view),
        opened,
        pipeline_id=pipeline_id,
        version=version,
        has_layout=has_layout,
        is_down=is_down,
    )
    drawn = orjson.dumps(graph)
    tx.cache(DRAWINGS).put(key, drawn)
    return drawn


def version_svg(
    tx: Transaction,
    tenant: str,
    pipeline_id: str,
    version: int,
    *,
    view: str | None = None,
    opened: tuple[str, ...] = (),
    is_down: bool = False,
    body: str | None = None,
) -> bytes:
    """The graph of a version as an SVG file. Arguments and errors are those of `version_graph`."""
    key = tenant, pipeline_id, version, view, opened, is_down, "svg", body or ""
    if (kept := tx.cache(DRAWINGS).get(key)) is not None:
        return kept
    plan = _plan(tx, tenant, pipeline_id, version, body)
    shape = shape_of(plan, DrawingView.of(plan, view), opened)
    title = f"{pipeline_id}, version {version}" + ("" if body is None else f", {body}")
    drawn = svg(shape, layout(shape, is_down=is_down), title=title).encode()
    tx.cache(DRAWINGS).put(key, drawn)
    return drawn


def _plan(tx: Transaction, tenant: str, pipeline_id: str, version: int, body: str | None) -> Plan:
    stored = pipelines.get(tx, tenant, pipeline_id, version)
    if body is not None and body not in stored.spec.bodies:
        raise NotFound(f"version {version} of {pipeline_id!r} has no body {body!r}", pipelineId=pipeline_id)
    return stored.of_body(body).plan


def version_differences(tx: Transaction, tenant: str, pipeline_id: str, before: int, after: int) -> Document:
    """How two versions differ.

    Raises:
        NotFound: the tenant has no such version.
    """
    one, other = (pipelines.get(tx, tenant, pipeline_id, each) for each in (before, after))
    changes = differences(one.spec, other.spec)
    return VersionDifferences.of(pipeline_id=pipeline_id, from_=before, to=after, **changes)
