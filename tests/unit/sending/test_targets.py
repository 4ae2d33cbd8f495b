"""Requests reach public addresses, and the networks that the settings name; nothing else."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from pipeweave.errors import TargetRefused
from pipeweave.sending import Networks


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


@pytest.mark.parametrize(
    "address",
    ["168.63.129.16", "192.0.0.192", "100.100.100.200", "192.88.99.1", "0.1.2.3", "fd00:ec2::254",
     "fd20:ce::254", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2002:a9fe:a9fe::1", "64:ff9b::a9fe:a9fe",
     "64:ff9b::6464:64c8", "2002:7f00:1::", "fd00:42::42", "fd00:c1::a9fe:a9fe"],
)  # fmt: skip
def test_addresses_that_lead_to_what_trusts_who_asks_from_inside_are_never_private(address: str) -> None:
    assert not Networks(()).allow(ip_address(address))
    assert not Networks(("private",)).allow(ip_address(address))
    assert Networks((address,)).allow(ip_address(address))


@pytest.mark.parametrize("address", ["168.63.129.16", "192.0.0.192", "100.100.100.200", "169.254.169.254"])
def test_an_address_mapped_into_ipv6_is_the_same_address(address: str) -> None:
    assert not Networks(("private",)).allow(ip_address(f"::ffff:{address}"))
    assert Networks((address,)).allow(ip_address(f"::ffff:{address}"))


def test_an_address_of_a_site_is_private() -> None:
    assert not Networks(()).allow(ip_address("fec0::1"))
    assert Networks(("private",)).allow(ip_address("fec0::1"))


def test_an_address_that_carries_another_is_allowed_as_that_one_is() -> None:
    private, public = ip_address("2002:0a00:0001::1"), ip_address("64:ff9b::808:808")
    assert not Networks(()).allow(private)
    assert Networks(("private",)).allow(private)
    assert Networks(()).allow(public)


def test_a_name_that_leads_inside_is_refused_without_its_address() -> None:
    with pytest.raises(TargetRefused) as refused:
        Networks(()).check("http://localhost:4000")
    assert str(refused.value.detail) == "localhost leads to no address that requests may reach"
    [fault] = refused.value.errors
    assert fault.field == "baseUrl"
    assert "DISPATCH_NETWORKS" in str(refused.value.hint)


def test_a_name_that_is_not_known_yet_is_checked_by_the_request() -> None:
    Networks(()).check("http://no-such-host.invalid:4000")


def test_a_target_keeps_the_name_for_the_host_header_and_the_path() -> None:
    target = Networks(("loopback",)).resolve("http://localhost:4000/base/")
    assert target.host_header == "localhost:4000"
    assert ip_address(target.address).is_loopback
    assert (target.port, target.path) == (4000, "/base")
