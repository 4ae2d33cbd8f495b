"""Connections of a box: only to the addresses of its list, by the parent."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from support.boxing import boxes_of, call, spec_of
from support.stub_http_server import Served, serving

from pipeweave.sandbox import Sandbox
from pipeweave.workers.boxes import Boxes, BoxSpec

pytestmark = pytest.mark.usefixtures("machine_with_boxes")

LOOKS = """
import http.client, socket, urllib.request
import urllib3
outcome = []
base = ctx.input["base"]
outcome.append(urllib.request.urlopen(base + "/a", timeout=20).read().decode())
outcome.append(urllib3.PoolManager().request("GET", base + "/b").data.decode())
connection = http.client.HTTPConnection("127.0.0.1", int(base.rpartition(":")[2]), timeout=20)
connection.request("GET", "/c")
outcome.append(connection.getresponse().read().decode())

async def get():
    import asyncio
    reader, writer = await asyncio.open_connection("localhost", int(base.rpartition(":")[2]))
    writer.write(b"GET /d HTTP/1.0\\r\\n\\r\\n")
    content = await reader.read()
    writer.close()
    return content.rpartition(b"\\r\\n\\r\\n")[2].decode()

import asyncio
outcome.append(asyncio.run(get()))
"""


@pytest.fixture(scope="module")
def boxes() -> Iterator[Boxes]:
    logging.getLogger("urllib3").setLevel(logging.INFO)
    with boxes_of("loopback") as made:
        yield made


@pytest.fixture(scope="module")
def silent() -> Iterator[Served]:
    """One server for all that is refused, so that one box lives through it."""
    with serving() as here:
        yield here


def port_of(served: Served) -> int:
    return int(served.url.rpartition(":")[2].rstrip("/"))


def spec_for(*hosts: str, function: str = "run") -> BoxSpec:
    return spec_of(function, Sandbox(memory="256M", cpu="20s", network=hosts))


def test_the_usual_libraries_reach_an_address_of_the_list(boxes: Boxes, served: Served) -> None:
    port = port_of(served)
    for path in ("/a", "/b", "/c", "/d"):
        served.put(f"GET {path}", (200, f"hello {path}".encode()))
    spec = spec_for(f"localhost:{port}", f"127.0.0.1:{port}")
    seen = call(boxes, spec, {"source": LOOKS, "base": f"http://localhost:{port}"})
    assert seen == ["hello /a", "hello /b", "hello /c", "hello /d"]


@pytest.mark.parametrize(
    "source",
    [
        "import socket; socket.create_connection(('localhost', PORT + 1))",
        "import socket; socket.create_connection(('example.com', PORT))",
        "import socket; socket.create_connection(('192.0.2.2', PORT))",
        "import socket; socket.create_connection(('169.254.169.254', 80))",
        "import socket; socket.getaddrinfo('example.com', 443)",
        "import urllib.request; urllib.request.urlopen('http://example.com')",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "import socket; socket.socket().bind(('127.0.0.1', 0))",
        "import _socket; _socket.socket()",
        "from pipeweave.box.egress import _addresses as a; a.channel.ask('connect', host='b.de', port=80)",
        "from pipeweave.box.egress import _addresses as a; a.channel.ask('connect', host=1, port='x')",
    ],
)
def test_nothing_else_is_reached(boxes: Boxes, silent: Served, source: str) -> None:
    port = port_of(silent)
    sent = {"source": source.replace("PORT", str(port))}
    assert "refused" in call(boxes, spec_for(f"localhost:{port}", function="attempt"), sent)
    assert not silent.asked


def test_an_address_of_the_list_in_a_network_of_the_deployment_is_refused(served: Served) -> None:
    port = port_of(served)
    source = f"import socket; socket.create_connection(('localhost', {port}))"
    with boxes_of() as own:
        seen = call(own, spec_for(f"localhost:{port}", function="attempt"), {"source": source})
    assert "leads to no address that requests may reach" in seen["text"]


def test_connections_end_with_their_call(boxes: Boxes, served: Served) -> None:
    port = port_of(served)
    spec = spec_for(f"localhost:{port}")
    keep = (
        f"import socket, json; json.kept = socket.create_connection(('localhost', {port}))\n"
        "outcome = os.getpid()"
    )
    pid = call(boxes, spec, {"source": keep})
    seen = call(boxes, spec, {"source": "import json; outcome = [os.getpid(), len(json.kept.recv(1))]"})
    assert seen == [pid, 0]
