"""Assets, uploads and folders of tasks that run in the test's own process."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from pipeweave import Context, pipeline, task
from pipeweave.errors import InvalidInput, NotFound
from pipeweave.testing import run_pipeline, run_task

folders: list[Path] = []


@task
def write(ctx: Context, name: str = "a") -> None:
    folders.append(ctx.temp_dir)
    ctx.add_asset(name, {"by": name})
    ctx.add_asset("shared", name)


@task
def read(ctx: Context) -> Any:
    return [ctx.get_asset("shared"), ctx.get_asset_path("shared").read_text()]


@pipeline
def two() -> Any:
    first = write("a")
    second = write.options(step_id="second", needs=[first])("b")
    return read.options(needs=[second])()


@pipeline
def mapped() -> Any:
    return read.options(needs=[write.map(["x", "y"])])()


def test_a_task_s_assets_are_in_its_outcome() -> None:
    assert run_task(write).assets == {"a": {"by": "a"}, "shared": "a"}
    assert not folders[-1].exists()


def test_assets_and_uploads_are_given_to_a_task(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1,2")

    def size(ctx: Context) -> list[Any]:
        return [ctx.upload("tmp_1").name, b64encode(ctx.get_asset("raw")).decode(), ctx.get_asset("n")]

    given = {"raw": tmp_path / "in.csv", "n": 1}
    outcome = run_task(size, assets=given, uploads={"tmp_1": tmp_path / "in.csv"})
    assert outcome.output == ["in.csv", "MSwy", 1]


def test_assets_go_through_a_pipeline_and_the_nearest_wins() -> None:
    result = run_pipeline(two).raise_error()
    assert result.steps["read"].output == ["b", "b"]
    assert result.steps["second"].assets == {"b": {"by": "b"}, "shared": "b"}


def test_of_a_map_the_last_item_s_asset_is_read() -> None:
    result = run_pipeline(mapped).raise_error()
    assert result.steps["read"].output == ["y", "y"]


def test_a_plain_call_has_no_files() -> None:
    with pytest.raises(InvalidInput, match="run_task"):
        write()


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "a\\b", "a b", "\0", "x" * 201, "ä"])
def test_a_key_that_is_no_file_name_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput, match="not the key of an asset"):
        run_task(_adding(key))


def _adding(key: str) -> Any:
    def add(ctx: Context) -> None:
        ctx.add_asset(key, 1)

    return add


def test_a_missing_asset_or_upload_is_not_found() -> None:
    def look(ctx: Context) -> None:
        ctx.get_asset("nothing")

    def take(ctx: Context) -> None:
        ctx.upload("tmp_nothing")

    for each in (look, take):
        with pytest.raises(NotFound):
            run_task(each)
