"""What people write of a sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.errors import InvalidTask
from pipeweave.sandbox import Sandbox, read_host, read_memory


@pytest.mark.parametrize(
    ("written", "amount"),
    [
        ("16M", 16 * 1024**2),
        ("2G", 2 * 1024**3),
        ("512MiB", 512 * 1024**2),
        (64_000_000, 64_000_000),
        ("8M", None),
        ("2000G", None),
        ("512", None),
        ("-1M", None),
        (True, None),
        (1.5, None),
        (None, None),
        ([], None),
    ],
)
def test_memory_is_an_amount_within_its_range(written: Any, amount: int | None) -> None:
    assert read_memory(written) == amount


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("api.example.com:443", ("api.example.com", 443)),
        ("localhost:80", ("localhost", 80)),
        ("10.0.0.1:8080", ("10.0.0.1", 8080)),
        ("api.example.com", None),
        ("*.example.com:443", None),
        ("http://example.com:80", None),
        ("example.com:0", None),
        ("example.com:65536", None),
        ("Example.com:80", None),
        ("a b:80", None),
        ("user@host:80", None),
        (443, None),
    ],
)
def test_an_address_is_a_name_and_a_port(written: Any, address: tuple[str, int] | None) -> None:
    assert read_host(written) == address


@pytest.mark.parametrize(
    ("member", "value", "field"),
    [
        ("memory", "1K", "memory"),
        ("cpu", "soon", "cpu"),
        ("cpu", 0, "cpu"),
        ("files", ["home"], "files"),
        ("files", "tmp", "files"),
        ("network", True, "network"),
        ("network", "a:1", "network"),
        ("network", ["a:1", "*:2"], "network[1]"),
        ("network", ["a:1"] * 51, "network"),
        ("secrets", "KEY", "secrets"),
        ("secrets", ["KEY", "a/b"], "secrets[1]"),
        ("secrets", ["KEY"] * 101, "secrets"),
    ],
)
def test_a_wrong_member_is_named_with_what_it_should_be(member: str, value: Any, field: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        Sandbox(**{member: value})
    assert [each.field for each in caught.value.errors] == [field]
    assert caught.value.errors[0].expected


def test_a_step_makes_a_sandbox_tighter_and_never_wider() -> None:
    own = Sandbox(memory="256M", cpu="10s", files=["tmp"], network=["a:1", "b:2"])
    assert own.narrowed({}) == own
    wider = own.narrowed({"memory": "1G", "cpu": "1m", "network": ["b:2", "c:3"]})
    assert (wider.memory_bytes, wider.cpu_s, wider.hosts) == (256 * 1024**2, 10, ("b:2",))
    tighter = own.narrowed({"memory": "64M", "cpu": "1s", "files": [], "network": False})
    assert (tighter.memory_bytes, tighter.cpu_s) == (64 * 1024**2, 1)
    assert not tighter.has_tmp and not tighter.hosts


def test_a_step_narrows_the_secrets_of_its_task() -> None:
    of_task = Sandbox(secrets=["A", "B"])
    assert of_task.narrowed({"secrets": ["B", "C"]}).secrets == ("B",)
    assert of_task.narrowed({"cpu": "1s"}).secrets == ("A", "B")
