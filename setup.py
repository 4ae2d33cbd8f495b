"""Makes README.md the page of the package on an index, where paths of the repository would lead nowhere.

setuptools runs this at each build; all else about the package is in pyproject.toml.
docs/decisions/0123-what-is-published.md says why.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
# Of a paragraph: a picture, or a link to a file of the repository or within the page.
_PICTURE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<path>[^):]+)\)")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^):]+)\)")
# No index draws it.
_DIAGRAM = re.compile(r"^```mermaid\n.*?^```\n\n?", re.MULTILINE | re.DOTALL)


def index_page(readme: str, repository: str | None, version: str) -> str:
    """The page with links into the repository, or, while it has no address, with their texts alone.

    Args:
        readme: the text of README.md.
        repository: the address of the repository, as `[project.urls]` has it.
        version: links lead to the files of this version, by its tag.
    """
    page = _DIAGRAM.sub("", readme)
    if repository is None:
        return _LINK.sub(r"\g<text>", _PICTURE.sub("", page))
    root = repository.rstrip("/")
    page = _PICTURE.sub(rf"![\g<text>]({root}/raw/v{version}/\g<path>)", page)
    return _LINK.sub(rf"[\g<text>]({root}/blob/v{version}/\g<path>)", page)


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    setup(
        long_description=index_page(
            (ROOT / "README.md").read_text(encoding="utf-8"),
            project.get("urls", {}).get("Repository"),
            project["version"],
        ),
        long_description_content_type="text/markdown",
    )
