"""Runs that failed, and their dead letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from pipeweave.orchestrator.deadletters import dead_letters
from pipeweave.orchestrator.deadletters.dead_letters import Retried
from pipeweave.orchestrator.deadletters.filters import LetterFilter
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.reading import dead_letters as queries
from pipeweave.orchestrator.store.keyset import Document, PageRequest
from support.inline_worker import InlineWorker, failing
from support.run_driver import RunDriver

CHAIN: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"]}
DIAMOND: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}
TWO: dict[str, list[str]] = {"a": [], "b": [], "c": ["a", "b"]}
MAP: dict[str, list[str]] = {"m": [], "after": ["m"]}
WIDE = [f"b{number}" for number in range(9)]


def letters(driver: RunDriver, run_id: UUID | None = None) -> list[Any]:
    """The dead letters of the tenant, or of one of its runs, oldest first."""
    of_run = "" if run_id is None else " AND run_id = :run_id"
    return driver.rows(
        f"SELECT * FROM dead_letters WHERE tenant_id = :tenant{of_run} ORDER BY id",
        tenant=driver.tenant,
        run_id=run_id,
    )


def still_open(driver: RunDriver, run_id: UUID) -> list[Any]:
    """The dead letters of a run that were neither retried nor discarded, oldest first."""
    rows = letters(driver, run_id)
    return [each for each in rows if each.retried_at is None and each.discarded_at is None]


def retry(driver: RunDriver, letter: Any) -> Retried:
    """Retry a dead letter, given as its row."""
    found = driver.database.run(lambda tx: dead_letters.find_open(tx, driver.tenant, letter.id))
    inputs = dead_letters.stored_inputs(driver.values, [found])
    return driver.database.run(lambda tx: dead_letters.retry(tx, driver.tenant, letter.id, inputs))


def failed_run(
    worker: InlineWorker,
    needs: Mapping[str, Sequence[str]],
    *failing_steps: str | tuple[str, int],
    id: str = "driven",
    input: Any = None,
    **document: Any,
) -> UUID:
    """A run of a new pipeline whose messages were all consumed while some steps failed.

    Args:
        needs: steps and their predecessors.
        failing_steps: steps, or items of maps as (step, index), that fail for good.
        id: of the pipeline.
        input: of the run.
        document: further members, as `RunDriver.store` takes them.
    """
    worker.fails = failing(*failing_steps)
    worker.driver.store(needs, id=id, **document)
    run_id = worker.driver.trigger(id, input)
    worker.consume_all()
    return run_id


def differences(driver: RunDriver, run_id: UUID) -> list[Any]:
    """Where the rows of a run differ from its events."""
    with verify.snapshot(driver.database) as tx:
        return verify.run(tx, run_id)


def called(worker: InlineWorker) -> dict[str, int]:
    """How often each step, or all items of it together, was called."""
    sums: dict[str, int] = {}
    for (step, _), number in worker.calls.items():
        sums[step] = sums.get(step, 0) + number
    return sums


def drop_history(driver: RunDriver, run_id: UUID) -> None:
    """Delete a run, its task runs and its events, as retention does with a month."""
    for table, column in (("runs", "id"), ("task_runs", "run_id"), ("events", "run_id")):
        driver.rows(f"DELETE FROM {table} WHERE {column} = :id RETURNING 1", id=run_id)


FIRST = PageRequest()


def listed(driver: RunDriver, page: PageRequest = FIRST, status: str = "open", **filters: Any) -> Document:
    """A page of the tenant's dead letters with this status; `filters` are members of `LetterFilter`."""
    with driver.database.reading() as tx:
        return queries.dead_letter_list(tx, driver.tenant, page, LetterFilter(**filters), status=status)
