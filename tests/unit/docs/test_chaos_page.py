"""The page about reliability lists the faults and the proofs of the fault test as they are."""

from __future__ import annotations

import re

from support.pages import section

from chaos import plan, proofs


def first_column() -> list[str]:
    table = re.findall(r"^\| (.+?) \|", section("docs/reliability.md", "The fault test"), re.MULTILINE)
    return [each for each in table if each not in ("fault", "proof")]


def test_every_fault_is_documented() -> None:
    shown = [name for each in first_column() for name in re.findall(r"`([\w-]+)`", each)]
    assert sorted(shown) == sorted(plan.KINDS)


def test_every_proof_is_documented() -> None:
    assert [each for each in first_column() if "`" not in each] == [
        proofs.name_of(each) for each in proofs.ALL
    ]
