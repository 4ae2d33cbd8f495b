"""What the kit says of a worker that does what the original Node SDK does: it works, and has weaknesses."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pipeweave.conformance import ContractLevel, Kit, SessionOptions, Trial

WORKER = Path(__file__).parents[2] / "support" / "original_sdk_worker.mjs"
WEAKNESSES = {
    "duplicate-dispatch": ContractLevel.WARN,
    "report-outage": ContractLevel.WARN,
    "report-cut": ContractLevel.WARN,
    "wrong-signature": ContractLevel.WARN,
    "missing-signature": ContractLevel.WARN,
    "old-signature": ContractLevel.WARN,
    "foreign-path": ContractLevel.WARN,
    "expired-access": ContractLevel.WARN,
    # None of its tasks goes on elsewhere.
    "pending-task": ContractLevel.SKIP,
    "cancellation": ContractLevel.WARN,
    "wrong-types": ContractLevel.WARN,
    "no-object": ContractLevel.WARN,
    "huge": ContractLevel.WARN,
    "shutdown": ContractLevel.WARN,
    # Whoever reaches its port can end it.
    "not-json": ContractLevel.FAIL,
}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("revision", ["main", "dev"])
def test_the_original_sdk_works_and_has_its_known_weaknesses(revision: str) -> None:
    options = SessionOptions(
        command=f"node {WORKER}",
        environment={**os.environ, "REVISION": revision, "INTERVAL_MS": "500"},
        task=Trial("file"),
        slow_task=Trial("slow", {"ms": 2_000}),
        failing_task=Trial("fail"),
        patience_s=10.0,
        quiet_s=0.5,
    )
    with Kit(options) as kit:
        found = {each.check.name: each.verdict for each in kit.findings()}
    assert {
        name: each.level for name, each in found.items() if each.level is not ContractLevel.PASS
    } == WEAKNESSES
