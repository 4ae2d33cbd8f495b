"""What a chord of Celery becomes: `chord(resize.s(each) for each in names)(album.s())` as a pipeline."""

from __future__ import annotations

from pipeweave import pipeline, task


@task(retries=5, timeout=30)
def resize(name: str) -> str:
    """The header: called once for each name."""
    return f"small-{name}"


@task
def album(names: list[str]) -> str:
    """The body: called once, with the results in the order of the list."""
    return ", ".join(names)


@pipeline
def make_album(names: list[str]):
    return album(resize.map(names))
