"""A signed URL stands for one request to one object, for some time."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from pipeweave.errors import Unauthenticated
from pipeweave.orchestrator.dispatch.object_urls import check, own_url

SECRET = "5e" * 32
PATH = "runs/trun_x.1.mac/output.json"


def parts() -> dict[str, str]:
    url = own_url(SECRET, "PUT", "main", PATH, 1_000)
    return {name: value for name, [value] in parse_qs(urlsplit(url).query).items()}


def test_the_signed_request_is_accepted_until_it_expires() -> None:
    signature = parts()["signature"]
    check(SECRET, "PUT", "main", PATH, 1_000, signature, 1_000)
    with pytest.raises(Unauthenticated, match="expired"):
        check(SECRET, "PUT", "main", PATH, 1_000, signature, 1_001)


@pytest.mark.parametrize(
    ("method", "backend", "path", "expires"),
    [
        ("GET", "main", PATH, 1_000),
        ("PUT", "other", PATH, 1_000),
        ("PUT", "main", "runs/trun_y.1.mac/output.json", 1_000),
        ("PUT", "main", PATH, 9_000),
    ],
)
def test_no_other_request_is(method: str, backend: str, path: str, expires: int) -> None:
    with pytest.raises(Unauthenticated, match="not signed"):
        check(SECRET, method, backend, path, expires, parts()["signature"], 0)


@pytest.mark.parametrize("signature", ["", "é", "0" * 64])
def test_a_forged_signature_is_refused(signature: str) -> None:
    with pytest.raises(Unauthenticated):
        check(SECRET, "PUT", "main", PATH, 1_000, signature, 0)
