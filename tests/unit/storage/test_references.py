"""Texts that name an object by backend and path."""

from __future__ import annotations

import pytest

from pipeweave.storage import ObjectRef, backend_of, plain_path

PATH = "artifacts/sha256/ab/abc"


@pytest.mark.parametrize("backend", ["main", "a.b~c:d@e-f", "local"])
def test_a_reference_reads_back(backend: str) -> None:
    reference = ObjectRef(backend, PATH)
    assert str(reference) == f"{backend}//{PATH}"
    assert ObjectRef.parse(str(reference), "other") == reference
    assert (plain_path(str(reference)), backend_of(str(reference))) == (PATH, backend)


def test_a_path_of_an_older_version_is_in_the_default_backend() -> None:
    assert ObjectRef.parse(PATH, "main") == ObjectRef("main", PATH)
    assert (plain_path(PATH), backend_of(PATH)) == (PATH, None)
