"""Signatures of webhooks: made, read and compared."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pages import ROOT, blocks

from pipeweave import webhooks

PAGE: Path = ROOT / "docs/triggers.md"
NOW = 1_790_000_000


def test_what_was_signed_is_valid_and_nothing_else_is() -> None:
    header = webhooks.sign("secret", NOW, b"body")
    assert webhooks.is_valid("secret", header, b"body", NOW + 300)
    assert webhooks.is_valid("secret", header, b"body", NOW - 300)
    assert not webhooks.is_valid("secret", header, b"body", NOW + 301)
    assert not webhooks.is_valid("secret", header, b"body", NOW - 301)
    assert not webhooks.is_valid("other", header, b"body", NOW)
    assert not webhooks.is_valid("secret", header, b"bodY", NOW)
    assert not webhooks.is_valid("secret", header.replace(f"t={NOW}", f"t={NOW + 1}"), b"body", NOW)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "t=1",
        "v1=aa",
        "t=1,v1=",
        f"t=x,v1={'a' * 64}",
        f"t={'1' * 13},v1={'a' * 64}",
        f"sha256={'g' * 64}",
    ],
)
def test_what_is_no_signature_is_none(header: str) -> None:
    for scheme, name in webhooks.SCHEMES.items():
        assert webhooks.signature_of(scheme, {name: header}) is None


@given(st.text(max_size=300))
def test_no_header_breaks_the_reading(header: str) -> None:
    for scheme, name in webhooks.SCHEMES.items():
        webhooks.signature_of(scheme, {name: header})


def test_one_of_several_secrets_and_signatures_is_enough() -> None:
    old, new = (webhooks.sign(secret, NOW, b"").partition("v1=")[2] for secret in ("old", "new"))
    found = webhooks.signature_of("stripe", {"stripe-signature": f"t={NOW},v1={old},v1={new},v0={'0' * 64}"})
    assert found == webhooks.Signature(NOW, (old, new))
    assert webhooks.matching(found, ["x", "new"], b"", NOW) == new
    assert webhooks.matching(found, ["x"], b"", NOW) is None


def test_the_lines_on_the_page_sign_what_the_checks_take(tmp_path: Path) -> None:
    """The shell's openssl signs as this module does; a stand-in for curl shows what would be sent."""
    (lines,) = blocks(PAGE, "bash")
    shown = tmp_path / "curl"
    shown.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    shown.chmod(0o755)
    known = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PIPEWEAVE_ORCHESTRATOR_URL": "http://x",
    }
    done = subprocess.run(["bash", "-euc", lines], capture_output=True, text=True, env=known, check=True)
    sent = done.stdout.splitlines()
    header = next(each for each in sent if each.startswith(webhooks.HEADER)).partition(": ")[2]
    signature = webhooks.signature_of("pipeweave", {webhooks.HEADER.lower(): header})
    assert signature and signature.at
    assert webhooks.is_valid("whsec_…", header, sent[-1].encode(), signature.at)


def test_the_program_on_the_page_runs() -> None:
    for program in blocks(PAGE, "python"):
        exec(program, {})
