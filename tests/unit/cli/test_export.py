"""Files of exports: what is in them after an interruption, and after going on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeweave import Client, errors
from pipeweave.cli import main
from pipeweave.cli.support.export_file import ExportFile
from pipeweave.client.exports import ExportPage

PAGES = [ExportPage([b'{"n":1}', b'{"n":2}'], "c2", False), ExportPage([b'{"n":3}'], "c3", True)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the client was asked for. An export breaks off after its first page, and can go on after it."""
    found: list[dict[str, Any]] = []

    def export_pages(
        self: Client, kind: str, after: str | None = None, **filters: Any
    ) -> Iterator[ExportPage]:
        found.append({"kind": kind, "after": after, **filters})
        if after is None and not filters.get("standalone"):
            yield PAGES[0]
            raise errors.Unavailable("the orchestrator is gone")
        if after is None:
            yield PAGES[0]
        yield PAGES[1]

    monkeypatch.setattr(Client, "export_pages", export_pages)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", "http://127.0.0.1:9")
    return found


def call(*words: str) -> Any:
    return CliRunner().invoke(main, ["export", *words])


def test_lines_go_to_the_standard_output_and_the_count_elsewhere(asked: list[dict[str, Any]]) -> None:
    result = call("events", "--standalone", "--pipeline", "p")
    assert result.stdout == '{"n":1}\n{"n":2}\n{"n":3}\n'
    assert "3 events exported" in result.stderr
    assert asked == [{"kind": "events", "after": None, "standalone": True, "pipelineId": ["p"]}]


def test_every_filter_is_sent(asked: list[dict[str, Any]]) -> None:
    words = "--status failed --status partial --pipeline a --pipeline b --triggered-by schedule --text x"
    more = "--since 2026-11-20T12:00:00Z --meta a=b --meta c=d --pipeline-version 3 --min-ms 5 --task t"
    call("runs", "--standalone", *words.split(), *more.split())
    assert asked[0] == {
        "kind": "runs",
        "after": None,
        "status": ["failed", "partial"],
        "pipelineId": ["a", "b"],
        "triggeredBy": "schedule",
        "createdAfter": "2026-11-20T12:00:00Z",
        "text": "x",
        "meta": ["a=b", "c=d"],
        "version": 3,
        "minMs": 5,
        "taskId": "t",
        "standalone": True,
    }


def test_an_interrupted_export_goes_on_with_the_same_filters(
    asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    file = tmp_path / "steps.ndjson"
    result = call("task-runs", "--since", "1h", "-o", str(file))
    assert result.exit_code == 1
    assert "gone" in result.stderr
    with file.open("ab") as out:
        out.write(b'{"written before it was noted')
    result = call("task-runs", "-o", str(file), "--resume")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "3 task-runs exported" in result.stderr
    assert file.read_text() == '{"n":1}\n{"n":2}\n{"n":3}\n'
    assert list(tmp_path.iterdir()) == [file], "its note is gone"
    first, second = asked
    assert second == {**first, "after": "c2"}


def test_there_must_be_something_to_go_on_with(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "runs.ndjson"
    assert "needs --output" in call("runs", "--resume").stderr
    assert "no export to" in call("runs", "-o", str(file), "--resume").stderr
    call("runs", "-o", str(file))
    assert "is an export of runs, not of events" in call("events", "-o", str(file), "--resume").stderr
    file.write_text("")
    assert "less in it" in call("runs", "-o", str(file), "--resume").stderr
    file.with_name("runs.ndjson.cursor").write_text("[]")
    assert "no note of an export" in call("runs", "-o", str(file), "--resume").stderr


def test_a_file_that_cannot_be_written_is_one_line(asked: list[dict[str, Any]], tmp_path: Path) -> None:
    result = call("runs", "-o", str(tmp_path / "nowhere" / "runs.ndjson"))
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr


def test_a_note_is_never_half_written(tmp_path: Path) -> None:
    file = ExportFile.new(tmp_path / "x", "runs", {})
    with file.opened() as out:
        out.write(b"{}\n")
        file.record(out, "c1", 1)
        out.write(b"half")
    again = ExportFile.interrupted(tmp_path / "x", "runs")
    assert (again.cursor, again.size, again.rows) == ("c1", 3, 1)
    with again.opened():
        assert (tmp_path / "x").read_bytes() == b"{}\n"
