"""Write the bill of materials of the container image, in the format of CycloneDX 1.6: `make sbom`.

It is read off `requirements-image.lock`, so it names what the image installs and nothing else, with the
hashes that pip compares. Licences come from the metadata of the packages that are installed here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements-image.lock"


class LockedPackage(NamedTuple):
    """One package of a lock file."""

    name: str
    version: str
    hashes: list[str]
    """SHA-256 of each file that may be installed, as hex digits."""


def locked_packages(lock: str) -> list[LockedPackage]:
    """The packages of the text of a lock file, by name."""
    return sorted(
        LockedPackage(head[1], head[2], re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
        for entry in re.split(r"\n(?=\S)", lock)
        if (head := re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", entry))
    )


def bill(packages: list[LockedPackage]) -> str:
    """The bill of materials as indented JSON."""
    bom = Bom()
    licences = LicenseFactory()
    bom.metadata.component = Component(
        name="pipeweave",
        version=metadata.version("pipeweave"),
        type=ComponentType.APPLICATION,
        bom_ref="pipeweave",
    )
    for package in packages:
        bom.components.add(_component(package, licences))
    bom.register_dependency(bom.metadata.component, bom.components)
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


def _component(package: LockedPackage, licences: LicenseFactory) -> Component:
    purl = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType("library"),
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[_licence(text, licences) for text in _licence_texts(package.name)],
        # Not as `hashes`: those are of one file, and a package has a file for each platform.
        properties=[Property(name="pip:sha256", value=each) for each in package.hashes],
    )


def _licence_texts(name: str) -> Iterator[str]:
    """The licence that an installed package names: an expression, or the first line of a text."""
    try:
        fields = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return
    stated = (
        fields.get("License-Expression")
        or fields.get("License")
        or _classified(fields.get_all("Classifier", []))
    )
    if stated:
        yield stated.strip().splitlines()[0]


def _classified(classifiers: list[str]) -> str:
    names = [
        line.rsplit(" :: ", 1)[-1] for line in classifiers if line.startswith("License :: OSI Approved :: ")
    ]
    return names[0] if names else ""


def _licence(text: str, licences: LicenseFactory) -> License:
    made = licences.make_from_string(text)
    return made if isinstance(made, License) else licences.make_with_name(text)


def main() -> None:
    """Write the bill into the file that is named, and say where it is."""
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    packages = locked_packages(LOCK.read_text())
    path.write_text(bill(packages))
    print(f"{path}: {len(packages)} packages")


if __name__ == "__main__":
    main()
