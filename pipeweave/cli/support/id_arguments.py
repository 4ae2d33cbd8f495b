"""Read the ids that commands take: whole, the beginning of one, or `latest`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pipeweave import ids
from pipeweave.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from pipeweave.client import Client

LATEST = "latest"
# How many ids an error names.
MOST_NAMED = 5
# Of what the API does not find by the beginning of an id, so many of the newest are looked at.
MOST_LOOKED_AT = 1_000
_KINDS = {
    ids.RUN: "run",
    ids.TASK_RUN: "task run",
    ids.DEAD_LETTER: "dead letter",
    ids.REDRIVE: "redrive",
    ids.BULK: "bulk change",
    "tok": "token",
    "worker": "worker",
}
# What `latest` looks for, where that is not every object of the kind.
_NEWEST = {ids.DEAD_LETTER: "open dead letter"}
_WHOLE = 26
# An API answers with the ids of at most this many objects that begin alike.
Find = Callable[[str, int], Sequence[str]]


def run(client: Client, reference: str, pipeline: str | None = None) -> str:
    """The id of a run.

    Args:
        client: where to look.
        reference: an id, its beginning, or `latest` for the newest run.
        pipeline: only runs of this pipeline.

    Raises:
        NotFound: there is no such run.
        InvalidInput: several runs begin like this, or it is the id of something else.
    """

    def find(beginning: str, limit: int) -> list[str]:
        prefix = {"id_prefix": beginning} if beginning else {}
        return [each["id"] for each in client.runs(pipeline_id=pipeline, limit=limit, **prefix).items]

    return _chosen(ids.RUN, reference, find, has_latest=True)


def task_run(client: Client, reference: str) -> str:
    """The id of a task run, given whole or by its beginning.

    Raises:
        NotFound, InvalidInput: as `run`.
    """
    return _chosen(
        ids.TASK_RUN,
        reference,
        lambda beginning, limit: [each["id"] for each in client.find_task_runs(beginning, limit)],
    )


def dead_letter(client: Client, reference: str) -> str:
    """The id of a dead letter, given whole, by its beginning, or as `latest`: the newest open one.

    Raises:
        NotFound, InvalidInput: as `run`.
    """

    def find(beginning: str, limit: int) -> list[str]:
        if not beginning:
            return [each["id"] for each in client.dlq.page(limit=limit).items]
        page = client.dlq.page(status="all", limit=limit, id_prefix=beginning)
        return [each["id"] for each in page.items]

    return _chosen(ids.DEAD_LETTER, reference, find, has_latest=True)


def redrive(client: Client, reference: str) -> str:
    """The id of a redrive, given whole, by its beginning, or as `latest`.

    Raises:
        NotFound, InvalidInput: as `run`.
    """

    def find(beginning: str, limit: int) -> list[str]:
        return [each["id"] for each in client.dlq.redrives(id_prefix=beginning or None, limit=limit)]

    return _chosen(ids.REDRIVE, reference, find, has_latest=True)


def bulk_change(client: Client, reference: str) -> str:
    """The id of a bulk change: whole, its beginning, or `latest`. Beginnings are looked for among the newest.

    Raises:
        NotFound, InvalidInput: as `run`.
    """

    def find(beginning: str, limit: int) -> list[str]:
        newest = client.bulk_changes(limit=MOST_LOOKED_AT if beginning else 1).items
        return [each["id"] for each in newest if each["id"].startswith(beginning)][:limit]

    return _chosen(ids.BULK, reference, find, has_latest=True)


def worker(reference: str, known: Sequence[str]) -> str:
    """The id of a worker, given by its beginning.

    Args:
        reference: what was typed.
        known: the ids of all workers.

    Raises:
        NotFound, InvalidInput: as `run`.
    """
    return chosen_of("worker", reference, [each for each in known if each.startswith(reference)])


def is_task_run(reference: str) -> bool:
    """Whether this is the id of a task run, or its beginning with `trun_`."""
    return reference.startswith(f"{ids.TASK_RUN}_")


def chosen_of(prefix: str, reference: str, matches: Sequence[str]) -> str:
    """The only id of those that were found.

    Raises:
        NotFound: none was found.
        InvalidInput: several were found.
    """
    kind = _KINDS[prefix]
    if not matches:
        raise NotFound(f"{kind} {reference!r} not found", hint=_where_to_look(prefix))
    if len(matches) > 1:
        named = ", ".join(matches[:MOST_NAMED]) + (", …" if len(matches) > MOST_NAMED else "")
        raise InvalidInput(f"several {kind}s begin with {reference!r}: {named}", hint="give more of the id")
    return matches[0]


def _chosen(prefix: str, reference: str, find: Find, *, has_latest: bool = False) -> str:
    if reference == LATEST and has_latest:
        newest = find("", 1)
        if not newest:
            raise NotFound(f"no {_NEWEST.get(prefix, _KINDS[prefix])} found")
        return newest[0]
    tail = reference.lower().removeprefix(f"{prefix}_")
    other = next((each for each in _KINDS if tail.startswith(f"{each}_")), None)
    if other is not None:
        raise InvalidInput(f"{reference!r} is the id of a {_KINDS[other]}, not of a {_KINDS[prefix]}")
    if not re.fullmatch(r"[0-7][0-9a-hjkmnp-tv-z]{0,25}", tail):
        raise NotFound(f"{_KINDS[prefix]} {reference!r} not found", hint=_where_to_look(prefix))
    whole = f"{prefix}_{tail}"
    return whole if len(tail) == _WHOLE else chosen_of(prefix, reference, find(whole, MOST_NAMED + 1))


def _where_to_look(prefix: str) -> str:
    return {
        ids.RUN: "`pipeweave runs` lists the runs",
        ids.TASK_RUN: "give 8 characters of its id or more; `pipeweave status RUN --json` shows the ids",
        ids.DEAD_LETTER: "`pipeweave dlq list --status all` lists the dead letters",
        ids.REDRIVE: "`pipeweave dlq retry-all` prints the id",
        ids.BULK: "`pipeweave bulk list` lists the bulk changes",
        "tok": "`pipeweave token list` lists the tokens",
        "worker": "`pipeweave workers` lists them",
    }[prefix]
