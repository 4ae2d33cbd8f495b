"""`pipeweave pipelines import-celery`: the pipeline does what the canvas does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery import Celery, Signature, chain, chord, group
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from pipeweave.cli import main
from pipeweave.cli.support.celery_canvas import document_of
from pipeweave.errors import InvalidInput
from pipeweave.spec.document import parse_spec

app = Celery("canvas", broker="memory://", backend="cache+memory://", set_as_current=False)
app.conf.task_always_eager = True


@app.task(name="shop.pack")
def pack(*args: Any, **named: Any) -> list[Any]:
    """Everything that it was called with, so that no argument goes unseen."""
    return [list(args), named]


LEAVES = st.builds(
    lambda number, is_alone, named: pack.signature(
        (number,), {"named": named} if named else {}, immutable=is_alone
    ),
    st.integers(0, 99),
    st.booleans(),
    st.sampled_from(["", "plain", "${steps.pack}", "$${"]),
)


def _joined(members: st.SearchStrategy[Signature]) -> st.SearchStrategy[Signature]:
    several = st.lists(members, min_size=2, max_size=3)
    return st.one_of(
        st.builds(lambda tasks, last: chain(*tasks, last), several, LEAVES),
        st.builds(lambda header, body: chord(header, body), several, LEAVES),
        st.builds(lambda tasks, last: group(*tasks) | last, several, LEAVES),
    )


CANVASES = st.recursive(LEAVES, _joined, max_leaves=8)


def result_of(document: Mapping[str, Any], inputs: Mapping[str, Any]) -> Any:
    """What a document comes to, step after step."""
    values = {f"${{input.{name}}}": value for name, value in inputs.items()}

    def filled(value: Any) -> Any:
        if isinstance(value, str):
            return values[value] if value in values else value.replace("$${", "${")
        return [filled(each) for each in value] if isinstance(value, list) else value

    for step in document["steps"]:
        params = step["params"]
        named = {key: filled(value) for key, value in params.get("kwargs", {}).items()}
        assert set(step.get("needs", ())) <= {each["id"] for each in document["steps"]}
        values[f"${{steps.{step['id']}}}"] = pack(*filled(params["args"]), **named)
    return filled(document["output"])


@given(CANVASES)
def test_the_pipeline_comes_to_what_celery_comes_to(canvas: Signature) -> None:
    document = document_of(canvas, "imported", ["first"])
    parse_spec(document)
    assert result_of(document, {"first": "f"}) == canvas.apply(("f",)).get()


def test_a_group_gives_the_results_of_all() -> None:
    document = document_of(group(pack.s(1), pack.s(2)), "imported")
    assert document["output"] == ["${steps.pack}", "${steps.pack_2}"]


def test_who_takes_no_result_still_waits_for_it() -> None:
    steps = document_of(group(pack.s(1), pack.s(2)) | pack.si(3), "imported")["steps"]
    assert steps[2]["needs"] == ["pack", "pack_2"]
    assert steps[2]["params"]["args"] == [3]


def test_what_is_linked_gets_the_result_and_nobody_waits_for_it() -> None:
    first = pack.s(1)
    first.link(pack.s("linked"))
    document = document_of(chain(first, pack.s(2)), "imported")
    assert [each["params"]["args"] for each in document["steps"]] == [
        [1],
        ["${steps.pack}", "linked"],
        ["${steps.pack}", 2],
    ]
    assert document["output"] == "${steps.pack_3}"


def test_a_queue_is_kept() -> None:
    [step] = document_of(pack.s(1).set(queue="large"), "imported")["steps"]
    assert step["params"]["queue"] == "large"


@pytest.mark.parametrize(
    ("canvas", "why"),
    [
        (pack.s(1).set(countdown=5), "the option 'countdown'"),
        (pack.s(1).set(priority=3), "the option 'priority'"),
        (pack.s(1).on_error(pack.s(2)), "the option 'link_error'"),
        (pack.s(object()), "shop.pack: argument 0"),
        (pack.s(at=datetime(2026, 1, 1), of=object()), "shop.pack: of"),
        (pack.chunks([(1,)], 1), "chunks of a task"),
        (group(), "the group has no tasks"),
        (app, "Celery is no signature"),
        ({"task": 3}, "is no signature"),
    ],
)
def test_what_no_step_can_keep_is_refused(canvas: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why) as refused:
        document_of(canvas, "imported")
    assert refused.value.hint


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipelines", "import-celery", *arguments])


def test_the_command_prints_a_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    source = "from celery import signature\nnightly = signature('a.b', args=('é',)) | signature('a.c')\n"
    (tmp_path / "canvas_flows.py").write_text(f"{source}def made():\n    return nightly\n")
    printed = call("nightly", "canvas_flows:nightly")
    assert printed.exit_code == 0, printed.output
    document = yaml.safe_load(printed.stdout)
    assert [each["params"]["task"] for each in document["steps"]] == ["a.b", "a.c"]
    assert yaml.safe_load(call("nightly", "canvas_flows:made", "--json").stdout) == document


@pytest.mark.parametrize("place", ["flows", "no_such_module:x", "os:path.nothing", "json:loads"])
def test_what_cannot_be_loaded_is_said_in_one_line(place: str) -> None:
    refused = call("nightly", place)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("pipeweave: INVALID_INPUT: ") and refused.stderr.count("\n") == 1
