"""Finds out which objects of a page rows refer to: those live, the others may go.

An object lives while any of these is true (docs/decisions/0024-what-keeps-an-object.md):

- a row names it: the input of a run or a dead letter, the output of a task run or of an idempotency key
- it belongs to a run whose row is there
- it belongs to the present attempt of a task run: it has a claim of that attempt, or lies below its path. Of
  what a worker has written there, output and files live until the task run has ended, and longer where its
  row names them, as those of earlier versions do
- it is the log of an attempt whose row is there
- the result that is reused under a key, or by another run, has it among its files
- it is an upload that is not deleted, and still waits for a run, or has been claimed by a run that is there
  or whose dead letter is

It never asks whose a row is: a row of any tenant keeps an object.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pipeweave import ids
from pipeweave.orchestrator.objects import owners, paths, uploads
from pipeweave.orchestrator.objects.paths import ArtifactPath, AttemptPath, OwnPath, RunPath, UploadPath
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.storage.references import ObjectRef, plain_path

Kind = TypeVar("Kind", ArtifactPath, RunPath, AttemptPath, UploadPath)


def kept(tx: Transaction, backend_ids: Sequence[str], listed: Iterable[str]) -> set[str]:
    """The paths of those objects that have to stay, in whichever backend they are.

    A row keeps the object that it names and its copies: an HTTP worker reads a copy in the backend of its
    run.

    Args:
        tx: without locks: each statement has its own view of the rows.
        backend_ids: all backends.
        listed: paths that are ours (`paths.read`); of one page, at most some hundreds.
    """
    own = {path: own_path for path in listed if (own_path := paths.read(path)) is not None}
    live = _named(tx, backend_ids, list(own))
    live |= _claimed(tx, backend_ids, list(_only(own, ArtifactPath)))
    live |= _of_runs(tx, _only(own, RunPath))
    live |= _of_attempts(tx, _only(own, AttemptPath))
    live |= _of_uploads(tx, _only(own, UploadPath))
    return live


def _only(own: dict[str, OwnPath], kind: type[Kind]) -> dict[str, Kind]:
    return {path: own_path for path, own_path in own.items() if isinstance(own_path, kind)}


# --- named by a row ---------------------------------------------------------------------------------------


def _is_named_by(table: str, column: str) -> str:
    # A subquery with LIMIT is never turned into a join that reads the whole table.
    return f"(SELECT true FROM {table} AS r WHERE r.{column} = n.name LIMIT 1)"


_NAMED = f"""
SELECT n.place FROM unnest(CAST(:names AS text[]), CAST(:places AS integer[])) AS n(name, place)
WHERE coalesce({", ".join(_is_named_by(*each) for each in owners.NAMING)}, false)
"""


def _named(tx: Transaction, backend_ids: Sequence[str], listed: Sequence[str]) -> set[str]:
    return _looked_up(tx, _NAMED, backend_ids, listed)


def _looked_up(
    tx: Transaction, statement: str, backend_ids: Sequence[str], listed: Sequence[str]
) -> set[str]:
    if not listed:
        return set()
    pairs = [(name, place) for place, path in enumerate(listed) for name in _names(backend_ids, path)]
    parameters = {"names": [name for name, _ in pairs], "places": [place for _, place in pairs]}
    return {listed[place] for place in tx.execute(statement, parameters).scalars()}


def _names(backend_ids: Sequence[str], path: str) -> list[str]:
    """The texts that may name the object: older versions named it by its path alone."""
    return [*(str(ObjectRef(each, path)) for each in backend_ids), path]


# --- claimed by an attempt ---------------------------------------------------------------------------------


# SQL: the reference of a file `f`, as its row has it.
_PATH = "f.value ->> 'path'"


def path_of(reference: str) -> str:
    """SQL: the path of a reference."""
    return f"regexp_replace({reference}, '^.*//', '')"


def is_reused(task_run: str, path: str) -> str:
    """SQL: whether the result of a task run, with the file at a path, waits under an idempotency key, or was
    taken over by another task run.
    """
    is_it = f"{path_of(_PATH)} = {path}"
    return f"""coalesce(
    (SELECT true FROM idempotency_claims AS c, jsonb_each(c.assets) AS f
        WHERE c.task_run_id = {task_run} AND c.assets IS NOT NULL AND {is_it} LIMIT 1),
    (SELECT true FROM task_runs AS u, jsonb_each(u.assets) AS f
        WHERE u.cached_from = {task_run} AND u.assets IS NOT NULL AND {is_it} LIMIT 1),
    false)"""


_IS_PRESENT = """coalesce((SELECT t.attempt = k.attempt FROM task_runs AS t
        WHERE t.run_id = k.run_id AND t.id = k.task_run_id LIMIT 1), false)"""
_CLAIMED = f"""
SELECT n.place FROM unnest(CAST(:names AS text[]), CAST(:places AS integer[])) AS n(name, place)
WHERE coalesce((SELECT true FROM asset_claims AS k WHERE k.path = n.name
    AND ({_IS_PRESENT} OR {is_reused("k.task_run_id", path_of("k.path"))}) LIMIT 1), false)
