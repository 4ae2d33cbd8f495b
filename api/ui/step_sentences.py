"""What a version says of its steps, and of its runs as a whole, in sentences (pure).

They are made of the stored document. Parts of them between backticks are code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pipeweave.api.ui.words import compact
from pipeweave.durations import in_words
from pipeweave.spec import DEFAULT_FINALLY_MS

Document = Mapping[str, Any]

_FAILURE_MODES = {
    "fail-fast": "The first step that fails ends the run.",
    "continue": "When a step fails, what needs it is skipped; the others go on, and then the run fails.",
    "partial-merge": "When a step fails, a step behind it runs with what completed, and the run is partial.",
}
_ITEM_FAILURES = {
    "settle": "The others go on when one of them fails; then the step fails.",
    "partial": "The others go on when one of them fails; its result is null.",
}
_AT_MOST_AT_ONCE = 100


def of_pipeline(spec: Document) -> list[str]:
    """What holds for all of a run: failures, time limits, what follows its last step."""
    return [*_of_failures(spec), *_of_limits(spec), *_of_end(spec)]


def of_step(step: Document) -> list[str]:
    """What a step does other than to run its task once those before it have completed, in order."""
    return [*_when(step), *_what(step), *_limits(step), *_sandboxed(step), *_afterwards(step)]


def all_steps(spec: Document) -> list[dict[str, Any]]:
    """The steps of a version, each followed by those of its bodies: {step, inside, pipeline, sentences}.

    `inside` says where the step is, such as `files.map`; empty for a step of the run itself. `pipeline` is
    what the step, or each of its items or rounds, runs; None if it is none.
    """
    rows = list(_rows(spec["steps"], ""))
    for at, rule in enumerate(spec.get("errorHandlers", ())):
        rows += _rows(rule.get("steps", ()), f"errorHandlers[{at}]")
    return [*rows, *_rows(spec.get("finally", {}).get("steps", ()), "finally")]


def _rows(steps: Sequence[Document], inside: str) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield {"step": step, "inside": inside, "pipeline": _runs(step), "sentences": of_step(step)}
        for word in ("map", "loop", "onError", "compensate"):
            body = step.get(word)
            if isinstance(body, Mapping) and "steps" in body:
                yield from _rows(body["steps"], f"{step['id']}.{word}")


def _runs(step: Document) -> str | None:
    called = step.get("pipeline") or step.get("loop", {}).get("pipeline")
    id = called["id"] if isinstance(called, Mapping) else called
    return None if id is None else str(id)


# --- the pipeline -----------------------------------------------------------------------------------------


def _of_failures(spec: Document) -> Iterator[str]:
    yield _FAILURE_MODES[spec["failureMode"]]
    if spec.get("onExhausted") == "pause":
        yield "A step without an attempt left pauses the run."
    for rule in spec.get("errorHandlers", ()):
        condition = f" and `{rule['condition']}`" if "condition" in rule else ""
        yield f"When a step fails{condition}: {_called(rule)}, and {_comes_of(rule)}."


def _of_limits(spec: Document) -> Iterator[str]:
    if "timeoutMs" in spec:
        yield f"A run may take {in_words(spec['timeoutMs'])}."
    if "idleTimeoutMs" in spec:
        yield f"A run in which nothing happens for {in_words(spec['idleTimeoutMs'])} fails."
    if "concurrency" in spec:
        yield _of_concurrency(spec["concurrency"])
    if "rateLimit" in spec:
        often = spec["rateLimit"]
        of_key = f" for each `{often['key']}`" if "key" in often else ""
        yield f"At most {often['rate']} of its runs start{of_key}: others wait for their turn."
    if spec.get("code") == "pinned":
        yield "Its runs keep the code that their tasks had when they began."


_WITHOUT_ROOM = {
    "queue": "others wait for their turn",
    "skip": "another one does not start",
    "cancel-old": "a newer one replaces the oldest",
}


def _of_concurrency(said: Document) -> str:
    runs = "1 run is" if said["limit"] == 1 else f"{said['limit']:,} runs are"
    of_key = f" for each `{said['key']}`" if "key" in said else ""
    return f"At most {runs} under way{of_key}: {_WITHOUT_ROOM[said['onLimit']]}."


def _of_end(spec: Document) -> Iterator[str]:
    takes_back = any("compensate" in each for each in spec["steps"])
    if "finally" in spec:
        yield f"When all steps have ended, however they did: {_called(spec['finally'])}."
    if "finally" in spec or takes_back:
        most = in_words(spec.get("finallyTimeoutMs", DEFAULT_FINALLY_MS))
        yield f"What follows the last step may take {most} in all."


# --- a step -----------------------------------------------------------------------------------------------


def _when(step: Document) -> Iterator[str]:
    if "condition" in step:
        yield f"Only if `{step['condition']}`."
    match step.get("join"):
        case "all-done":
            has = "has ended, whatever it" if len(step["needs"]) == 1 else "have ended, whatever they"
            yield f"When {_names(step['needs'])} {has} came to."
        case "any":
            yield f"As soon as one of {_names(step['needs'])} has completed."
        case {"atLeast": number}:
            yield f"As soon as {number} of {_names(step['needs'])} have completed."


def _what(step: Document) -> Iterator[str]:
    if step.get("map"):
        yield from _map(step["map"], step)
    for word, sentences in _SAYS.items():
        if word in step:
            yield from sentences(step[word])


def _map(spread: Document, step: Document) -> Iterator[str]:
    runs = f": {_called(spread)}" if "steps" in spread else ""
    has_runs = runs or "pipeline" in step
    at_once = spread.get("maxParallel", _AT_MOST_AT_ONCE if has_runs else None)
    most = f", {at_once:,} at once" if at_once else ""
    yield f"For each item of {_value(spread['over'])}{runs}{most}."
    if (failure := spread.get("failure")) in _ITEM_FAILURES:
        yield _ITEM_FAILURES[failure]


def _choice(cases: Sequence[Document]) -> Iterator[str]:
    for case in cases:
        goes = _names(case["next"]) or "no step of its own"
        when = f"if `{case['condition']}`" if "condition" in case else "otherwise"
        yield f"`{case['name']}` {when}: {goes}." if "name" in case else f"{when.capitalize()}: {goes}."


def _transform(made: Document) -> Iterator[str]:
    yield f"Gives `{compact(made['output'])}`."
    for each in made["failIf"]:
        yield f"Fails with `{each['code']}` if `{each['condition']}`."


def _gather(members: Sequence[str]) -> Iterator[str]:
    yield f"Waits for {_names(members)}, and fails if one of them failed."


def _sleep(ms: int | str) -> Iterator[str]:
    yield f"Waits {in_words(ms)}." if isinstance(ms, int) else f"Waits for {_value(ms)} (seconds)."


def _sleep_until(moment: str) -> Iterator[str]:
    yield f"Waits until {_value(moment)}."


def _signal(wait: Document) -> Iterator[str]:
    names = " or ".join(f"`{each}`" for each in wait["names"])
    yield f"Waits for the signal {names}, {_at_most(wait)}."


def _approval(wait: Document) -> Iterator[str]:
    whom = " or ".join(_person(each) for each in wait.get("assignees", ())) or "whoever may approve"
    several = f", {wait['needs']} of them" if wait.get("needs", 1) > 1 else ""
    options = f" ({', '.join(wait['options'])})" if wait.get("options") else ""
    yield f"Asks {whom}{several}{options}: «{wait['title']}», {_at_most(wait)}."
    if wait.get("onReject") == "fail":
        yield "A no fails the step."
    if wait.get("fourEyes"):
        yield "Not who began the run."


def _person(assignee: str) -> str:
    name = assignee.removeprefix("group:")
    return f"`{name}`" if name == assignee else f"the group `{name}`"


def _pipeline(called: Any) -> Iterator[str]:
    yield f"Runs {_pipeline_name(called)}, and completes with its output."


def _loop(loop: Document) -> Iterator[str]:
    pause = f", {in_words(loop['delayMs'])} apart" if "delayMs" in loop else ""
    until = f" until `{loop['until']}`" if "until" in loop else ""
    yield f"In rounds{until}, {loop['maxIterations']:,} at most{pause}: {_called(loop)}."
    if loop.get("collect"):
        yield "Gives the results of all rounds."


_SAYS: Mapping[str, Callable[[Any], Iterator[str]]] = {
    "choice": _choice,
    "transform": _transform,
    "gather": _gather,
    "sleepMs": _sleep,
    "sleep": _sleep,
    "sleepUntil": _sleep_until,
    "signal": _signal,
    "approval": _approval,
    "pipeline": _pipeline,
    "loop": _loop,
}


def _limits(step: Document) -> Iterator[str]:
    if "timeoutMs" in step:
        yield f"An attempt may take {in_words(step['timeoutMs'])}."
    if "retry" in step:
        yield _retry(step["retry"])
    awaited = step.get("async", {})
    if "timeoutMs" in awaited:
        yield f"What goes on elsewhere may take {in_words(awaited['timeoutMs'])}."
    if poll := awaited.get("poll"):
        each = f" each {in_words(poll['intervalMs'])}" if "intervalMs" in poll else ""
        tries = f", {poll['maxAttempts']:,} times at most" if "maxAttempts" in poll else ""
        most = f", for {in_words(poll['timeoutMs'])} at most" if "timeoutMs" in poll else ""
        yield f"What goes on elsewhere is asked for{each}{tries}{most}."


def _retry(retry: Document) -> str:
    if retry["attempts"] == 1:
        return "It is not tried again."
    first, most = in_words(retry["delayMs"]), in_words(retry["maxDelayMs"])
    grows = retry["backoff"] != "fixed" and retry["maxDelayMs"] > retry["delayMs"]
    apart = f"{first} apart, then longer, up to {most}" if grows else f"{first} apart"
    only = f", only after {', '.join(f'`{each}`' for each in retry['retryOn'])}" if "retryOn" in retry else ""
    return f"Up to {retry['attempts']:,} attempts, {apart}{only}."


def _sandboxed(step: Document) -> Iterator[str]:
    if (sandbox := step.get("sandbox")) is not None:
        limits = " and ".join(f"{name} {sandbox[name]}" for name in ("memory", "cpu") if name in sandbox)
        yield f"Called in a sandbox with {limits}." if limits else "Called in a sandbox."


def _afterwards(step: Document) -> Iterator[str]:
    if "onError" in step:
        rule = step["onError"]
        yield f"When its last attempt has failed: {_called(rule)}, and {_comes_of(rule)}."
    if step.get("continueOnError"):
        yield "When it fails for good, the run goes on as if it had been passed over."
    if step.get("onExhausted") == "pause":
        yield "Without an attempt left, it pauses the run."
    elif step.get("onExhausted") == "fail":
        yield "Without an attempt left, it fails, whatever the pipeline and its task say."
    if "queue" in step:
        yield f"Its task runs wait in the queue `{step['queue']}`."
    if "requires" in step:
        yield f"Called only by workers with {_labels(step['requires'])}."
    if "compensate" in step:
        yield f"Taken back, if the run fails or is cancelled after it: {_called(step['compensate'])}."


# --- parts of sentences -----------------------------------------------------------------------------------


def _labels(labels: Document) -> str:
    return " and ".join(f"`{name}={value}`" for name, value in labels.items())


def _called(call: Document) -> str:
    """What runs: a pipeline, or the steps of a body."""
    if "pipeline" in call:
        return f"{_pipeline_name(call['pipeline'])} runs"
    steps = [each["id"] for each in call["steps"]]
    return f"{_names(steps)} run{'s' if len(steps) == 1 else ''}"


def _pipeline_name(called: Any) -> str:
    if isinstance(called, str):
        return f"`{called}`"
    return f"`{called['id']}` v{called['version']}"


def _comes_of(rule: Document) -> str:
    return "the step completes with its output" if rule.get("handled", True) else "the step stays failed"


def _at_most(wait: Document) -> str:
    then = f"gives `{compact(wait['default'])}`" if "default" in wait else "fails"
    return f"{in_words(wait['timeoutMs'])} at most, then it {then}"


def _names(ids: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, each as code."""
    shown = [f"`{each}`" for each in ids]
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def _value(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{compact(value)}`"
