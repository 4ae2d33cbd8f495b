"""What cannot be drawn is refused, with the pipeline and the user's file and line."""

from __future__ import annotations

import cProfile
import datetime as dt
import json
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from celery import Celery, shared_task

from pipeweave import pipeline, task
from pipeweave.errors import InvalidSpec

SENT: list[Any] = []
APP = Celery("drawn", broker="memory://")


@task
def size(value: Any) -> int:
    return len(str(value))


@task
def join(left: Any, right: Any = None) -> None: ...


@shared_task
def shared(value: Any) -> None:
    SENT.append(value)


@APP.task
def bound(value: Any) -> None:
    SENT.append(value)


def plain(value: Any) -> int:
    return 5


def outer(value: Any) -> int:
    return plain(value) + 1


def drawn(body: Callable[[Any], Any]) -> Any:
    @pipeline(id="drawn")
    def made(x: Any) -> None:
        body(size(x))

    return made.spec


async def waits(value: Any) -> None:
    await value


@pytest.mark.parametrize(
    ("use", "why"),
    [
        (lambda v: 5 if v > 3 else 6, "use when"),
        (lambda v: v == 3 or v == 4, "use when"),
        (lambda v: 1 < v < 3, "use when"),
        (lambda v: 3 in [v], "use when"),
        (lambda v: v == 1 & v == 2, r"\(a == 1\) & \(b == 2\)"),
        (lambda v: (v > 1) & "x", "'x' is none"),
        (lambda v: v == {"a": 1}, "cannot be a part of an expression"),
        (lambda v: v == object(), "cannot be a part of an expression"),
        (lambda v: len(v), "has no length"),
        (lambda v: 3 in v, "cannot be searched"),
        (lambda v: not v, "neither true nor false"),
        (lambda v: v // 2, "cannot be calculated with"),
        (lambda v: 2**v, "cannot be calculated with"),
        (lambda v: abs(v), "is not a number"),
        (lambda v: range(v), "is not a number"),
        (lambda v: round(v), "is not a number"),
        (lambda v: str(v), "inserted into a text"),
        (lambda v: f"{v:>9}", "inserted into a text"),
        (lambda v: print(v), "inserted into a text"),
        (lambda v: Path(v), "is not a path"),
        (lambda v: Path("a") / v, "is not a path"),
        (lambda v: v.name, "has no attribute 'name'"),
        (lambda v: v(), "cannot be called"),
        (lambda v: v[1:3], "not with a slice"),
        (lambda v: next(v), "cannot be iterated"),
        (lambda v: list(v), "cannot be iterated"),
        (lambda v: v.update(a=1), "has no attribute 'update'"),
        (lambda v: v.__setitem__("a", 1), "cannot be changed"),
        (lambda v: waits(v).send(None), "cannot be awaited"),
        (lambda v: json.dumps(v), "TypeError"),
        (lambda v: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_use_of_a_placeholder_is_refused_with_its_place(use: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(InvalidSpec, match=why) as refused:
        drawn(use)
    assert refused.value.detail.startswith(f"pipeline 'drawn' ({__file__}:")
    assert refused.value.hint


def test_an_attribute_is_answered_with_the_key() -> None:
    with pytest.raises(InvalidSpec) as refused:
        drawn(lambda v: v.paths)
    assert "x['paths']" in str(refused.value.hint)


@pytest.mark.parametrize(
    "call",
    [
        lambda v: shared(v),
        lambda v: shared.delay(v),
        lambda v: bound(v),
        lambda v: bound.apply_async((v,)),
        lambda v: bound.s(v),
    ],
)
def test_a_celery_task_is_neither_called_nor_sent(call: Callable[[Any], Any]) -> None:
    with pytest.raises(InvalidSpec, match=r"test_drawing.py:\d+\): a Celery task received <\$\{steps.size}>"):
        drawn(call)
    assert not SENT


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda v: plain(v), "plain()"),
        (lambda v: plain([v]), "plain()"),
        (lambda v: outer(v), "plain()"),
        (lambda v: size(plain({"a": v})), "plain()"),
        (lambda v: logging.getLogger("x").info("got %s", v), "logging.Logger.info()"),
        (lambda v: isinstance(v, str) or plain(v), "plain()"),
    ],
)
def test_a_function_that_does_nothing_with_a_placeholder_is_named(
    call: Callable[[Any], Any], name: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        drawn(lambda v: (call(v), size(v)))
    assert f": {name} received <${{steps.size}}>" in refused.value.detail
    line = refused.value.detail.partition(":")[2].partition(")")[0]
    source = Path(__file__).read_text().splitlines()[int(line) - 1]
    assert "lambda v:" in source or "plain(value)" in source


class Both(NamedTuple):
    left: Any
    right: Any


@dataclass
class Pair:
    left: Any
    right: Any = None


def helper(value: Any) -> Any:
    """Calls tasks; returns nothing."""
    join(value, right=[value])


def part(value: Any) -> Any:
    return value["rows"][0]


def pair(value: Any) -> Pair:
    return Pair(value, right=part(value))


def parts(value: Any) -> Any:
    yield value["a"]
    yield value["b"]


@pytest.mark.parametrize(
    "use",
    [
        helper,
        lambda v: size(part(v)),
        lambda v: size(pair(v).right),
        lambda v: size(pair(v)),
        lambda v: size(Both(v, 1).left),
        lambda v: [size(each) for each in parts(v)],
        lambda v: join({"at": dt.date(2024, 5, 1), "rows": [v], "set": {2, 1}}),
        lambda v: join.options(needs={v})(1),
    ],
)
def test_helpers_that_call_tasks_or_hand_placeholders_on_may_be_used(use: Callable[[Any], Any]) -> None:
    assert len(drawn(use).steps) >= 2


def test_constants_are_converted_as_results_are() -> None:
    spec = drawn(lambda v: join({"at": dt.date(2024, 5, 1), "set": {2, 1}, "text": "${x}"}))
    assert spec.steps[1].params == {"left": {"at": "2024-05-01", "set": [1, 2], "text": "$${x}"}}
    with pytest.raises(InvalidSpec, match=r"params.left.a is bytes") as refused:
        drawn(lambda v: join({"a": b"x"}))
    assert "base64" in str(refused.value.hint)


def test_defaults_are_converted_as_results_are() -> None:
    @pipeline(id="daily")
    def daily(day: dt.date = dt.date(2024, 5, 1)) -> None:
        size(day)

    @pipeline(id="odd")
    def odd(raw: bytes = b"x") -> None:
        size(raw)

    assert daily.spec.defaults == {"day": "2024-05-01"}
    with pytest.raises(InvalidSpec, match="the default of 'raw' is bytes"):
        _ = odd.spec


@pytest.mark.parametrize("profile", [lambda *_: None, cProfile.Profile()])
def test_a_profiler_goes_on(profile: Any) -> None:
    profile.enable() if isinstance(profile, cProfile.Profile) else sys.setprofile(profile)
    # Since Python 3.12, cProfile is not set by this function.
    profiler = sys.getprofile()
    try:
        for use in (lambda v: size(v), lambda v: shared(v), lambda v: plain(v)):
            with suppress(InvalidSpec):
                drawn(use)
            assert sys.getprofile() is profiler
    finally:
        profile.disable() if isinstance(profile, cProfile.Profile) else sys.setprofile(None)


def test_nothing_is_watched_after_the_drawing() -> None:
    for use in (lambda v: size(v), lambda v: shared(v), lambda v: plain(v)):
        with suppress(InvalidSpec):
            drawn(use)
        assert sys.getprofile() is None


def test_a_large_pipeline_numbers_its_steps() -> None:
    def chain(value: Any) -> Any:
        return reduce(lambda before, _: size(before), range(3_000), value)

    steps = drawn(chain).steps
    assert [steps[0].id, steps[-1].id] == ["size", "size_3001"]
