"""What the path of an object says, and what it does not."""

from __future__ import annotations

import pytest

from pipeweave import dispatch_ids, ids
from pipeweave.orchestrator.objects import paths
from pipeweave.orchestrator.objects.paths import ArtifactPath, AttemptPath, RunPath, UploadPath

RUN = ids.read(ids.RUN, "prun_01m80arwk4es7bk8x0dg000000")
TASK_RUN = ids.task_run_id(RUN, 7)
SHOWN = ids.show(ids.TASK_RUN, TASK_RUN)
HASH = "ab" + "0" * 62


def test_the_paths_of_the_house_say_whose_they_are() -> None:
    dispatched = dispatch_ids.make("s" * 32, TASK_RUN, 3)
    expected = {
        f"artifacts/sha256/ab/{HASH}": ArtifactPath(),
        f"pipelines/{ids.show(ids.RUN, RUN)}/outputs/a.json": RunPath(RUN),
        f"standalone/{ids.show(ids.RUN, RUN)}/input.json": RunPath(RUN),
        f"runs/{SHOWN}.2/logs.jsonl": AttemptPath(TASK_RUN, 2, "logs.jsonl"),
        f"runs/{dispatched}/assets/a b.pdf": AttemptPath(TASK_RUN, 3, "assets/a b.pdf"),
        f"runs/{SHOWN}/note.txt": AttemptPath(TASK_RUN, None, "note.txt"),
        f"temp-uploads/{ids.show(ids.UPLOAD, RUN)}/a.csv": UploadPath(RUN),
    }
    assert {path: paths.read(path) for path in expected} == expected
    assert all(path.startswith(paths.PREFIXES) for path in expected)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "archive/runs/2026-03/manifest.json",
        "runs",
        f"runs/{SHOWN}",
        f"runs/{SHOWN}.0/output.json",
        f"runs/{SHOWN}.1/",
        f"runs/{SHOWN}.1/../../x",
        f"runs/{SHOWN}.1/./x",
        f"runs//{SHOWN}.1/x",
        f"/runs/{SHOWN}.1/x",
        f"runs/{SHOWN}.1/a\\b",
        f"runs/{SHOWN}.1/a\0b",
        f"runs/{SHOWN}.1/a\nb",
        f"runs/{SHOWN}.1/a\ud800",
        f"runs/{SHOWN}.1/{'a' * 1024}",
        f"runs/{SHOWN.upper()}.1/x",
        f"runs/{SHOWN}.1.short/x",
        f"local//runs/{SHOWN}.1/x",
        f"artifacts/sha256/ba/{HASH}",
        f"artifacts/sha256/ab/{HASH}/x",
        f"artifacts/sha256/ab/{HASH.upper()}",
        f"temp-uploads/{SHOWN}/a",
        "pipelines/files/input.json",
    ],
)
def test_any_other_path_is_not_ours(path: str) -> None:
    assert paths.read(path) is None


def test_a_log_may_be_of_a_worker_or_of_a_dispatch() -> None:
    assert paths.log_paths(None, TASK_RUN, 1) == (f"runs/{SHOWN}.1/logs.jsonl",)
    of_worker, of_dispatch = paths.log_paths("s" * 32, TASK_RUN, 1)
    assert of_worker == f"runs/{SHOWN}.1/logs.jsonl"
    assert of_dispatch == f"runs/{dispatch_ids.make('s' * 32, TASK_RUN, 1)}/logs.jsonl"
