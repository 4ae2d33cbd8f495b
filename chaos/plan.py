"""Plan the faults and triggers of a trial from a seed, before it starts; equal seeds give equal plans."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos import shapes
from chaos.databases import ALONE, PAIR
from chaos.shapes import Shape

# The first fault comes when runs are under way (s).
FIRST_FAULT_S = 2.0
# Between two triggers (s).
TRIGGERS_S = (0.2, 2.0)
# Between two changes of runs (s), and how long (s) a pause lasts.
CHANGES_S = (0.8, 4.0)
PAUSE_S = (0.5, 5.0)
# How often each kind of change comes, compared with the others.
CHANGES = {"pause": 4, "cancel": 1, "rerun": 1, "rerun-from": 3}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Args:
        seconds: how long a fault lasts, at least and at most.
        weight: how often it comes, compared with other kinds.
        rest: how long (s) no other fault follows, at least and at most.
        options: further random choices, by name.
    """

    seconds: tuple[float, float] = (0.0, 0.0)
    weight: int = 1
    rest: tuple[float, float] = (0.5, 4.0)
    options: dict[str, tuple[Any, ...]] = field(default_factory=dict)


_WORKERS = {"worker": (0, 1)}
_SENTINELS = {"sentinel": (0, 1, 2)}
_SERVICES = {"service": (0, 1)}
# Whether what is answered wrongly has arrived.
_ARRIVES = {"arrives": (False, True)}
_BEATS = {"beat": (0, 1)}
_WHOLE = {"whole": (False, True)}
# When a host vanishes (lines.py).
_MOMENTS = {"moment": ("any", "transaction", "commit")}
# Whose connections go silent, and how (network_faults.py).
_SILENT = {
    "process": ("worker-1", "worker-2", "beat-1", "beat-2", "api"),
    "way": ("forgotten", "late", "lost"),
}

# A lost worker is found within 5 s, so workers are stopped for longer.
KINDS: dict[str, Kind] = {
    "child-killed": Kind(options=_WORKERS, weight=3),
    "worker-killed": Kind(options=_WORKERS | _WHOLE, weight=2),
    "worker-stopped": Kind((6.0, 10.0), options=_WORKERS | _WHOLE, weight=2),
    "worker-asked-to-end": Kind(options=_WORKERS, weight=2),
    "worker-vanished": Kind((0.0, 8.0), options=_WORKERS | _MOMENTS, weight=2),
    "worker-deployed": Kind((1.0, 6.0), options=_WORKERS | {"kill": (False, True)}, weight=2),
    "beat-killed": Kind(options=_BEATS),
    "beat-stopped": Kind((3.0, 12.0), options=_BEATS),
    "beat-vanished": Kind((0.0, 8.0), options=_BEATS | _MOMENTS),
    "api-killed": Kind(options=_WHOLE),
    "api-vanished": Kind(options=_MOMENTS),
    "service-killed": Kind(options=_SERVICES, weight=2),
    "service-hangs": Kind((3.0, 9.0), options=_SERVICES, weight=2),
    "service-doubles": Kind((1.0, 3.0)),
    "service-late": Kind((1.0, 3.0), options={"by": (0.5, 2.0, 7.0)}),
    "service-fails": Kind((1.0, 3.0), options=_ARRIVES),
    "service-babbles": Kind((1.0, 3.0), options=_ARRIVES),
    "broker-wiped": Kind((0.0, 3.0)),
    "broker-hangs": Kind((3.0, 6.0)),
    "broker-read-only": Kind((1.0, 5.0)),
    "broker-full": Kind((1.0, 5.0)),
    "broker-silent": Kind((2.0, 8.0), options=_SILENT, weight=2),
    "broker-failover": Kind((0.0, 3.0), weight=2),
    "sentinel-killed": Kind(options=_SENTINELS),
    "sentinel-hangs": Kind((3.0, 8.0), options=_SENTINELS),
    "postgres-killed": Kind(),
    "postgres-restarted": Kind(),
    "postgres-away": Kind((3.0, 7.0)),
    "postgres-promoted": Kind((0.0, 2.0), weight=2),
    "postgres-silent": Kind((2.0, 8.0), options=_SILENT, weight=2),
    "network-silent": Kind((2.0, 8.0), options=_SILENT),
    "messages-doubled": Kind((0.5, 2.0), weight=2),
    "messages-delayed": Kind((0.5, 2.0), options={"by": (1.0, 3.0, 6.0)}),
    "messages-lost": Kind((0.3, 1.5)),
    "messages-replayed": Kind((0.5, 1.5)),
    "messages-of-junk": Kind(options={"count": (10, 200)}),
    "chords-forgotten": Kind((0.5, 1.5)),
    "storage-hangs": Kind((6.0, 14.0), options={"way": ("hang", "drip", "refuse")}, weight=2),
    "bodies-announced": Kind((4.0, 8.0)),
    "hooks-hang": Kind((4.0, 12.0), options={"way": ("hang", "drip")}),
    "rows-unreadable": Kind(),
    "month-dropped": Kind(),
}

