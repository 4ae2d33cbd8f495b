"""The manifest of a bundle: each mistake is refused with its field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bundles import a_bundle, manifest_document, pipeline_document, task_entry

from pipeweave.bundles import manifest as manifests
from pipeweave.bundles import python_ranges, versions
from pipeweave.bundles.envelope import canonical
from pipeweave.errors import InvalidBundle

FILES = {"src/tasks.py": b"", "wheels/calc-1.0-py3-none-any.whl": b""}


def refused_fields(**members: Any) -> set[str]:
    document = manifest_document(FILES, **members)
    with pytest.raises(InvalidBundle) as refused:
        manifests.parse(canonical(document))
    return {each.field for each in refused.value.errors}


LISTED = manifest_document(FILES)["files"]
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "another format": ({"format": 2}, "format"),
    "no id": ({"id": None}, "id"),
    "an id that leads elsewhere": ({"id": "../shop"}, "id"),
    "a version of words": ({"version": "1.0-beta"}, "version"),
    "a version with a leading zero": ({"version": "1.04"}, "version"),
    "a range of words": ({"python": "any"}, "python"),
    "a member that is not known": ({"scripts": ["rm"]}, "scripts"),
    "a task without a file": ({"tasks": [task_entry(module="shop.tasks")]}, "tasks[0].module"),
    "a module that leads elsewhere": ({"tasks": [task_entry(module="..tasks")]}, "tasks[0].module"),
    "a task twice": ({"tasks": [task_entry(), task_entry()]}, "tasks"),
    "a pipeline twice": ({"pipelines": [pipeline_document(), pipeline_document()]}, "pipelines"),
    "nothing at all": ({"tasks": [], "pipelines": []}, "tasks"),
    "a wheel that is not listed": ({"requires": ["wheels/more-1.0-py3-none-any.whl"]}, "requires[0]"),
    "a wheel for one machine": ({"requires": ["src/tasks.py"]}, "requires[0]"),
    "files in another order": ({"files": LISTED[::-1]}, "files"),
    "a file twice": ({"files": [LISTED[0], LISTED[0]]}, "files"),
    "a file with a number as its hash": ({"files": [{**LISTED[0], "sha256": 7}]}, "files[0].sha256"),
    "a file of less than nothing": ({"files": [{**LISTED[0], "size": -1}]}, "files[0].size"),
    "a file above the folder": ({"files": [{**LISTED[0], "path": "src/../../up"}]}, "files[0].path"),
    "a file beside the sources": ({"files": [{**LISTED[0], "path": "bundle.json"}]}, "files[0].path"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_refused_with_its_field(mistake: str) -> None:
    members, field = WRONG[mistake]
    assert field in refused_fields(**members)


def test_what_is_no_json_is_refused() -> None:
    for text in (b"", b"{", b"\xff\xfe", b"NaN", b"[" * 5_000):
        with pytest.raises(InvalidBundle):
            manifests.parse(text)


def test_a_pipeline_that_is_not_valid_is_refused_with_its_place() -> None:
    made = a_bundle(pipelines=[pipeline_document(), {"id": "other", "steps": [{"id": "a", "needs": ["b"]}]}])
    with pytest.raises(InvalidBundle) as refused:
        made.manifest.specs()
    assert refused.value.errors[0].field.startswith("pipelines[1].steps")


@given(
    st.lists(st.integers(0, 10**8), min_size=1, max_size=4),
    st.lists(st.integers(0, 10**8), min_size=1, max_size=4),
)
def test_versions_are_ordered_by_their_numbers(first: list[int], second: list[int]) -> None:
    texts = [".".join(map(str, each)) for each in (first, second)]
    assert all(versions.is_version(each) for each in texts)
    padded = [[*each, 0, 0, 0, 0][:4] for each in (first, second)]
    assert (versions.order_of(texts[0]) < versions.order_of(texts[1])) == (padded[0] < padded[1])


@pytest.mark.parametrize(
    ("python", "version", "is_within"),
    [
        (">=3.11,<3.14", (3, 11, 0), True),
        (">=3.11,<3.14", (3, 14, 0), False),
        ("==3.13", (3, 13, 2), True),
        ("!=3.13.2,>3", (3, 13, 2), False),
        (">=3.9", (3, 10, 1), True),
        ("<4", (3, 13, 1), True),
    ],
)
def test_a_range_of_pythons_looks_at_the_numbers_that_it_names(
    python: str, version: tuple[int, int, int], is_within: bool
) -> None:
    assert python_ranges.is_range(python)
    assert python_ranges.contains(python, version) == is_within
