"""What is shipped can be listed, and known vulnerabilities in it are found (docs/security.md)."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from support.pages import ROOT
from support.sbom import LOCK, bill, locked_packages
from support.stub_http_server import serving

AUDIT = [
    "make",
    "--no-print-directory",
    "--old-file",
    "setup",
    "--old-file",
    "sbom",
    "audit",
    f"LOCKS={LOCK.name}",
]
WEAKNESS = {"id": "GHSA-test", "summary": "A weakness.", "affected": []}


def test_the_bill_of_materials_names_each_package_of_the_image_with_its_hashes() -> None:
    components = json.loads(bill(locked_packages(LOCK.read_text())))["components"]
    listed = {(each["name"], each["version"]): each for each in components}
    assert set(listed) == set(re.findall(r"^([\w.-]+)==([\w.]+)", LOCK.read_text(), re.MULTILINE))
    hashes = {each["value"] for each in listed["six", _version("six")]["properties"]}
    assert hashes
    assert all(f"--hash=sha256:{digest}" in LOCK.read_text() for digest in hashes)
    assert listed["six", _version("six")]["licenses"] == [{"license": {"id": "MIT"}}]


@pytest.mark.parametrize(("answer", "ends_well"), [((200, {}), True), ((200, {"vulns": [WEAKNESS]}), False)])
def test_the_audit_fails_for_a_known_vulnerability(
    answer: tuple[int, dict[str, object]], ends_well: bool
) -> None:
    with serving() as service:
        service.put("POST /v1/query", answer)
        done = subprocess.run(
            [*AUDIT, f"OSV={service.url}/v1/query"], cwd=ROOT, capture_output=True, text=True
        )
        asked = {body["package"]["name"] for _, _, body in service.asked}
    assert (done.returncode == 0) == ends_well, done.stderr
    assert {"six", "flask"} <= asked
    assert ("GHSA-test" in done.stdout) == (not ends_well)


def test_the_audit_fails_where_the_vulnerabilities_cannot_be_looked_up() -> None:
    with serving() as service:
        done = subprocess.run(
            [*AUDIT, f"OSV={service.url}/nowhere"], cwd=ROOT, capture_output=True, text=True
        )
    assert done.returncode != 0


def test_each_image_can_be_named_by_its_digest() -> None:
    """Compose takes each image from a variable, and the Dockerfile takes its base from an argument."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"].values()
    images = {service["image"] for service in services if "image" in service}
    assert images
    assert all(re.fullmatch(r"\$\{[A-Z0-9]+_IMAGE:-[^}]+\}|pipeweave:.*", image) for image in images), images
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert set(bases) == {"${PYTHON_IMAGE}"}


def test_the_command_that_pins_images_names_each_one_with_its_usual_tag() -> None:
    command = (ROOT / "docs/operations.md").read_text().partition("$ for each in ")[2].partition("; do")[0]
    written = set(re.findall(r"(\w+_IMAGE)=(\S+)", command))
    assert written == set(
        re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", (ROOT / "docker-compose.yml").read_text())
    )
    assert f"ARG PYTHON_IMAGE={dict(written)['PYTHON_IMAGE']}\n" in (ROOT / "Dockerfile").read_text()


def _version(name: str) -> str:
    return next(package.version for package in locked_packages(LOCK.read_text()) if package.name == name)
