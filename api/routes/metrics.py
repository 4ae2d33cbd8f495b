"""The endpoint of metrics, for Prometheus and what speaks its formats."""

from __future__ import annotations

from flask import current_app, request

from pipeweave.api.http import Call, Format, MetricsText, Routes, Text, wanted_format

routes = Routes("system")


@routes.add(
    "GET",
    "/metrics",
    "Show metrics for Prometheus",
    gives_text=tuple(each.value for each in Format),
    spans_tenants=True,
)
def metrics(call: Call) -> Text:
    """Numbers of the whole deployment, the same from every process of the API; docs/metrics.md lists them.

    A token sees its tenants; one that may read every tenant also sees the deployment itself, and the process
    that answers. `X-Tenant` narrows it to one tenant. Answers are kept for some seconds: to ask more often
    costs nothing, and shows nothing newer. `METRICS_ACCESS` lets everybody ask, or nobody.
    """
    writer: MetricsText = current_app.extensions["pipeweave.metrics"]
    tenants = None if call.tenants is None else frozenset(call.tenants)
    return writer.text(tenants, wanted_format(request.accept_mimetypes))
