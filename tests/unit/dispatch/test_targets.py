"""Dispatches reach public addresses, and the networks that the settings name; nothing else."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from pipeweave.errors import TargetRefused
from pipeweave.orchestrator.dispatch.targets import Networks, address_of


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert Networks(()).allow(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "fd00::1", "169.254.169.254", "fe80::1",
     "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "100.64.0.1"],
)  # fmt: skip
def test_addresses_inside_are_refused_unless_configured(address: str) -> None:
    assert not Networks(()).allow(ip_address(address))


def test_networks_are_allowed_by_name_and_by_range() -> None:
    assert Networks(("loopback",)).allow(ip_address("127.0.0.1"))
    assert Networks(("loopback",)).allow(ip_address("::ffff:127.0.0.1"))
    assert not Networks(("loopback",)).allow(ip_address("10.0.0.1"))
    assert Networks(("private",)).allow(ip_address("10.0.0.1"))
    assert not Networks(("private",)).allow(ip_address("127.0.0.1"))
    assert Networks(("10.1.0.0/16",)).allow(ip_address("10.1.2.3"))
    assert not Networks(("10.1.0.0/16",)).allow(ip_address("10.2.0.1"))


def test_the_metadata_service_of_a_cloud_is_never_private() -> None:
    """It hands out credentials to whoever asks from inside."""
    networks = Networks(("private", "loopback"))
    assert not networks.allow(ip_address("169.254.169.254"))
    assert Networks(("169.254.0.0/16",)).allow(ip_address("169.254.169.254"))


def test_a_name_that_leads_inside_is_refused_with_its_address() -> None:
    with pytest.raises(TargetRefused) as refused:
        Networks(()).check("http://localhost:4000")
    assert "localhost is" in str(refused.value.detail)
    [fault] = refused.value.errors
    assert fault.field == "baseUrl"
    assert "DISPATCH_NETWORKS" in str(refused.value.hint)


def test_a_name_that_is_not_known_yet_is_checked_by_the_dispatch() -> None:
    Networks(()).check("http://no-such-host.invalid:4000")


def test_a_target_keeps_the_name_for_the_host_header_and_the_path() -> None:
    target = Networks(("loopback",)).resolve("http://localhost:4000/base/")
    assert target.host_header == "localhost:4000"
    assert ip_address(target.address).is_loopback
    assert (target.port, target.path) == (4000, "/base")


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
