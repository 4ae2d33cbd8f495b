"""The documents can be followed: links, examples, make targets; and they speak of the project alone."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from support.pages import PAGES, ROOT, blocks, text_of

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@every_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@every_page
def test_examples_in_the_documents_can_be_read(page: Path) -> None:
    for block in blocks(page, "python"):
        ast.parse(block)
    for block in blocks(page, "yaml"):
        list(yaml.safe_load_all(block))
    for block in blocks(page, "json"):
        json.loads(block)


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page.name


def test_every_make_target_explains_itself() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert phony
    explained = re.findall(r"^([a-z-]+):.* ## \S", text_of("Makefile"), re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(explained)


@pytest.mark.parametrize(
    ("given", "kept"), [((), False), (("--keep",), True), (("-j2", "--no-print-directory"), False)]
)
def test_make_hands_its_keep_to_the_demo(given: tuple[str, ...], kept: bool) -> None:
    argv = ["make", "--dry-run", "--assume-old=.venv/.installed", *given, "demo"]
    done = subprocess.run(
        argv, cwd=ROOT, env={"PATH": os.defpath}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == ".venv/bin/pipeweave demo" + (" --keep" if kept else "")


def test_every_decision_is_listed() -> None:
    pages = {page.name for page in (ROOT / "docs/decisions").glob("[0-9]*.md")}
    assert pages == set(re.findall(r"\]\((\d{4}-[a-z-]+\.md)\)", text_of("docs/decisions/README.md")))


def test_the_repository_speaks_of_the_project_alone() -> None:
    """No path of the machine it was written on, no address of a package index: neither exists elsewhere."""
    words = [
        "/wo" + "rk/",
        "/ro" + "ot/",
        ".lib" + "rary",
        "index" + "-url",
        "fa" + "rm",
        "pypi" + "." + "org",
    ]
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = []
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and not path.is_symlink():
            content = path.read_bytes().lower()
            found += [(name, word) for word in words if word.encode() in content]
    assert not found


def test_comments_cite_only_pages_that_exist() -> None:
    folders = ("pipeweave", "orchestrator", "workers", "api", "migrations", "benchmarks", "tests")
    missing = []
    for source in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        cited = re.findall(r"\b(?:docs/[\w/-]+\.md|(?:benchmarks/)?[A-Z]{3,}\.md)\b", source.read_text())
        near = {*ROOT.glob("*.md"), *source.parent.glob("*.md")}
        known = {path.name for path in near} | {str(path.relative_to(ROOT)) for path in PAGES}
        missing += [(str(source.relative_to(ROOT)), page) for page in cited if page not in known]
    assert not missing
