"""Checks what somebody wants a trigger to be: all mistakes at once (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from pipeweave import webhooks
from pipeweave.errors import FieldError, InvalidInput
from pipeweave.orchestrator.domain.waits import OWN_NAMES
from pipeweave.orchestrator.starts.triggers import matching, row
from pipeweave.orchestrator.starts.triggers.spec import TriggerSpec
from pipeweave.schema import run_input_errors
from pipeweave.size_limits import INLINE_BYTES

# What a filter may name: parts of what a webhook delivers, or of an event.
_OF_A_RUN = (
    *("pipelineId", "pipelineVersion", "runId", "status", "error", "input", "output", "outputRefs"),
    *("triggeredBy", "startedAt", "finishedAt"),
)
FILTER_ROOTS = {
    row.WEBHOOK: ("body", "headers", "deliveryId"),
    row.PIPELINE_COMPLETED: _OF_A_RUN,
    row.TASK_COMPLETED: (
        *("pipelineId", "runId", "taskRunId", "taskId", "stepId", "status", "attempt", "error", "output"),
        *("outputRef", "startedAt", "finishedAt"),
    ),
}


def check(spec: TriggerSpec) -> None:
    """Check the parts of a trigger against each other.

    Raises:
        InvalidInput: one FieldError for each mistake.
    """
    errors = list(_mistakes(spec))
    if errors:
        more = f" (and {len(errors) - 1} more)" if errors[1:] else ""
        raise InvalidInput(f"{errors[0].field}: {errors[0].message}{more}", errors=errors)


def sure_refusals(spec: TriggerSpec, schema: Mapping[str, Any] | None) -> list[FieldError]:
    """What the pipeline will refuse in the input of every run of a trigger, whatever is delivered: an input
    that it does not have, one that nothing gives, and a fixed value of another type. What references stand
    for is not known yet.

    Args:
        schema: of the pipeline's input.
    """
    if not spec.starts_runs:
        return []
    roots = FILTER_ROOTS[row.WEBHOOK] if spec.kind == row.WEBHOOK else ("event",)
    template = {each: f"${{input.{each}}}" for each in roots} if spec.input is None else spec.input
    if isinstance(template, str) and matching.has_references(template):
        return []
    members = template.items() if isinstance(template, Mapping) else ()
    unknown = [name for name, value in members if matching.has_references(value)]
    errors = run_input_errors(schema, template)
    return [each for each in errors if each.code == "unknown_input" or not _is_within(each.field, unknown)]


def _is_within(field: str, names: list[str]) -> bool:
    return any(field == each or field.startswith((f"{each}.", f"{each}[")) for each in names)


def _mistakes(spec: TriggerSpec) -> Iterator[FieldError]:
    is_webhook = spec.kind == row.WEBHOOK
    yield from _of_another_kind(spec, is_webhook)
    roots = FILTER_ROOTS.get(row.WEBHOOK if is_webhook else spec.event or "", ())
    if roots:
        yield from matching.filter_mistakes(spec.filter, roots)
    for place, template in _templates(spec):
        yield from matching.template_mistakes(template, roots if is_webhook else ("event",), place)
    if is_webhook:
        yield from _of_headers(spec)
        yield from _of_signal(spec)
    for name, value in (("filter", spec.filter), *_templates(spec)):
        if (size := len(orjson.dumps(value))) > INLINE_BYTES:
            message = f"takes {size:,} bytes of JSON, at most {INLINE_BYTES:,} are stored with a trigger"
            yield FieldError(name, message, "too_big")
    if not is_webhook:
        yield from _of_events(spec)


def _templates(spec: TriggerSpec) -> Iterator[tuple[str, Any]]:
    """The templates of a trigger, by their places."""
    yield "input", spec.input
    if spec.signal is not None and spec.kind == row.WEBHOOK:
        yield "signal.name", spec.signal.name
        yield "signal.runToken", spec.signal.run_token
        yield "signal.payload", spec.signal.payload


def _of_signal(spec: TriggerSpec) -> Iterator[FieldError]:
    if spec.signal is not None and spec.signal.name.startswith(OWN_NAMES):
        yield FieldError("signal.name", "begins like a name of the engine", "invalid_value", "another name")


def _of_headers(spec: TriggerSpec) -> Iterator[FieldError]:
    """Filters and references that name a header which no run gets: nothing would ever fit."""
    scheme = spec.scheme or webhooks.DEFAULT_SCHEME
    headers = {*row.GIVEN_HEADERS.get(scheme, ()), *spec.headers}
    wanted = [(f"filter.{path}", path.split(".")) for path in spec.filter]
    wanted += [
        (place, list(path))
        for field, template in _templates(spec)
        for place, path in matching.template_paths(template, field)
    ]
    for place, path in wanted:
        if path[0] == "headers" and path[1:] and path[1] not in headers:
            message = f"names the header {path[1][:100]!r}, which the run does not get"
            yield FieldError(
                place, message, "unknown_header", "a header that stands in `headers`, in lower case"
            )


def _of_another_kind(spec: TriggerSpec, is_webhook: bool) -> Iterator[FieldError]:
    members = {
        "scheme": (True, spec.scheme is not None),
        "secret": (True, spec.secret is not None),
        "headers": (True, bool(spec.headers)),
        "maxPerMinute": (True, spec.max_per_minute is not None),
        "signal": (True, spec.signal is not None),
        "on": (False, spec.event is not None),
        "allowSelf": (False, spec.allows_self),
    }
    for name, (is_of_webhooks, is_given) in members.items():
        if is_given and is_of_webhooks is not is_webhook:
            kind = row.WEBHOOK if is_of_webhooks else row.EVENT
            yield FieldError(name, f"is of triggers of the kind {kind}", "not_of_this_kind", "nothing")


def _of_events(spec: TriggerSpec) -> Iterator[FieldError]:
    if spec.event is None:
        yield FieldError("on", "is required", "missing", " or ".join(row.EVENTS))
        return
    known = row.STATUSES[spec.event]
    wanted = spec.filter.get("status", [])
    for each in wanted if isinstance(wanted, list) else [wanted]:
        if each not in known:
            yield FieldError(
                "filter.status", f"has {each!r}"[:200], "invalid_enum_value", f"of {', '.join(known)}"
            )
    pipelines = spec.filter.get("pipelineId", [])
    named = pipelines if isinstance(pipelines, list) else [pipelines]
    if spec.pipeline_id in named and not spec.allows_self:
        yield FieldError(
            "filter.pipelineId",
            "names the pipeline that the trigger starts, which would start itself over and over",
            "loop",
            "another pipeline, or allowSelf: then it ends after 10 runs that began each other",
        )
