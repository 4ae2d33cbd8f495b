"""A class with `@adapter` makes its actions tasks, with one object in each process."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from pipeweave import Context, Retry, TaskError, action, adapter, pipeline, task
from pipeweave.authoring import collect, registered_tasks
from pipeweave.authoring.adapter import ActionOptions
from pipeweave.authoring.task import _OPTIONS
from pipeweave.errors import InvalidParams, InvalidTask
from pipeweave.testing import run_pipeline, run_task


@adapter("adapting.payments")
class Payments:
    """Counts how often it is made."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.charged: list[float] = []

    @action(retries=5, timeout="10s", concurrency=2, retry_on=["CARD_DECLINED"])
    def charge(self, ctx: Context, amount: float, currency: str = "EUR") -> dict[str, Any]:
        """Charge a card."""
        if amount > 1_000:
            raise TaskError("too much", code="CARD_DECLINED")
        self.charged.append(amount)
        return {"charged": self.charged, "currency": currency, "attempt": ctx.attempt}

    @action(id="refund-all")
    async def refund(self) -> int:
        return len(self.charged)

    def helper(self) -> None:
        """No action."""


def test_an_action_is_a_task_with_the_options_of_one() -> None:
    tasks = registered_tasks()
    charge = tasks["adapting.payments.charge"]
    assert charge is Payments.charge
    spec = charge.spec
    assert (spec.retries, spec.timeout, spec.concurrency, spec.retry_on) == (5, 10, 2, ("CARD_DECLINED",))
    assert (spec.description, spec.name) == ("Charge a card.", f"{__name__}.Payments.charge")
    fields = charge.to_registration()["parameters"]["fields"]
    assert [(each["name"], each.get("required", False)) for each in fields] == [
        ("amount", True),
        ("currency", False),
    ]
    assert tasks["adapting.payments.refund-all"].is_async
    assert not charge.is_async


def test_every_option_of_a_task_is_one_of_an_action() -> None:
    assert ActionOptions.__annotations__.keys() == set(_OPTIONS)


def test_the_code_of_an_action_is_its_method() -> None:
    def adapted(more: int) -> Any:
        @adapter("adapting.versions")
        class Versions:
            @action(version=str(more))
            def read(self) -> int:
                return 1

        return Versions.read.spec.code_hash

    assert adapted(1) == adapted(1) != adapted(2)


def test_calls_of_one_process_share_an_object_that_is_made_when_it_is_needed() -> None:
    @adapter("adapting.shared")
    class Shared(Payments):
        made = 0

    assert Shared.made == 0
    run_task(Shared.charge, {"amount": 1.5})
    assert run_task(Shared.charge, {"amount": 2}).output["charged"] == [1.5, 2.0]
    assert run_task(Shared.refund).output == 2
    assert Shared.made == 1


def test_a_constructor_that_fails_fails_the_call_and_is_tried_again() -> None:
    @adapter("adapting.flaky")
    class Flaky:
        tries = 0

        def __init__(self) -> None:
            type(self).tries += 1
            if self.tries == 1:
                raise ConnectionError("not yet")

        @action
        def read(self) -> int:
            return 7

    with pytest.raises(ConnectionError):
        run_task(Flaky.read)
    assert run_task(Flaky.read).output == 7


FORKED = """
import os
from pipeweave import action, adapter

@adapter("forked")
class Forked:
    def __init__(self): self.pid = os.getpid()
    @action
    def whose(self) -> int: return self.pid

assert Forked.whose() == os.getpid()
child = os.fork()
if child == 0:
    os._exit(0 if Forked.whose() == os.getpid() else 1)
assert os.waitpid(child, 0)[1] == 0
assert Forked.whose() == os.getpid()
"""


def test_a_forked_process_makes_an_object_of_its_own() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_wrong_params_are_refused_as_those_of_any_task() -> None:
    with pytest.raises(InvalidParams) as refused:
        run_task(Payments.charge, params={"amount": "much", "self": 1})
    assert {each.field for each in refused.value.errors} == {"amount", "self"}


def test_a_pipeline_function_calls_actions_as_tasks() -> None:
    @pipeline(id="adapting-sell")
    def sell(amount: float) -> Any:
        first = Payments.charge.options(step_id="first", retry=Retry(attempts=1))(amount)
        # Through an object, too: the pipeline is drawn, and no method is called.
        return Payments().charge(first["charged"][0], currency="CHF")

    steps = [(each.id, each.task) for each in sell.spec.steps]
    assert steps == [("first", "adapting.payments.charge"), ("adapting.payments.charge",) * 2]
    assert run_pipeline(sell, {"amount": 5}).output["currency"] == "CHF"


