"""The pages for people who come from other engines: the small job on each is right, and does what it says."""

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType

import pytest
from support.pages import ROOT, blocks

from pipeweave.testing import due_times, run_pipeline


def ours(page: str) -> ModuleType:
    """The program of the page that imports PipeWeave."""
    return loaded(page, number=1)


def loaded(page: str, *, number: int) -> ModuleType:
    module = ModuleType(f"coming_from_{page}")
    program = blocks(ROOT / f"docs/coming-from/{page}.md", "python")[number]
    exec(compile(program, page, "exec", dont_inherit=True), module.__dict__)
    return module


@pytest.mark.parametrize("page", ["airflow", "celery-canvas"])
def test_the_nightly_job_runs(page: str) -> None:
    nightly = ours(page).nightly
    assert run_pipeline(nightly, {"folder": "/srv"}).output == len("/srv/a") + len("/srv/bb")
    [due] = due_times(nightly, after=datetime(2026, 1, 1, tzinfo=UTC), count=1)
    assert due == datetime(2026, 1, 1, 2, 30, tzinfo=UTC)


def test_the_canvas_of_celery_does_the_same_and_its_schedule_names_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without a worker, Celery waits for a task that is replaced inside of the task.
    monkeypatch.setattr("celery.result.assert_will_not_block", lambda: None)
    theirs = loaded("celery-canvas", number=0)
    theirs.app.conf.update(
        task_always_eager=True, task_eager_propagates=True, result_backend="cache+memory://"
    )
    assert theirs.nightly.delay("/srv").get() == len("/srv/a") + len("/srv/bb")
    assert theirs.app.conf.beat_schedule["nightly"]["task"] in theirs.app.tasks


@pytest.mark.parametrize(
    ("signals", "output"), [({"paid": None}, "o1 is on its way"), ({}, "r-o1 is free again")]
)
def test_the_order_of_temporal_is_paid_or_given_back(signals: dict[str, None], output: str) -> None:
    assert run_pipeline(ours("temporal").sell, {"order": "o1"}, signals=signals).output == output


@pytest.mark.parametrize("page", ["airflow", "celery-canvas", "temporal"])
def test_both_tools_name_the_same_steps(page: str) -> None:
    theirs, here = blocks(ROOT / f"docs/coming-from/{page}.md", "python")
    steps = ("list_files", "count", "report") if page != "temporal" else ("reserve", "send_parcel", "release")
    assert all(f"def {step}(" in program for step in steps for program in (theirs, here))


@pytest.mark.parametrize("page", ["airflow", "celery-canvas", "temporal"])
def test_every_program_is_python(page: str) -> None:
    for program in blocks(ROOT / f"docs/coming-from/{page}.md", "python"):
        compile(program, page, "exec", dont_inherit=True)
