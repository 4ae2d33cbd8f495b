"""The pipelines of runs that wait. What is random about a run is in its input, and in what is sent to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.shapes import Document

PREFIX = "waits-"
FINANCE = "finance"
# What `work` is given where a step has params of its own: how its calls behave (tasks/acting.py).
_PLAIN: Mapping[str, Any] = {"steps": {}, "seconds": 0.05}
FORM = {"strict": True, "fields": [{"name": "amount", "label": "Amount", "type": "number", "required": True}]}
# How many children of the map are open at once, and the rounds of the loop.
MOST_OPEN, ROUNDS = 2, 3


def _pipeline(id: str, *steps: Document, mode: str = "fail-fast") -> Document:
    return {"id": f"{PREFIX}{id}", "failureMode": mode, "steps": list(steps)}


def _work(id: str, *needs: str, task: str = "work", **more: Any) -> Document:
    return {"id": id, "task": task, "needs": list(needs), **more}


def _step(id: str, *needs: str, **more: Any) -> Document:
    return {"id": id, "needs": list(needs), **more}


def _end(value: Any, *needs: str) -> Document:
    return _step("end", *needs, transform=value)


def _child(id: str, pipeline: str, *needs: str, **more: Any) -> Document:
    return _step(id, *needs, pipeline=f"{PREFIX}{pipeline}", **more)


SLEPT = _pipeline(
    "slept",
    _work("first"),
    _step("nap", "first", sleep="2s"),
    _work("between", "nap"),
    _step("alarm", "between", sleepUntil="${input.until}"),
    _end({"nap": "${steps.nap}", "alarm": "${status.alarm}"}, "alarm"),
)

SIGNALLED = _pipeline(
    "signalled",
    _work("first"),
    _step("early", "first", signal="early"),
    _work("between", "early"),
    _step("late", "between", signal={"names": ["late", "later"]}),
    _step("one", "late", signal="pair"),
    _step("two", "one", signal="pair"),
    _end(
        {
            "early": "${steps.early.payload.key}",
            "late": "${steps.late.payload.key}",
            "name": "${steps.late.name}",
            "pair": ["${steps.one.payload.key}", "${steps.two.payload.key}"],
        },
        "two",
    ),
)

UNHEARD = _pipeline(
    "unheard",
    _step("patient", signal={"name": "never", "timeout": "2s", "default": {"nobody": "${input.word}"}}),
    _step("strict", "patient", signal={"name": "nothing", "timeout": "1s"}),
    _work("after", "strict"),
    _step("end", "strict", join="all-done", transform={"patient": "${steps.patient}"}),
    mode="continue",
)

APPROVED = _pipeline(
    "approved",
    _work("first"),
    _step(
        "ask",
        "first",
        approval={
            "title": "Pay ${input.amount}?",
            "assignees": [f"group:{FINANCE}", "cid"],
            "needs": 2,
            "form": FORM,
            "timeout": "1h",
        },
    ),
    _work("pay", "ask"),
    _end({"approved": "${steps.ask.approved}", "amount": "${steps.ask.form.amount}"}, "pay"),
)

REJECTED = _pipeline(
    "rejected",
    _step("ask", approval={"title": "Really?", "assignees": [f"group:{FINANCE}"], "onReject": "fail"}),
    _work("after", "ask"),
    mode="continue",
)

CHOSEN = _pipeline(
    "chosen",
    _step("ask", approval={"title": "Which?", "assignees": ["ann"], "options": ["left", "right"]}),
    _step(
        "way",
        "ask",
        choice=[
            {"name": "left", "condition": "steps.ask.choice == 'left'", "next": ["left"]},
            {"name": "right", "condition": "steps.ask.choice == 'right'", "next": ["right"]},
        ],
    ),
    _work("left", "way"),
    _step("right", "way", signal="right"),
    _work("extra", "left", "right", condition="input.amount > 500"),
    _end({"way": "${steps.way}", "right": "${steps.right.payload.key ?? 'none'}"}, "extra"),
)

CALLED_BACK = _pipeline(
    "called-back",
    _work("call", task="asked"),
    _work("after", "call"),
    _end({"after": "${status.after}"}, "after"),
)

POLLED = _pipeline(
    "polled",
    _work("call", task="polled"),
    _work("after", "call"),
    _end({"status": "${steps.call.status}"}, "after"),
)

DEEPEST = _pipeline(
    "deepest",
    _work("first"),
    _step("deep", "first", signal="deep"),
    _work("last", "deep"),
    _end({"key": "${steps.deep.payload.key}", "n": "${input.n}"}, "last"),
)
MIDDLE = _pipeline(
    "middle",
    _work("first"),
    _child("down", "deepest", "first", params={**_PLAIN, "n": "${input.n + 1}"}),
    _end({"down": "${steps.down}", "n": "${input.n}"}, "down"),
)
NESTED = _pipeline(
    "nested",
    _work("first"),
    _child("down", "middle", "first", params={**_PLAIN, "n": 1}),
    _work("last", "down"),
    _end("${steps.down}", "last"),
)

ROUND = _pipeline("round", _work("work"), _end({"n": "${input.n}"}, "work"))
LOOPED = _pipeline(
    "looped",
    _step(
        "again",
        loop={
            "pipeline": f"{PREFIX}round",
            "maxIterations": ROUNDS + 2,
            "until": f"last.n >= {ROUNDS - 1}",
            "delay": "700ms",
            "collect": True,
        },
        params={**_PLAIN, "n": "${loop.index}"},
    ),
    _work("after", "again"),
    _end({"rounds": "${steps.again}"}, "after"),
)

ITEM = _pipeline("item", _work("work"), _step("nap", "work", sleep="1s"), _end("${input.item}", "nap"))
MAPPED = _pipeline(
    "mapped",
    _child(
        "each",
        "item",
        map={"over": "${input.items}", "maxParallel": MOST_OPEN},
        params={**_PLAIN, "item": "${item}"},
    ),
    _end({"items": "${steps.each}"}, "each"),
)

BODIES = _pipeline(
    "bodies",
    _work("first"),
    _step(
        "each",
        "first",
        map={
            "over": "${input.items}",
            "maxParallel": MOST_OPEN,
            "steps": [
                _work("part"),
                _step("hear", "part", signal="part-${mapIndex}"),
                _step(
                    "said",
                    "hear",
                    transform={
                        "item": "${item}",
                        "key": "${steps.hear.payload.key}",
                        "first": "${status.first}",
                    },
                ),
            ],
        },
    ),
    _step(
        "again",
        "each",
        loop={
            "maxIterations": ROUNDS + 1,
            "until": f"last.n >= {ROUNDS}",
            "delay": "500ms",
            "steps": [_work("turn"), _step("count", "turn", transform={"n": "${(loop.last.n ?? 0) + 1}"})],
        },
    ),
    _end({"items": "${steps.each}", "n": "${steps.again.n}"}, "again"),
)

DOOMED = _pipeline("doomed", _work("hopeless", task="hopeless"))
TRIED = _pipeline(
    "tried",
    _child("try", "doomed", params=_PLAIN, retry={"attempts": 2, "delayMs": 300}),
    _work("after", "try"),
    _step("end", "try", join="all-done", transform={"code": "${errors.try.code}"}),
    mode="continue",
)

OPEN_END = _pipeline("open-end", _work("work"), _step("wait", "work", signal="never"))
FELLED = _pipeline(
    "felled",
    _child("down", "open-branch", params=_PLAIN),
    _child("each", "open-end", map={"over": [1, 2, 3], "maxParallel": MOST_OPEN}, params=_PLAIN),
    _end("never", "down", "each"),
)
BRANCH = _pipeline("open-branch", _work("work"), _child("down", "open-end", "work", params=_PLAIN))

# Children first: a pipeline may only name one that is there.
ALL = (
    *(SLEPT, SIGNALLED, UNHEARD, APPROVED, REJECTED, CHOSEN, CALLED_BACK, POLLED),
    *(DEEPEST, MIDDLE, NESTED, ROUND, LOOPED, ITEM, MAPPED, BODIES, DOOMED, TRIED, OPEN_END, BRANCH, FELLED),
)

# How long (s) these steps sleep, and how long those with children wait before the next child.
NAPS = {(SLEPT["id"], "nap"): 2.0, (ITEM["id"], "nap"): 1.0}
DELAYS = {(LOOPED["id"], "again"): 0.7, (BODIES["id"], "again"): 0.5, (TRIED["id"], "try"): 0.3}
# How many children of a step may be open at once; the others have one at a time.
WIDTHS = {(each["id"], "each"): MOST_OPEN for each in (MAPPED, BODIES, FELLED)}
