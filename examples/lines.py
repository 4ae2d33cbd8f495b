from pathlib import Path

from pipeweave import pipeline, task


@task
def list_files(folder: str) -> list[str]:
    return sorted(str(path) for path in Path(folder).rglob("*.py"))


@task
def count(path: str) -> int:
    return len(Path(path).read_text(errors="replace").splitlines())


@task
def report(counts: list[int]) -> dict[str, int]:
    return {"files": len(counts), "lines": sum(counts)}


@pipeline
def lines_of_code(folder: str = "."):
    files = list_files(folder)
    counts = count.map(files)
    return report(counts)