# How the broker stands, and the kinds of faults that it cannot have so: processes reach sentinels, and what
# they name, without a proxy.
BROKERS = {
    "alone": frozenset({"broker-failover", "sentinel-killed", "sentinel-hangs"}),
    "sentinels": frozenset({"broker-silent"}),
}
# The same of PostgreSQL: alone, or with a synchronous standby.
DATABASES: dict[str, frozenset[str]] = {ALONE: frozenset({"postgres-promoted"}), PAIR: frozenset()}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Args:
        at: seconds after the start.
        seconds: how long it lasts.
        chance: 0 to 1: which of several targets it hits, if the targets are known only at that moment.
    """

    kind: str
    at: float
    seconds: float
    chance: float
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run that is triggered `at` seconds after the start; its token makes a repeated trigger harmless."""

    at: float
    token: str
    shape: Shape

    @property
    def pipeline_id(self) -> str:
        return str(self.shape.document["id"])


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a run.

    Args:
        kind: one of CHANGES.
        at: seconds after the start.
        name: its own.
        seconds: how long a pause lasts.
        chance: 0 to 1: which of the runs that are there it is made to.
        step: 0 to 1: at which step a rerun begins; None for the beginning.
    """

    kind: str
    at: float
    name: str
    seconds: float
    chance: float
    step: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The runs, faults and changes of a trial, each in the order of their times.

    Args:
        broker: one of BROKERS.
        database: one of DATABASES.
    """

    seed: int
    seconds: float
    broker: str
    database: str
    runs: list[PlannedRun]
    faults: list[Fault]
    changes: list[Change]


def make(
    seed: int,
    seconds: float,
    *,
    kinds: Collection[str] = tuple(KINDS),
    pace: float = 1.0,
    broker: str | None = None,
    database: str | None = None,
) -> Plan:
    """The plan of a seed.

    Args:
        seed: decides everything.
        seconds: how long faults, triggers and changes go on.
        kinds: the kinds of faults; those that the servers cannot have are left out.
        pace: a factor for the pauses between faults.
        broker, database: how they stand, of BROKERS and DATABASES; None: the seed decides.
    """
    broker = broker or _standing(f"broker {seed}", BROKERS, kinds)
    database = database or _standing(f"database {seed}", DATABASES, kinds)
    possible = [each for each in kinds if each not in impossible(broker, database)]
    faults = list(_faults(random.Random(f"faults {seed}"), seconds, possible, pace))
    runs = list(_planned_runs(random.Random(f"runs {seed}"), seed, seconds))
    changes = list(_changes(random.Random(f"changes {seed}"), seed, seconds))
    return Plan(seed, seconds, broker, database, runs, faults, changes)


def impossible(broker: str, database: str) -> frozenset[str]:
    """The kinds of faults that cannot be where broker and database stand so."""
    return BROKERS[broker] | DATABASES[database]


def _standing(seed: str, ways: Mapping[str, frozenset[str]], kinds: Collection[str]) -> str:
    """How a server stands: as the seed says, of the ways that can have all of these kinds if any can."""
    able = [way for way, without in ways.items() if not without & set(kinds)]
    return random.Random(seed).choice(able or list(ways))


def _planned_runs(chance: random.Random, seed: int, seconds: float) -> Iterator[PlannedRun]:
    at, number = 0.0, 0
    while at < seconds:
        yield PlannedRun(at, f"chaos-{seed}-{number}", shapes.draw(chance, number))
        at += chance.uniform(*TRIGGERS_S)
        number += 1


def _changes(chance: random.Random, seed: int, seconds: float) -> Iterator[Change]:
    kinds, weights = list(CHANGES), list(CHANGES.values())
    at, number = FIRST_FAULT_S, 0
    while at < seconds:
        [kind] = chance.choices(kinds, weights)
        lasts, which, step = chance.uniform(*PAUSE_S), chance.random(), chance.random()
        name = f"chaos-{seed}-change-{number}"
        yield Change(kind, at, name, lasts, which, step if kind == "rerun-from" else None)
        at += chance.uniform(*CHANGES_S)
        number += 1


def _faults(chance: random.Random, seconds: float, names: list[str], pace: float) -> Iterator[Fault]:
    """Kinds in random order, each as often as its weight says before all come again."""
    at = FIRST_FAULT_S
    deck: list[str] = []
    while at < seconds and names:
        deck = deck or _shuffled(chance, [each for each in names for _ in range(KINDS[each].weight)])
        name = deck.pop()
        kind = KINDS[name]
        options = {key: chance.choice(values) for key, values in kind.options.items()}
        fault = Fault(name, at, chance.uniform(*kind.seconds), chance.random(), options)
        yield fault
        at += fault.seconds + pace * chance.uniform(*kind.rest)


def _shuffled(chance: random.Random, several: list[str]) -> list[str]:
    return chance.sample(several, len(several))
