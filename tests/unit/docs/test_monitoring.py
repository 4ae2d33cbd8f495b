"""The alerts and the dashboard in docs/monitoring ask only for what there is, and ask it right."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from support.pages import ROOT, text_of
from support.promql import selectors, taken_once

from pipeweave.orchestrator.metrics import FAMILIES, Family, MetricKind
from pipeweave.orchestrator.metrics.catalogue import PROCESS

FOLDER = ROOT / "docs" / "monitoring"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "pipeweave-rules.yml").read_text())["groups"]
    for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana-dashboard.json").read_text())


def panels() -> Iterator[dict[str, Any]]:
    for panel in DASHBOARD["panels"]:
        yield from (panel, *panel.get("panels", ()))


def queries() -> list[tuple[str, str]]:
    """The expressions of the dashboard with the panels they belong to."""
    found = [(panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", ())]
    return [(title, plain(expression)) for title, expression in found]


def plain(expression: str) -> str:
    """An expression without Grafana's variables."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "6h").replace("$tenant", ".*")


EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + queries()


def names_of(family: Family) -> list[str]:
    if family.kind is MetricKind.HISTOGRAM:
        return [f"{family.name}_{suffix}" for suffix in ("bucket", "sum", "count")]
    return [family.shown_name]


KNOWN = {name: family for family in FAMILIES for name in names_of(family)}


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_an_expression_asks_for_metrics_and_labels_that_there_are(title: str, expression: str) -> None:
    found = list(selectors(expression))
    assert found
    for selector in found:
        if selector.name == "up":
            continue
        family = KNOWN[selector.name]
        asked = {matcher.name for matcher in selector.matchers.matchers}
        assert asked <= {*family.labels, "le"}, f"{title}: {selector.name} has no such label"


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS, ids=[title for title, _ in EXPRESSIONS])
def test_what_every_process_tells_is_taken_once(title: str, expression: str) -> None:
    asked = {selector.name for selector in selectors(expression)} - {"up"}
    of_deployment = {name for name in asked if PROCESS not in KNOWN[name].labels} - {
        "orchestrator_database_up"
    }
    assert of_deployment <= taken_once(expression), f"{title}: with two API processes, it counts twice"


def test_the_variables_of_the_dashboard_come_from_labels_that_there_are() -> None:
    asked = [each["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    for query in asked:
        found = re.fullmatch(r"label_values\((\w+), (\w+)\)", query)
        assert found and found[2] in KNOWN[found[1]].labels
    assert len(asked) == 1


def test_a_counter_is_asked_for_its_increase() -> None:
    for title, expression in EXPRESSIONS:
        for name in re.findall(r"orchestrator_\w+_total\b", expression):
            grown = re.findall(rf"(?:rate|increase)\({name}[{{\[]", expression)
            assert len(grown) == len(re.findall(rf"\b{name}\b", expression)), f"{title}: {name}"


def test_every_rule_says_how_grave_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in RULES]
    assert len(set(names)) == len(names)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        said = rule["annotations"]
        assert said.keys() == {"summary", "action"}
        used = set(re.findall(r"\$labels\.(\w+)", " ".join(said.values())))
        of_metrics = {
            label
            for each in selectors(rule["expr"])
            if each.name in KNOWN
            for label in KNOWN[each.name].labels
        }
        assert used <= of_metrics | {"instance"}, rule["alert"]


def test_the_page_explains_every_alert() -> None:
    page = text_of("docs/metrics.md")
    shown = re.findall(r"^\| `(PipeWeave\w+)` \| (\w+) \|", page, re.MULTILINE)
    assert shown == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


def test_the_panels_of_the_dashboard_lie_beside_each_other() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + row)
            for column in range(place["w"])
            for row in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"] and panel["targets"], panel["title"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
