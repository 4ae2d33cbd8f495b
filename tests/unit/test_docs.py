"""The documents say what the code does."""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from pipeweave import limits
from pipeweave.api.routes import ENDPOINTS
from pipeweave.cli import COMMANDS
from pipeweave.context import Context
from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.states import RUN_MOVES, TASK_MOVES
from pipeweave.rules import Decision, Predecessor, decide_step
from pipeweave.setting_table import DATABASE_PARTS, TABLE
from pipeweave.settings import Settings
from pipeweave.task_spec import TaskSpec

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


def test_the_limits_in_the_documents_are_the_limits() -> None:
    shown = re.findall(
        r"^\| .+ \| ([\d,]+)( KiB| MiB| MB)? \|$", _section("docs/tasks-and-pipelines.md", "Limits"), re.M
    )
    units = {"": 1, " KiB": 1024, " MiB": 1024**2, " MB": 10**6}
    assert [int(number.replace(",", "")) * units[unit] for number, unit in shown] == [
        limits.MAX_STEPS,
        limits.MAX_EDGES,
        limits.MAX_SPEC_BYTES,
        limits.MAX_MAP_ITEMS,
        limits.MAX_ITEM_BYTES,
        limits.MAX_TASK_RUNS_PER_RUN,
        limits.INLINE_BYTES,
        limits.MAX_BODY_BYTES,
        limits.MAX_BATCH,
    ]


def test_the_options_of_a_task_in_the_documents_are_its_options() -> None:
    table = _section("docs/tasks-and-pipelines.md", "Options")
    shown = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))
    fields = {each.name: each.default for each in dataclasses.fields(TaskSpec)}
    assert shown.keys() == fields.keys() - {"code_hash", "name"}
    for name, text in shown.items():
        if isinstance(fields[name], int | str):
            assert text.strip("`") == str(fields[name]), name


def test_the_attributes_of_the_context_in_the_documents_exist() -> None:
    table = _section("docs/tasks-and-pipelines.md", "The context")
    names = re.findall(r"`(\w+)(?:\(.*?\))?`", "".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)))
    assert len(names) > 10
    assert not [name for name in names if not hasattr(Context, name)]


@pytest.mark.parametrize("mode", ["fail-fast", "continue", "partial-merge"])
def test_the_table_of_when_a_step_runs_is_the_rule(mode: str) -> None:
    """Each row of the table is made into predecessors and decided."""
    rows = re.findall(
        r"^\| (one|none) (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text_of("docs/state-machine.md"), re.M
    )
    assert len(rows) == 5
    column = ["fail-fast", "continue", "partial-merge"].index(mode)
    for one, rest, *words in rows:
        taken = Predecessor("completed", None if "an edge is taken" in rest else [])
        others = {"is not final yet": Predecessor("running")} if "final" in rest else {}
        failed = {"failed": Predecessor("failed")} if one == "one" and not others else {}
        decision = decide_step(mode, {"a": taken, **others, **failed}, "join")
        if words[column] != "the run has failed":
            expected = {"waits": Decision.WAIT, "skipped": Decision.SKIP}.get(words[column], Decision.RUN)
            assert decision is expected, rest


def _section(page: str, heading: str) -> str:
    """The text under a heading up to the next one."""
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", text_of(page), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def test_every_endpoint_is_documented_with_its_scope() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| `(/\S*)` \| (.+?) \| .+ \|$", text_of("docs/api.md"), re.MULTILINE)
    served = [
        (
            each.method,
            each.path,
            " or ".join(scope.removeprefix("orchestrator:") for scope in each.scopes) or "open",
        )
        for each in ENDPOINTS
    ]
    assert sorted(rows) == sorted(served)


def test_every_error_is_documented_with_its_status_and_title() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", text_of("docs/errors.md"), re.MULTILINE)
    known = {(each.code, str(each.status), _title(each)) for each in _errors(PipeWeaveError)}
    assert set(rows) == known


def _title(error: type[PipeWeaveError]) -> str:
    return (error.__doc__ or "").strip().splitlines()[0]


def _errors(base: type[PipeWeaveError]) -> Iterator[type[PipeWeaveError]]:
    for each in base.__subclasses__():
        if each.__module__ == "pipeweave.errors":
            yield each
            yield from _errors(each)
