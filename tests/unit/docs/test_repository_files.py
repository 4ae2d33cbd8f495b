"""What a host of repositories reads beside the code says what is so: workflow, templates, citation."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet
from support.pages import ROOT, text_of

PROJECT: dict[str, Any] = tomllib.loads(text_of("pyproject.toml"))["project"]
JOBS: dict[str, dict[str, Any]] = yaml.safe_load(text_of(".github/workflows/ci.yml"))["jobs"]
TEMPLATES = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def pythons(job: str) -> list[str]:
    found: list[str] = JOBS[job]["strategy"]["matrix"]["python"]
    return found


def test_the_workflow_runs_all_tests_with_each_python_that_the_classifiers_name() -> None:
    prefix = "Programming Language :: Python :: 3."
    named = [each.removeprefix(prefix) for each in PROJECT["classifiers"] if each.startswith(prefix)]
    assert pythons("test") == [f"3.{each}" for each in named]


def test_the_workflow_installs_the_wheel_with_each_python_that_may_install_it() -> None:
    allowed = SpecifierSet(PROJECT["requires-python"])
    assert pythons("install") == [f"3.{minor}" for minor in range(30) if allowed.contains(f"3.{minor}.0")]


def test_the_workflow_calls_what_a_developer_calls() -> None:
    runs = [step["run"] for job in JOBS.values() for step in job["steps"] if "run" in step]
    called = {found[1] for each in runs if (found := re.match(r"make ([a-z-]+)", each))}
    assert called == {"check", "test", "test-whole", "docs", "package"}
    assert called <= set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    assert all(each in JOBS for job in JOBS.values() for each in re.findall(r"\w+", job.get("needs", "")))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_each_template_of_an_issue_can_be_read(template: Any) -> None:
    form = yaml.safe_load(template.read_text())
    if template.name == "config.yml":
        return
    assert {"name", "description", "body"} <= form.keys()
    fields = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields)
    assert all(each["attributes"]["label"] for each in fields)


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert citation["version"] == PROJECT["version"]
    assert citation["abstract"] == PROJECT["description"]
