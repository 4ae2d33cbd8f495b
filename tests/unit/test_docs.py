"""The documents say what the code does."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from pipeweave.cli import COMMANDS
from pipeweave.orchestrator.states import RUN_MOVES, TASK_MOVES
from pipeweave.setting_table import DATABASE_PARTS, TABLE
from pipeweave.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


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
        yaml.safe_load(block)
    for block in blocks(page, "json"):
        json.loads(block)


@pytest.mark.parametrize(
    ("heading", "moves"), [("Run", RUN_MOVES), ("Task run", TASK_MOVES)], ids=["run", "task run"]
)
def test_the_picture_of_the_state_machine_is_the_state_machine(
    heading: str, moves: dict[str, set[str]]
) -> None:
    section = re.split(r"^## ", text_of("docs/state-machine.md"), flags=re.MULTILINE)
    picture = next(part for part in section if part.startswith(heading + "\n"))
    arrows = set(re.findall(r"^ +(\S+) --> (\S+)$", picture, re.MULTILINE))
    expected = {(str(before), str(after)) for before, allowed in moves.items() for after in allowed}
    expected |= {(str(before), "[*]") for before, allowed in moves.items() if not allowed}
    assert arrows == expected | {("[*]", "pending")}
    assert set(re.findall(r"^\| (\w+) \| (?!meaning)", picture, re.MULTILINE)) == {
        str(each) for each in moves
    }


def test_the_table_of_settings_is_the_code() -> None:
    defaults = {each.name: each.default for each in dataclasses.fields(Settings)}
    expected = []
    for setting in TABLE:
        value = defaults[setting.field]
        shown = "" if value in (None, ()) else f"`{value}`"
        about = setting.about if setting.is_used else f"{setting.about} (not used yet)"
        expected.append((f"`{setting.name}`", shown, about))
    table = text_of("docs/configuration.md").split("## Names")[0]
    assert re.findall(r"^\| (`\w+`) \| (.*?) ?\| (.+) \|$", table, re.MULTILINE) == expected


def test_every_spelling_of_a_database_part_is_documented() -> None:
    page = text_of("docs/configuration.md")
    assert not [name for names in DATABASE_PARTS.values() for name in names if f"`{name}`" not in page]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    assert re.search(rf"^#+ `pipeweave {command}\b", text_of("docs/cli.md"), re.MULTILINE)


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of("Makefile"), re.MULTILINE))
    for page in PAGES:
        named = re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE)
        assert set(named) <= targets, page.name


def test_every_make_target_explains_itself() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert phony
    explained = re.findall(r"^([a-z]+):.* ## \S", text_of("Makefile"), re.MULTILINE)
    assert sorted(phony[1].split()) == sorted(explained)


def test_the_changelog_has_a_place_for_what_is_new() -> None:
    assert "\n## [Unreleased]\n" in text_of("CHANGELOG.md")


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
