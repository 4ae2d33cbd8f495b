"""The tasks of a nightly load; nightly-load.yaml and load-one-file.yaml say in which order they run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from pipeweave import TaskError, task


@task
def list_new_files(folder: str) -> list[str]:
    """Name the files of a folder that wait to be loaded."""
    return sorted(str(each) for each in Path(folder).glob("*.csv"))


@task
def read_file(path: str) -> dict[str, Any]:
    """Count the rows of a file, and those without an amount."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is no text", code="UNREADABLE", retryable=False) from error
    return {"rows": len(rows), "bad": sum(not each.get("amount") for each in rows)}


@task
def load_file(path: str) -> int:
    """Load a file. Loading it again changes nothing: what is loaded has the name of its file."""
    source = Path(path)
    with source.open(newline="", encoding="utf-8") as file:
        amounts = [float(each["amount"]) for each in csv.DictReader(file) if each["amount"]]
    loaded = source.parent / "loaded"
    loaded.mkdir(exist_ok=True)
    (loaded / f"{source.stem}.json").write_text(json.dumps(amounts))
    return len(amounts)


@task
def set_aside(path: str, why: str) -> str:
    """Put a file where a person looks at it."""
    aside = Path(path).parent / "aside"
    aside.mkdir(exist_ok=True)
    (aside / f"{Path(path).stem}.txt").write_text(why)
    return why


@task
def report_load(files: list[str], results: list[dict[str, Any] | None]) -> dict[str, Any]:
    """Say what became of each file; a file whose branch failed has no result."""
    named = dict(zip(files, results, strict=True))
    return {
        "loaded": sum(each["loaded"] or 0 for each in results if each),
        "aside": [file for file, each in named.items() if each and each["aside"]],
        "failed": [file for file, each in named.items() if each is None],
    }
