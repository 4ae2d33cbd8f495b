"""What is uploaded to an index: both distributions are whole, and no link of the page is dead."""

from __future__ import annotations

import importlib.util
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.metadata import Metadata
from support.installed_wheel import built
from support.pages import ROOT
from support.source_tree import sources

README = (ROOT / "README.md").read_text()
REPOSITORY = "https://git.example.com/ours/pipeweave/"
LINK = re.compile(r"\]\(([^)]+)\)")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, and with the source distribution of which it was built."""
    folder = tmp_path_factory.mktemp("distributions")
    built(folder)
    return folder


def index_page(readme: str, repository: str | None) -> str:
    spec = importlib.util.spec_from_file_location("setup_of_pipeweave", ROOT / "setup.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Callable[[str, str | None, str], str] = module.index_page
    return made(readme, repository, "1.2.3")


def test_the_wheel_that_is_built_of_the_source_distribution_has_every_module(distributions: Path) -> None:
    names = set(zipfile.ZipFile(*distributions.glob("*.whl")).namelist())
    missing = []
    for path in sources():
        within = path.relative_to(ROOT).as_posix()
        if (within if within.startswith("pipeweave/") else f"pipeweave/{within}") not in names:
            missing.append(within)
    assert not missing
    assert names >= {
        "pipeweave/py.typed",
        "pipeweave/api/ui/static/icon.svg",
        "pipeweave/api/ui/templates/base.html",
    }
    # Nothing else at the top, where it would collide with what is a user's own.
    assert {re.sub(r"-.*\.", ".", name.partition("/")[0]) for name in names} == {
        "pipeweave",
        "pipeweave.dist-info",
    }


def test_the_source_distribution_has_what_builds_it(distributions: Path) -> None:
    with tarfile.open(*distributions.glob("*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {"pyproject.toml", "setup.py", "README.md", "LICENSE", "PKG-INFO"}
    # What only developers of PipeWeave need stays in the repository.
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "chaos"))]


def test_the_metadata_are_valid_and_have_the_page(distributions: Path) -> None:
    wheel = zipfile.ZipFile(*distributions.glob("*.whl"))
    (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    metadata = Metadata.from_email(wheel.read(name), validate=True)
    licences = [f"{name.removesuffix('METADATA')}licenses/{each}" for each in metadata.license_files or ()]
    assert licences
    assert set(licences) <= set(wheel.namelist())
    assert metadata.description_content_type == "text/markdown"
    assert (metadata.description or "").strip() == index_page(README, None).strip()


def test_the_page_leads_to_files_of_its_version_in_the_repository() -> None:
    page = index_page(README, REPOSITORY)
    assert "](https://git.example.com/ours/pipeweave/blob/v1.2.3/docs/tutorial.md)" in page
    assert "](https://git.example.com/ours/pipeweave/raw/v1.2.3/docs/pictures/run-light.png)" in page
    assert all(link.startswith("https://") for link in LINK.findall(page))


def test_without_an_address_of_the_repository_the_page_has_texts_in_place_of_links() -> None:
    page = index_page(README, None)
    assert LINK.findall(page) == []
    assert "| Tutorial | half an hour" in page
    assert "```mermaid" not in page


def test_links_to_other_hosts_stay_as_they_are() -> None:
    text = "[Celery](https://docs.celeryq.dev) and [ours](docs/celery.md#pool)"
    assert index_page(text, None) == "[Celery](https://docs.celeryq.dev) and ours"
    assert index_page(text, REPOSITORY).startswith(
        "[Celery](https://docs.celeryq.dev) and [ours](https://git."
    )
