"""docs/metrics.md lists exactly the metrics that there are."""

from __future__ import annotations

import re

from support.pages import section

from pipeweave.orchestrator.metrics import FAMILIES, Family


def row_of(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    return f"| `{family.shown_name}` | {family.kind} | {labels} | {family.about} |"


def test_the_table_is_the_list_in_the_code() -> None:
    shown = re.findall(r"^\| `orchestrator_.*\|$", section("docs/metrics.md", "All metrics"), re.MULTILINE)
    assert shown == [row_of(family) for family in FAMILIES]


def test_names_follow_the_conventions_of_prometheus() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"orchestrator_[a-z0-9]+(_[a-z0-9]+)*", family.name), family.name
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket")), family.name
        assert family.of is None or family.of in family.labels
        assert bool(family.bounds) == (family.kind == "histogram")
