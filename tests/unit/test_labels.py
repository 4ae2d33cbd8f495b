"""Labels as people write them, and what requires them: tasks, steps, triggers, registrations."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeweave import pipeline, task
from pipeweave.errors import InvalidSpec, InvalidTask
from pipeweave.labels import in_words, label_mistakes, read_labels
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.registry import registration
from pipeweave.spec.document import parse_spec

GPU = {"gpu": "a100"}
_WORDS = st.text("abzAZ09._-", min_size=1, max_size=32)
LABELS = st.dictionaries(_WORDS, _WORDS, min_size=1, max_size=6)

WRONG: list[Any] = [
    {},
    [],
    "gpu=a100",
    7,
    {"gpu": ""},
    {"": "a100"},
    {"gpu": "a 100"},
    {"gpu": "a+b"},
    {"g=u": "x"},
    {"gpu": "x/y"},
    {"gpu": "x#y"},
    {"gpu": 100},
    {"gpu": None},
    {"gpu": "a100\n"},
    {"g" * 33: "x"},
    {"gpu": "x" * 64},
    {f"l{number}": "x" for number in range(7)},
]


@task(requires=GPU)
def render(scene: str = "") -> str:
    return scene


@pipeline
def pictures() -> None:
    render.options(step_id="big", requires={"zone": "eu", "arch": "arm"})()


def parse_step(requires: Any) -> Any:
    return parse_spec({"id": "p", "steps": [{"id": "big", "task": "render", "requires": requires}]})


def registered(requires: Any, kind: str = "python") -> registration.Registration:
    shown = {"id": "t", "codeHash": "ab" * 8, "requires": requires}
    document = {"serviceId": "s", "tasks": [shown]}
    return registration.parse(document | ({"baseUrl": "http://x"} if kind == "http" else {}), kind=kind)


# --- how people write them --------------------------------------------------------------------------------


def test_labels_are_read_from_words_and_shown_in_one_order() -> None:
    labels = read_labels(["zone = eu", "gpu=a100", "gpu=a100"])
    assert labels == {"gpu": "a100", "zone": "eu"} and in_words({"zone": "eu", **GPU}) == "gpu=a100, zone=eu"


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["gpu"], "'gpu' is no label: write gpu=a100"),
        (["=a100"], "is no label"),
        (["gpu="], "is no label"),
        (["gpu=a=b"], "is no label"),
        (["gpu=a100", "gpu=h100"], "gpu has two values, a100 and h100"),
        ([f"l{number}=x" for number in range(7)], "are 7 labels, and at most 6 are allowed"),
    ],
)
def test_what_is_no_label_is_refused_with_what_is_expected(pairs: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_labels(pairs)


# --- who requires them ------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG)
def test_a_task_a_step_and_a_registration_refuse_the_same_labels(wrong: Any) -> None:
    assert list(label_mistakes(wrong))
    with pytest.raises(InvalidTask) as of_task:
        task(id="t", requires=wrong)(lambda: None)
    with pytest.raises(InvalidSpec) as of_step:
        parse_step(wrong)
    with pytest.raises(InvalidTask) as of_registration:
        registered(wrong)
    assert of_task.value.errors[0].field.startswith("requires")
    assert of_step.value.errors[0].field.startswith("steps[0].requires")
    assert of_registration.value.errors[0].field.startswith("tasks[0].requires")
    assert all(each.value.errors[0].expected for each in (of_task, of_step, of_registration))


def test_a_document_and_a_function_require_labels_alike_in_one_order() -> None:
    spec = parse_step({"zone": "eu", "arch": "arm"})
    assert spec.steps[0].requires == pictures.spec.steps[0].requires == {"arch": "arm", "zone": "eu"}
    assert list(spec.to_json()["steps"][0]["requires"]) == ["arch", "zone"]
    assert parse_spec(spec.to_json()) == spec
    assert "requires" not in parse_step(None).to_json()["steps"][0]


def test_a_step_requires_what_another_step_returns() -> None:
    @pipeline
    def near(zone: str) -> None:
        host = render()
        render.options(step_id="same", requires={"host": host, "zone": "z-${input.zone}"})()

    assert near.spec.steps[1].requires == {"host": "${steps.render}", "zone": "z-${input.zone}"}
    assert near.spec.steps[1].needs == ("render",)
    assert near.spec.steps[1].known_labels == {}


def test_only_steps_with_a_task_require_labels() -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec({"id": "p", "steps": [{"id": "s", "sleep": "1m", "requires": GPU}]})
    assert caught.value.errors[0].field == "steps[0].requires"


def test_a_worker_registers_what_its_tasks_require() -> None:
    assert render.spec.to_registration()["requires"] == GPU
    assert registered(GPU).tasks[0].requires == GPU
    assert "requires" not in task(id="plain")(lambda: None).spec.to_registration()


def test_an_http_service_cannot_require_labels_and_is_told_what_can() -> None:
    with pytest.raises(InvalidTask) as caught:
        registered(GPU, kind="http")
    [mistake] = caught.value.errors
    assert (mistake.field, mistake.code) == ("tasks[0].requires", "unsupported")
    assert "a service of its own" in mistake.message


# --- the names of queues ----------------------------------------------------------------------------------


@given(LABELS)
def test_the_name_of_a_queue_says_which_labels_it_is_for(labels: dict[str, str]) -> None:
    for base in ("pipeweave.t.s", "pipeweave.t.s/gpu"):
        queue = queue_names.labelled(base, labels)
        assert queue_names.required_in(queue) == labels
        assert queue_names.without_labels(queue) == base
        assert queue_names.labelled(base, dict(reversed(labels.items()))) == queue
    assert queue_names.required_in("pipeweave.t.s#abc") == {}


@given(LABELS, LABELS)
def test_two_sets_of_labels_share_no_queue(one: dict[str, str], other: dict[str, str]) -> None:
    is_same = queue_names.labelled("q", one) == queue_names.labelled("q", other)
    assert is_same == (one == other)