def test_an_object_of_the_class_has_plain_methods() -> None:
    mine = Payments()
    assert mine.charge(3, currency="CHF") == {"charged": [3], "currency": "CHF", "attempt": 1}
    assert mine.charged == [3]


def test_a_class_inherits_actions_under_its_own_name() -> None:
    @adapter("adapting.base")
    class Base:
        factor = 1

        @action
        def times(self, n: int) -> int:
            return n * self.factor

    @adapter("adapting.double")
    class Double(Base):
        factor = 2

    assert (run_task(Base.times, {"n": 3}).output, run_task(Double.times, {"n": 3}).output) == (3, 6)
    assert Double.times.id == "adapting.double.times"


def test_the_tasks_of_a_module_include_those_of_its_adapters() -> None:
    module = ModuleType("shop")
    vars(module).update({"Payments": Payments, "other": int})
    assert collect(module).keys() == {"adapting.payments.charge", "adapting.payments.refund-all"}


def test_two_adapters_of_one_name_in_two_places_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    definitions = sys.modules["pipeweave.authoring.task"]
    monkeypatch.setattr(definitions, "_registry", {})
    monkeypatch.setattr(definitions, "_duplicates", {})
    code = "from pipeweave import action, adapter\n@adapter('a')\nclass A:\n  @action\n  def b(self): ..."
    for place in ("one.py", "two.py"):
        exec(compile(code, place, "exec"), {"__name__": place.partition(".")[0]})
    assert definitions.duplicate_tasks() == {"a.b": ("one.A.b", "two.A.b")}


def has_actions() -> type[Any]:
    class WithActions:
        @action
        def read(self) -> int:
            return 1

    return WithActions


def needs_arguments() -> type[Any]:
    class Needs:
        def __init__(self, url: str) -> None: ...

        @action
        def read(self) -> int:
            return 1

    return Needs


def with_options(**options: Any) -> type[Any]:
    class WithOptions:
        @action(**options)
        def read(self) -> int:
            return 1

    return WithOptions


@pytest.mark.parametrize(
    ("name", "make", "said"),
    [
        ("a b", has_actions, "'a b' is not a valid id"),
        (None, has_actions, "is not a valid id"),
        ("pipeweave:a", has_actions, "is reserved"),
        ("a", lambda: int, "adapter 'a' has no action"),
        ("a", lambda: len, "is not a class"),
        ("a", needs_arguments, "cannot be made without arguments"),
        ("a", lambda: with_options(id="b.c"), "has no dot"),
        ("a", lambda: with_options(id=3), "has no dot"),
        ("a", lambda: with_options(retires=3), "retires is not an option of a task"),
        ("a", lambda: with_options(retries=-1), "retries"),
        ("a", lambda: with_options(concurrent=5), "concurrent"),
    ],
)
def test_an_adapter_that_cannot_work_is_refused_where_it_is_defined(name: Any, make: Any, said: str) -> None:
    with pytest.raises(InvalidTask, match=said):
        adapter(name)(make())


def test_an_adapter_needs_its_name() -> None:
    with pytest.raises(InvalidTask) as refused:
        adapter(has_actions())  # type: ignore[arg-type]
    assert '@adapter("payments")' in str(refused.value.hint)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        (lambda: 1, "takes no object"),
        (lambda *values: 1, "takes no object"),
        (staticmethod(len), "is not a method"),
        (task(id="adapting.other")(lambda self: 1), "is not a method"),
        (3, "is not a method"),
    ],
)
def test_what_is_no_method_is_no_action(method: Any, said: str) -> None:
    with pytest.raises(InvalidTask, match=said):
        action(method)


def test_a_method_that_cannot_be_called_by_name_is_no_action() -> None:
    def pages(self: Any) -> Any:
        yield 1

    def at(self: Any, place: int, /) -> int:
        return place

    def of(self: Any, /, place: int) -> int:
        return place

    with pytest.raises(InvalidTask, match="is a generator"):
        action(pages)
    with pytest.raises(InvalidTask, match="positional-only"):
        action(at)
    assert action(of).method is of


def test_an_action_of_a_class_without_adapter_says_what_is_missing() -> None:
    with pytest.raises(InvalidTask, match="is an action of no adapter"):
        _ = has_actions().read


def test_a_method_as_a_task_is_told_of_adapters() -> None:
    with pytest.raises(InvalidTask) as refused:
        exec("class A:\n  @task\n  def b(self): ...", {"task": task})
    assert "@adapter" in str(refused.value.hint)
