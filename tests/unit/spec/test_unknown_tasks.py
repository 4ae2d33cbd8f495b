"""A step whose task nobody has registered is told apart: its adapter is missing, or its action is."""

from __future__ import annotations

import sys

import pytest

import pipeweave.adapters
from pipeweave.authoring import collect
from pipeweave.spec import StepSpec, unknown_tasks
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.unknown_tasks import BUILT_IN_TASKS

NAMES = ["count", "payments.charge", "payments.refund", "shop.orders.read"]


@pytest.mark.parametrize(
    ("task", "code", "near", "said"),
    [
        ("cuont", "unknown_task", "count", "did you mean 'count'?"),
        ("nothing-like-it", "unknown_task", None, "which no service has registered"),
        ("payments.chrage", "unknown_task", "payments.charge", "did you mean 'payments.charge'?"),
        ("payments.void", "unknown_task", None, "its actions are charge, refund"),
        ("paymnets.charge", "adapter_not_found", "payments.charge", "Adapter not found: paymnets; "),
        ("paymnets.list_all_of_them", "adapter_not_found", "payments", "did you mean 'payments'?"),
        ("shop.order.read", "adapter_not_found", "shop.orders.read", "Adapter not found: shop.order; "),
        ("http.request", "adapter_not_found", None, "pipeweave worker --app pipeweave.adapters"),
        ("mail.send", "adapter_not_found", None, "Adapter not found: mail; "),
    ],
)
def test_the_fault_is_named_with_the_nearest_right_name(
    task: str, code: str, near: str | None, said: str
) -> None:
    spec = PipelineSpec("p", (StepSpec("a", "count"), StepSpec("b", task)))
    [fault] = unknown_tasks(spec, {"count"}, NAMES)
    assert (fault.code, fault.near, fault.field) == (code, near, "steps[1].task")
    assert said in fault.message
    assert fault.as_graph_error().steps == ("b",)


def test_a_hundred_faults_are_enough() -> None:
    spec = PipelineSpec("p", tuple(StepSpec(f"s{number}", "gone") for number in range(200)))
    assert len(unknown_tasks(spec, (), ())) == 100


def test_the_tasks_that_are_called_built_in_are_those() -> None:
    assert set(collect(sys.modules[pipeweave.adapters.__name__])) == BUILT_IN_TASKS