"""


def _claimed(tx: Transaction, backend_ids: Sequence[str], listed: Sequence[str]) -> set[str]:
    return _looked_up(tx, _CLAIMED, backend_ids, listed)


# --- of a run ---------------------------------------------------------------------------------------------

_RUNS = """
SELECT n.id FROM unnest(CAST(:ids AS uuid[])) AS n(id)
WHERE (SELECT true FROM runs AS r WHERE r.id = n.id LIMIT 1)
"""


def _of_runs(tx: Transaction, own: dict[str, RunPath]) -> set[str]:
    if not own:
        return set()
    there = set(tx.execute(_RUNS, {"ids": sorted({each.run_id for each in own.values()})}).scalars())
    return {path for path, each in own.items() if each.run_id in there}


# --- of an attempt ----------------------------------------------------------------------------------------

# `has_row`: the attempt ended, and its row is there. `is_file`: the row of the task run has it among its
# files; since they are copied to where their content says, only rows of earlier versions do.
_ATTEMPTS = f"""
SELECT n.place, t.attempt, t.has_ended, t.is_file, a.number IS NOT NULL AS has_row,
    {is_reused("n.id", "n.path")} AS is_reused
FROM unnest(CAST(:places AS integer[]), CAST(:run_ids AS uuid[]), CAST(:ids AS uuid[]),
        CAST(:numbers AS integer[]), CAST(:paths AS text[])) AS n(place, run_id, id, number, path)
    LEFT JOIN LATERAL (SELECT t.attempt, t.finished_at IS NOT NULL AS has_ended,
            coalesce((SELECT true FROM jsonb_each(t.assets) AS f
                WHERE {path_of(_PATH)} = n.path LIMIT 1), false) AS is_file
        FROM task_runs AS t WHERE t.run_id = n.run_id AND t.id = n.id LIMIT 1) AS t ON true
    LEFT JOIN LATERAL (SELECT a.number FROM attempts AS a
        WHERE a.run_id = n.run_id AND a.task_run_id = n.id AND a.number = n.number LIMIT 1) AS a ON true
"""


def _of_attempts(tx: Transaction, own: dict[str, AttemptPath]) -> set[str]:
    if not own:
        return set()
    listed = list(own.items())
    parameters = {
        "places": list(range(len(listed))),
        "run_ids": [ids.run_id_of(each.task_run_id) for _, each in listed],
        "ids": [each.task_run_id for _, each in listed],
        "numbers": [each.attempt or 0 for _, each in listed],
        "paths": [path for path, _ in listed],
    }
    rows = tx.execute(_ATTEMPTS, parameters)
    return {listed[row.place][0] for row in rows if _lives(listed[row.place][1], row)}


def _lives(own: AttemptPath, row: Any) -> bool:
    if row.attempt is not None and own.attempt in (None, row.attempt):
        return bool(not paths.is_result(own) or not row.has_ended or row.is_file or row.is_reused)
    return bool(row.is_reused or (row.has_row and own.rest == paths.LOGS))


# --- uploads ----------------------------------------------------------------------------------------------

_UPLOADS = f"""
SELECT u.id, u.storage_path FROM unnest(CAST(:ids AS uuid[])) AS n(id) JOIN temp_uploads AS u ON u.id = n.id
WHERE u.deleted_at IS NULL
    AND CASE WHEN u.claimed_by_run_id IS NULL THEN u.expires_at > :now ELSE {uploads.IS_IN_USE} END
"""


def _of_uploads(tx: Transaction, own: dict[str, UploadPath]) -> set[str]:
    if not own:
        return set()
    parameters = {"ids": sorted({each.upload_id for each in own.values()}), "now": tx.now}
    live = {row.id: plain_path(row.storage_path) for row in tx.execute(_UPLOADS, parameters)}
    return {path for path, each in own.items() if live.get(each.upload_id) == path}
