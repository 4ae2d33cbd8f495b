"""Where dispatches to an instance go: to what it registered, or to where it registered from."""

from __future__ import annotations

import pytest

from pipeweave.orchestrator.dispatch import address_of


@pytest.mark.parametrize(
    ("override", "uses_peer", "expected"),
    [
        (None, False, "http://localhost:3001/x"),
        (None, True, "http://10.0.0.7:3001/x"),
        ("peer", False, "http://10.0.0.7:3001/x"),
        ("http://worker.internal:80", True, "http://worker.internal:80"),
    ],
)
def test_the_address_of_an_instance(override: str | None, uses_peer: bool, expected: str) -> None:
    assert address_of("http://localhost:3001/x", "10.0.0.7", override, uses_peer=uses_peer) == expected


def test_the_peer_may_have_an_ipv6_address() -> None:
    assert address_of("http://localhost:3001", "fd00::7", None, uses_peer=True) == "http://[fd00::7]:3001"
