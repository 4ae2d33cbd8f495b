"""A signature holds for one request at one time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import signatures

SECRET = "5e" * 32
AT = 1_790_000_000
HEADER = signatures.sign(SECRET, AT, "/tasks/charge", b'{"runId":"x"}')


def test_the_signed_request_is_accepted_for_five_minutes() -> None:
    for now in (AT - 300, AT, AT + 300):
        assert signatures.is_valid(SECRET, HEADER, "/tasks/charge", b'{"runId":"x"}', now)


@pytest.mark.parametrize(
    ("path", "body", "now"),
    [
        ("/tasks/refund", b'{"runId":"x"}', AT),
        ("/tasks/charge", b'{"runId":"y"}', AT),
        ("/tasks/charge", b'{"runId":"x"}', AT + 301),
        ("/tasks/charge", b'{"runId":"x"}', AT - 301),
    ],
)
def test_another_request_or_another_time_is_refused(path: str, body: bytes, now: float) -> None:
    assert not signatures.is_valid(SECRET, HEADER, path, body, now)


@given(st.text(max_size=100))
def test_any_other_header_is_refused(header: str) -> None:
    assert not signatures.is_valid(SECRET, header, "/tasks/charge", b"", AT)


def test_services_share_the_secret_or_have_their_own() -> None:
    assert signatures.worker_secret(SECRET, "a", "mailer", is_shared=True) == SECRET
    own = {
        signatures.worker_secret(SECRET, tenant, service, is_shared=False)
        for tenant, service in (("a", "mailer"), ("a", "sms"), ("b", "mailer"))
    }
    assert len(own) == 3
    assert SECRET not in own
