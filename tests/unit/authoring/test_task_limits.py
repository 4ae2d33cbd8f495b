"""The options of a task that limit what its calls may use."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave import Sandbox, task
from pipeweave.authoring import adapter as adapters
from pipeweave.errors import InvalidTask


def plain() -> None:
    """A function."""


async def waiting() -> None:
    """An `async def` function."""


def test_limits_are_read_as_people_write_them() -> None:
    made = task(memory="64M", cpu="1500ms")(plain)
    assert (made.spec.memory_bytes, made.spec.cpu_s, made.spec.has_limits) == (64 * 1024**2, 1.5, True)
    assert not task(plain).spec.has_limits


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"memory": "1M"}, "memory"),
        ({"cpu": "fast"}, "cpu"),
        ({"sandbox": True}, "sandbox"),
        ({"sandbox": {"memory": "64M"}}, "sandbox"),
        ({"sandbox": Sandbox(), "memory": "64M"}, "memory"),
        ({"sandbox": Sandbox(), "cpu": 1}, "cpu"),
    ],
)
def test_a_wrong_limit_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as caught:
        task(**options)(plain)
    assert [each.field for each in caught.value.errors] == [field]


@pytest.mark.parametrize("options", [{"memory": "64M"}, {"cpu": 1}])
def test_calls_that_share_a_process_have_no_limits_of_their_own(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask) as caught:
        task(**options)(waiting)
    assert caught.value.errors[0].expected == "a plain function, or a sandbox"


def test_an_async_function_with_a_sandbox_is_called_alone() -> None:
    assert task(sandbox=Sandbox())(waiting).spec.concurrent == 1


def test_an_action_has_no_sandbox() -> None:
    class Shop:
        @adapters.action(sandbox=Sandbox())
        def sell(self) -> None:
            """An action."""

    with pytest.raises(InvalidTask, match="an action has no sandbox"):
        adapters.adapter("shop")(Shop)
