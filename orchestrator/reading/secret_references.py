"""Reads which secrets the pipelines of a tenant name."""

from __future__ import annotations

from typing import Any

from pipeweave.orchestrator.store.database import Transaction
from pipeweave.spec.references import find_references

_LATEST = """
SELECT p.id, v.spec FROM pipelines AS p
JOIN pipeline_versions AS v
    ON v.tenant_id = p.tenant_id AND v.pipeline_id = p.id AND v.version = p.latest_version
WHERE p.tenant_id = :tenant AND CAST(v.spec AS text) LIKE '%secret%' ORDER BY p.id
"""


def list_references(tx: Transaction, tenant: str) -> list[dict[str, Any]]:
    """The names of secrets in the latest versions of a tenant's pipelines: {name, pipelines}, by name.

    What tasks ask for in their code is in no document.
    """
    pipelines: dict[str, list[str]] = {}
    for row in tx.execute(_LATEST, {"tenant": tenant}):
        references, _ = find_references(row.spec, "")
        names = {str(each.path[0]) for _, each in references if each.root == "secret" and each.path}
        for name in sorted(names):
            pipelines.setdefault(name, []).append(row.id)
    return [{"name": name, "pipelines": pipelines[name]} for name in sorted(pipelines)]
