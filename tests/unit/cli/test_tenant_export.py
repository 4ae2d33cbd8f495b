"""The folder of an export of a tenant: whole or not there, whatever the server sends and whoever dies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pipeweave import Client, errors
from pipeweave.cli import main
from pipeweave.client.exports import ExportPage

ROWS = {"tenants": [b'{"id":"shop"}'], "runs": [b'{"id":1,"input":{"row":"}"}}', b'{"id":2}'], "views": []}
HEAD = b'{"export":{"format":1,"tenant":"shop"}}'


def manifest_of(rows: dict[str, list[bytes]]) -> bytes:
    tables = {
        name: {"rows": len(each), "sha256": hashlib.sha256(b"".join(row + b"\n" for row in each)).hexdigest()}
        for name, each in rows.items()
    }
    left_out = [{"what": "triggers.secret", "why": "sealed secrets"}]
    return json.dumps(
        {"manifest": {"format": 1, "tables": tables, "leftOut": left_out}}, separators=(",", ":")
    ).encode()


def line(table: str, row: bytes) -> bytes:
    return b'{"table":"%s","row":%s}' % (table.encode(), row)


LINES = [HEAD, *(line(name, row) for name, each in ROWS.items() for row in each), manifest_of(ROWS)]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes | Exception]:
    """What the server sends; an error ends it."""
    lines: list[bytes | Exception] = list(LINES)

    def export_tenant(self: Client, tenant: str) -> Iterator[ExportPage]:
        for each in lines:
            if isinstance(each, Exception):
                raise each
            yield ExportPage([each], "", each is lines[-1])

    monkeypatch.setattr(Client, "export_tenant", export_tenant)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", "http://127.0.0.1:9")
    return lines


def call(place: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["tenant", "export", "shop", "--output", str(place), *words])


def names(folder: Path) -> Sequence[str]:
    return sorted(each.name for each in folder.iterdir())


@pytest.mark.usefixtures("sent")
def test_a_folder_has_a_file_of_each_table_with_rows_and_the_manifest(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    answer = call(place, "--json")
    assert answer.exit_code == 0, answer.output
    assert names(place) == ["manifest.json", "runs.ndjson", "tenants.ndjson"]
    assert (place / "runs.ndjson").read_bytes() == b"\n".join(ROWS["runs"]) + b"\n"
    assert json.loads(answer.stdout) == json.loads((place / "manifest.json").read_text())
    assert not (tmp_path / "shop.part").exists()


@pytest.mark.usefixtures("sent")
def test_the_command_says_how_many_rows_there_are_and_what_was_left_out(tmp_path: Path) -> None:
    answer = call(tmp_path / "shop")
    assert "runs     2" in answer.stdout and "views" not in answer.stdout
    assert "left out: triggers.secret (sealed secrets)" in answer.stderr


def test_what_broke_off_is_no_export_and_the_next_one_begins_anew(tmp_path: Path, sent: list[Any]) -> None:
    place = tmp_path / "shop"
    sent[2:] = [line("views", b'{"stale":1}'), errors.Unavailable("it broke off")]
    answer = call(place)
    assert answer.exit_code == 1 and "broke off" in answer.stderr and not place.exists()
    assert "views.ndjson" in names(tmp_path / "shop.part")
    sent[:] = LINES
    assert call(place).exit_code == 0
    assert names(place) == ["manifest.json", "runs.ndjson", "tenants.ndjson"]


@pytest.mark.parametrize(
    ("at", "odd"),
    [
        (2, line("runs", b'{"id":9}')),
        (1, line("runs", b'{"id":1}')),
        (-1, manifest_of({**ROWS, "views": [b"{}"]})),
        (-1, HEAD),
    ],
    ids=["another row", "a row more", "a row less", "no manifest"],
)
def test_a_file_that_is_not_what_the_server_says_is_refused(
    tmp_path: Path, sent: list[Any], at: int, odd: bytes
) -> None:
    sent[at] = odd
    answer = call(tmp_path / "shop")
    assert answer.exit_code == 1 and "the export is not whole" in answer.stderr
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize("name", ["../../runs", "a/b", "RUNS", ""])
def test_a_server_names_no_file_outside_of_the_folder(tmp_path: Path, sent: list[Any], name: str) -> None:
    sent[1] = line(name, b"{}")
    answer = call(tmp_path / "deep" / "shop")
    assert answer.exit_code == 1 and "no export of a tenant" in answer.stderr
    assert names(tmp_path) == ["deep"]


@pytest.mark.usefixtures("sent")
def test_what_is_there_already_is_never_written_over(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    place.mkdir()
    assert "is there already" in call(place).stderr
    place.rmdir()
    (tmp_path / "shop.part").mkdir()
    (tmp_path / "shop.part" / "thesis.tex").touch()
    answer = call(place)
    assert answer.exit_code == 2 and "thesis.tex" in answer.stderr
    assert (tmp_path / "shop.part" / "thesis.tex").exists()
