"""Scraping an application, and reading what it said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Flask
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus
from werkzeug.test import TestResponse

OPENMETRICS = "application/openmetrics-text"
# Every sample by name and labels.
Found = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(app: Flask, token: str | None = None, accept: str = "", tenant: str = "") -> TestResponse:
    """Ask an application for its metrics."""
    given = {"Accept": accept, "X-Tenant": tenant, "Authorization": f"Bearer {token}" if token else ""}
    return app.test_client().get("/metrics", headers={name: text for name, text in given.items() if text})


def values(answer: TestResponse) -> Found:
    """The samples of an answer, as prometheus_client's parser of its format reads them."""
    assert answer.status_code == 200, answer.text
    read: Callable[[str], Any] = read_openmetrics if answer.mimetype == OPENMETRICS else read_prometheus
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read(answer.text)
        for sample in family.samples
    }


def of(found: Mapping[Any, float], name: str, **labels: str) -> float:
    """The sum of the samples of a name that have these labels."""
    return sum(
        value
        for (its, given), value in found.items()
        if its == f"orchestrator_{name}" and labels.items() <= set(given)
    )
