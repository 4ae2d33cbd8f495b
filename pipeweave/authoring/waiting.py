"""Draw the steps that wait: for a time, a signal, or the decision of people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Unpack

from pipeweave.authoring.graph_builder import open_builder
from pipeweave.authoring.hint_fields import field_of
from pipeweave.authoring.placeholder import Placeholder, reference_of
from pipeweave.authoring.rules_of_steps import NeedsAndRules, split
from pipeweave.authoring.written_values import template
from pipeweave.errors import InvalidSpec
from pipeweave.spec import NO_DEFAULT


def sleep(duration: Any, **rules: Unpack[NeedsAndRules]) -> Any:
    """Draw a step that waits for a time; no worker and no process waits with it.

    Args:
        duration: seconds, a text such as `30s`, `5m`, `1h` or `2d`, or a result or parameter that is one.
        rules: see `Rules`; and `needs`.

    Returns:
        Its result, null: pass it on as `needs`.

    Raises:
        InvalidSpec: an argument is invalid, or no pipeline is drawn.
    """
    builder = open_builder("sleep")
    place, members = split(rules, "sleep")
    return builder.add("sleep", {"sleep": template(duration, "sleep"), **members}, **place)


def sleep_until(moment: Any, **rules: Unpack[NeedsAndRules]) -> Any:
    """Draw a step that waits until a time.

    Args:
        moment: an aware datetime, a text in ISO 8601 with its zone, or a result or parameter that is one. A
            time that has passed ends the wait at once.
        rules: see `Rules`; and `needs`.

    Returns:
        Its result, null: pass it on as `needs`.

    Raises:
        InvalidSpec: an argument is invalid, or no pipeline is drawn.
    """
    builder = open_builder("sleep_until")
    place, members = split(rules, "sleep_until")
    written = moment.isoformat() if isinstance(moment, datetime) else template(moment, "sleep_until")
    return builder.add("sleep", {"sleepUntil": written, **members}, **place)


def wait_for_signal(
    *names: Any,
    timeout: float | str | None = None,
    default: Any = NO_DEFAULT,
    **rules: Unpack[NeedsAndRules],
) -> Any:
    """Draw a step that waits for the first signal of one of several names, sent before or after it began.

    Example: `arrived = wait_for_signal("delivered", "returned", timeout="10d")`; then `arrived["name"]` and
    `arrived["payload"]`.

    Args:
        names: of the signals; templates, or results and parameters.
        timeout: how long it waits: seconds, or a text such as `10d`; 7 days by default.
        default: its result when the time is over, None too; without it, it fails then.
        rules: see `Rules`; and `needs`.

    Returns:
        Its result: an object of `name`, `payload`, `by` and `at`.

    Raises:
        InvalidSpec: an argument is invalid, or no pipeline is drawn.
    """
    builder = open_builder("wait_for_signal")
    place, members = split(rules, "wait_for_signal")
    written = {"names": template(names, "names"), **_end(timeout, default)}
    return builder.add("signal", {"signal": written, **members}, **place)


def approval(
    title: Any,
    *,
    assignees: Iterable[Any] = (),
    votes: int = 1,
    form: Any = None,
    options: Iterable[str] = (),
    context: Any = None,
    timeout: float | str | None = None,
    default: Any = NO_DEFAULT,
    on_reject: Literal["complete", "fail"] = "complete",
    four_eyes: bool = False,
    **rules: Unpack[NeedsAndRules],
) -> Any:
    """Draw a step that waits for the decision of people.

    Example: `ok = approval("Ship order ${input.order.id}?", assignees=["group:finance"], timeout="2d")`; then
    `ok["approved"]`.

    Args:
        title: what is asked; a template.
        assignees: names of tokens, or `group:<name>`, whose votes count; none: everybody who may approve.
        votes: how many different people must say yes; one who says no decides at once.
        form: the fields that who decides fills in: a dataclass, a TypedDict, a pydantic model, or a schema.
        options: the choices in place of yes and no: `["ship", "hold"]`; the result has `choice`.
        context: JSON with results and parameters, shown beside the question.
        timeout: how long it waits: seconds, or a text such as `2d`; 7 days by default.
        default: its result when the time is over, None too; without it, it fails then.
        on_reject: `fail`: a no fails the step with REJECTED.
        four_eyes: who began the run cannot decide.
        rules: see `Rules`; and `needs`.

    Returns:
        Its result: an object of `approved`, `choice`, `by`, `at`, `comment`, `form` and `votes`. With
        `options`, look at `choice`: `approved` is null then.

    Raises:
        InvalidSpec: an argument is invalid, or no pipeline is drawn.
    """
    builder = open_builder("approval")
    place, members = split(rules, "approval")
    written: dict[str, Any] = {
        "title": template(title, "title"),
        "assignees": template(list(assignees), "assignees"),
        "needs": votes,
        "onReject": on_reject,
        "fourEyes": four_eyes,
        **_end(timeout, default),
    }
    written |= {"options": chosen} if (chosen := list(options)) else {}
    written |= {} if form is None else {"form": _form(form)}
    written |= {} if context is None else {"context": template(context, "context")}
    return builder.add("approval", {"approval": written, **members}, **place)


def _end(timeout: float | str | None, default: Any) -> dict[str, Any]:
    """How long a step waits, and its output when the time is over."""
    if isinstance(timeout, Placeholder):
        raise InvalidSpec(
            f"timeout is a constant, not {reference_of(timeout)}", hint="sleep(…) takes results, too"
        )
    shown: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    return shown if default is NO_DEFAULT else {**shown, "default": template(default, "default")}


def _form(form: Any) -> Any:
    """The schema of a form: of a class, the fields that its instances are made of."""
    if isinstance(form, Mapping):
        return form
    properties = field_of("form", form, is_required=True).get("properties")
    if properties is None:
        raise InvalidSpec(
            f"the form {form!r} has no fields that could be asked for"[:300],
            hint="give a dataclass, a TypedDict or a pydantic model without validators, or a schema",
        )
    return {"fields": [_labelled(each) for each in properties], "strict": True}


def _labelled(field: Mapping[str, Any]) -> dict[str, Any]:
    name = field["name"]
    return {**field, "label": name.replace("_", " ").strip().capitalize() or name}
