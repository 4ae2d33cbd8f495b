"""What is asked of each kind of run that waits, and what it must come to."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chaos.waits import documents
from chaos.waits.conversation import Conversation
from chaos.waits.elsewhere import WAYS
from chaos.waits.values import ANY, Demand

COMPLETED, FAILED, TIMEOUT, SKIPPED, CANCELLED = "completed", "failed", "timeout", "skipped", "cancelled"
# Who may decide: ann and ben are of finance, cid is named, eve may vote and is not asked, bob may only read.
VOTERS = {
    documents.APPROVED["id"]: frozenset({"ann", "ben", "cid"}),
    documents.REJECTED["id"]: frozenset({"ann", "ben"}),
    documents.CHOSEN["id"]: frozenset({"ann"}),
}
SCOPES = {
    "ann": ("approve", (documents.FINANCE,)),
    "ben": ("approve", (documents.FINANCE,)),
    "cid": ("approve", ()),
    "eve": ("approve", ()),
    "bob": ("read", ()),
}


@dataclass(frozen=True, slots=True)
class Script:
    """A run that is to be triggered.

    Args:
        document: of its pipeline.
        input: of the run.
        demand: what it must come to.
        talk: asks all that is to be asked of it.
    """

    document: Mapping[str, Any]
    input: Mapping[str, Any]
    demand: Demand
    talk: Callable[[Conversation], None]


Kind = Callable[[str, random.Random], Script]


def _input(chance: random.Random, **more: Any) -> dict[str, Any]:
    return {"steps": {}, "lists": {}, "seconds": chance.choice([0.0, 0.05, 0.3]), **more}


def _all(status: str, document: Mapping[str, Any], **others: str) -> dict[str, str]:
    return {each["id"]: others.get(each["id"], status) for each in document["steps"]}


def _nothing(talk: Conversation) -> None:
    """It ends by itself."""


# --- time -------------------------------------------------------------------------------------------------


def slept(token: str, chance: random.Random) -> Script:
    """Two sleeps between tasks, the second until a moment that may have passed."""
    until = time.time() + chance.uniform(1.0, 6.0)
    moment = datetime.fromtimestamp(until, UTC).isoformat(timespec="milliseconds")
    output = {"nap": None, "alarm": COMPLETED}
    demand = Demand(COMPLETED, _all(COMPLETED, documents.SLEPT), output, due={"alarm": until})
    return Script(documents.SLEPT, _input(chance, until=moment), demand, _nothing)


def unheard(token: str, chance: random.Random) -> Script:
    """Nothing comes: one wait has a default, and the other fails."""
    steps = _all(COMPLETED, documents.UNHEARD, strict=TIMEOUT, after=SKIPPED)
    output = {"patient": {"nobody": token}}
    return Script(documents.UNHEARD, _input(chance, word=token), Demand(FAILED, steps, output), _nothing)


# --- signals ----------------------------------------------------------------------------------------------


def signalled(token: str, chance: random.Random) -> Script:
    """One signal comes before its wait, twice with one key, and one after it; two of a name in their order;
    one when all is over. Meanwhile the run may be paused.
    """
    is_paused = chance.random() < 0.5

    def talk(run: Conversation) -> None:
        run.signal("early")
        run.signal("early")
        run.signal("pair", key=run.key("pair-1"))
        run.signal("pair", key=run.key("pair-2"))
        run.wait_of("late")
        if is_paused:
            run.change("pause")
        run.pause_for(chance.uniform(0.0, 1.0))
        run.signal("late")
        run.signal("later", may=None)
        if is_paused:
            run.pause_for(chance.uniform(0.0, 1.5))
            run.change("resume")
        run.ended()
        run.signal("late", key=run.key("too-late"), may=False)

    output = {
        "early": f"{token}/early",
        "late": f"{token}/late",
        "name": "late",
        "pair": [f"{token}/pair-1", f"{token}/pair-2"],
    }
    demand = Demand(
        COMPLETED, _all(COMPLETED, documents.SIGNALLED), output, spare=frozenset({f"{token}/later"})
    )
    return Script(documents.SIGNALLED, _input(chance), demand, talk)


# --- approvals --------------------------------------------------------------------------------------------


def approved(token: str, chance: random.Random) -> Script:
    """Who has no right, votes against the form, twice, otherwise than before, or late, is refused."""

    def talk(run: Conversation) -> None:
        wait = run.wait_of("ask")
        form = {"amount": 7}
        run.vote(wait, by="bob", may=False, form=form)
        run.vote(wait, by="eve", may=False, form=form)
        run.vote(wait, by="ann", may=False, form={"amount": "much"})
        run.vote(wait, by="ann", may=False)
        run.vote(wait, by="ann", form=form)
        run.vote(wait, by="ann", form=form)
        run.vote(wait, "reject", by="ann", may=False)
        run.pause_for(chance.uniform(0.0, 1.0))
        run.vote(wait, by=chance.choice(["ben", "cid"]), form=form, comment="as agreed")
        run.ended()
        for name in ("ben", "cid"):
            run.vote(wait, "reject", by=name, may=False)

    output = {"approved": True, "amount": 7}
    demand = Demand(COMPLETED, _all(COMPLETED, documents.APPROVED), output)
    return Script(documents.APPROVED, _input(chance, amount=7), demand, talk)


def rejected(token: str, chance: random.Random) -> Script:
    """One no decides, and fails the step; a yes after it comes too late."""

    def talk(run: Conversation) -> None:
        wait = run.wait_of("ask")
        run.vote(wait, "reject", by="cid", may=False)
        run.vote(wait, "reject", by="ben", comment="too much")
        run.ended()
        run.vote(wait, by="ann", may=False)

    steps = _all(SKIPPED, documents.REJECTED, ask=FAILED)
    return Script(documents.REJECTED, _input(chance), Demand(FAILED, steps), talk)


def chosen(token: str, chance: random.Random) -> Script:
    """People choose the way; one of the ways waits for a signal, and a condition passes a step over."""
    side, amount = chance.choice(["left", "right"]), chance.choice([10, 1_000])

    def talk(run: Conversation) -> None:
        wait = run.wait_of("ask")
        run.vote(wait, by="ann", may=False)
        run.vote(wait, by="ann", may=False, choice="up")
        run.vote(wait, by="ann", choice=side)
        if side == "right":
            run.signal("right")

    steps = _all(
        COMPLETED,
        documents.CHOSEN,
        left=COMPLETED if side == "left" else SKIPPED,
        right=COMPLETED if side == "right" else SKIPPED,
        extra=COMPLETED if amount > 500 else SKIPPED,
    )
    output = {"way": side, "right": f"{token}/right" if side == "right" else "none"}
    return Script(documents.CHOSEN, _input(chance, amount=amount), Demand(COMPLETED, steps, output), talk)


# --- calls that go on elsewhere ---------------------------------------------------------------------------


def called_back(token: str, chance: random.Random) -> Script:
    """A call hands its work on, and dies; or the other system fails; or it reports before the call ends."""
    behaviour = {
        "delay": chance.choice([0.0, 0.0, 0.5, 2.0]),
        "seconds": chance.choice([0.0, 0.3, 1.0]),
        "dies": chance.choice([0, 0, 1]),
        "failures": chance.choice([0, 1, 2]),
    }
    demand = Demand(COMPLETED, _all(COMPLETED, documents.CALLED_BACK), {"after": COMPLETED})
    return Script(documents.CALLED_BACK, _input(chance) | {"steps": {"call": behaviour}}, demand, _nothing)


def polled(token: str, chance: random.Random) -> Script:
    """The other system comes and goes while it is asked, and may fail."""
    behaviour = {
        "ways": [chance.choice(WAYS) for _ in range(chance.randint(0, 4))],
        "failures": chance.choice([0, 0, 1]),
    }
    demand = Demand(COMPLETED, _all(COMPLETED, documents.POLLED), {"status": COMPLETED})
    return Script(documents.POLLED, _input(chance) | {"steps": {"call": behaviour}}, demand, _nothing)


# --- runs inside of runs ----------------------------------------------------------------------------------


def nested(token: str, chance: random.Random) -> Script:
    """Three levels; the deepest one waits for a signal, sent to any of them. The tree may be paused."""
    is_paused, is_to_child = chance.random() < 0.4, chance.random() < 0.5

    def talk(run: Conversation) -> None:
        target = run.child_of(run.run_id) if is_to_child else None
        if is_paused:
            run.change("pause")
            run.pause_for(chance.uniform(0.2, 1.5))
        run.signal("deep", run_id=target)
        if is_paused:
            run.change("resume")

    demand = Demand(
        COMPLETED,
        _all(COMPLETED, documents.NESTED),
        {"down": {"key": f"{token}/deep", "n": 2}, "n": 1},
        {documents.MIDDLE["id"]: [COMPLETED], documents.DEEPEST["id"]: [COMPLETED]},
    )
    return Script(documents.NESTED, _input(chance), demand, talk)


def looped(token: str, chance: random.Random) -> Script:
    """A loop with a delay between its rounds."""
    demand = Demand(
        COMPLETED,
        _all(COMPLETED, documents.LOOPED),
        {"rounds": [{"n": number} for number in range(documents.ROUNDS)]},
        {documents.ROUND["id"]: [COMPLETED] * documents.ROUNDS},
    )
    return Script(documents.LOOPED, _input(chance), demand, _nothing)


def mapped(token: str, chance: random.Random) -> Script:
    """A map of pipelines, of which only some run at once."""
    items = [f"{token}/{number}" for number in range(chance.choice([0, 1, 5]))]
    children = {documents.ITEM["id"]: [COMPLETED] * len(items)} if items else {}
    demand = Demand(COMPLETED, _all(COMPLETED, documents.MAPPED), {"items": items}, children)
    return Script(documents.MAPPED, _input(chance, items=items), demand, _nothing)


def bodies(token: str, chance: random.Random) -> Script:
    """Bodies: a map of which each item waits for a signal of its own, sent in any order, and then a loop."""
    items = [f"{token}/item-{number}" for number in range(chance.choice([1, 3, 4]))]

    def talk(run: Conversation) -> None:
        for number in chance.sample(range(len(items)), len(items)):
            run.signal(f"part-{number}")
            run.pause_for(chance.choice([0.0, 0.0, 1.0]))

    said = [
        {"item": item, "key": f"{token}/part-{number}", "first": COMPLETED}
        for number, item in enumerate(items)
    ]
    children = {documents.BODIES["id"]: [COMPLETED] * (len(items) + documents.ROUNDS)}
    output = {"items": said, "n": documents.ROUNDS}
    demand = Demand(COMPLETED, _all(COMPLETED, documents.BODIES), output, children)
    return Script(documents.BODIES, _input(chance, items=items), demand, talk)


def tried(token: str, chance: random.Random) -> Script:
    """A child that fails, and is tried once more."""
    steps = _all(COMPLETED, documents.TRIED, **{"try": FAILED, "after": SKIPPED})
    children = {documents.DOOMED["id"]: [FAILED, FAILED]}
    demand = Demand(FAILED, steps, {"code": "CHILD_FAILED"}, children)
    return Script(documents.TRIED, _input(chance), demand, _nothing)


def felled(token: str, chance: random.Random) -> Script:
    """A tree that waits for ever, and is cancelled at any moment."""

    def talk(run: Conversation) -> None:
        run.pause_for(chance.uniform(0.0, 6.0))
        run.change("cancel")

    demand = Demand(CANCELLED, _all(CANCELLED, documents.FELLED), None, ANY)
    return Script(documents.FELLED, _input(chance), demand, talk)


KINDS: tuple[Kind, ...] = (
    *(slept, unheard, signalled, approved, rejected, chosen, called_back, polled),
    *(nested, looped, mapped, bodies, tried, felled),
)
