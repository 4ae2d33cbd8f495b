"""Pipeline documents in files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeweave.authoring import load_documents
from pipeweave.authoring.document_loading import read_documents
from pipeweave.errors import InvalidSpec

NIGHTLY = """
id: nightly
steps:
  - task: fetch
  - parallel:
      - task: left
      - {task: right, params: {limit: 3}}
  - task: join
"""


def test_yaml_and_json_give_the_same_spec(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(NIGHTLY)
    (from_yaml,) = load_documents(tmp_path / "a.yaml")
    (tmp_path / "b.json").write_text(json.dumps(from_yaml.to_json()))
    assert load_documents(tmp_path / "b.json") == [from_yaml]
    assert from_yaml.steps[-1].needs == ("left", "right")


def test_a_folder_gives_all_its_documents_in_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("steps: [{task: t}]")
    (tmp_path / "a.json").write_text(
        '[{"id": "one", "steps": [{"task": "t"}]}, {"id": "two", "steps": [{"task": "t"}]}]'
    )
    (tmp_path / "c.yaml").write_text("id: three\nsteps: [{task: t}]\n---\nid: four\nsteps: [{task: t}]\n")
    (tmp_path / "notes.txt").write_text("not one")
    assert [spec.id for spec in load_documents(tmp_path)] == ["one", "two", "b", "three", "four"]


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.yaml", "steps: [", "is not YAML"),
        ("a.yaml", "id: a\nid: b\nsteps: []", "'id' appears twice"),
        ("a.yaml", "id: !!python/object:os.system x", "is not YAML"),
        ("a.json", '{"id": 1, "id": 2}', "'id' appears twice"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.yaml", "id: a\nsteps:\n - task: t\n   params: {at: 2024-01-01}", "a date, which is not JSON"),
        ("a.yaml", "id: a\nsteps: [{task: t}]\n---\nid: a\nsteps: [{task: t}]", "has the id 'a', too"),
        ("a.toml", "id = 1", "must end in .yaml"),
        ("a.yaml", "just text", "must be an object"),
    ],
)
def test_an_unreadable_document_is_refused_with_its_file(
    tmp_path: Path, name: str, text: str, why: str
) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(InvalidSpec) as refused:
        load_documents(file)
    assert why in refused.value.detail
    assert name in refused.value.detail


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="cannot be read"):
        load_documents(tmp_path / "none.yaml")


def test_a_mistake_in_yaml_is_named_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("id: nightly\nsteps:\n  - id: a\n   task: b\n")
    with pytest.raises(InvalidSpec, match="is not YAML: line 4, column 4: expected <block end>"):
        read_documents(file)


def test_an_option_of_a_task_in_a_step_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "nightly.json").write_text('{"id": "nightly", "steps": [{"task": "load", "retries": 3}]}')
    with pytest.raises(InvalidSpec, match=r"steps\[0\]\.retries is an option of the task, not of a step"):
        list(load_documents(tmp_path / "nightly.json"))


def test_a_cron_line_without_quotes_is_told_to_have_them(tmp_path: Path) -> None:
    file = tmp_path / "nightly.yaml"
    file.write_text("id: nightly\nschedule: */5 * * * *\nsteps:\n  - task: report\n")
    with pytest.raises(InvalidSpec, match=r"line 2, .*quote a text that begins with \*"):
        load_documents(file)
