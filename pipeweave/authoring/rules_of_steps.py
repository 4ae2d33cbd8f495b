"""Write when a step runs and what its failure means, as a pipeline document has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypedDict

from pipeweave.authoring.retry import Retry
from pipeweave.authoring.written_calls import written_call
from pipeweave.authoring.written_values import condition_text, template
from pipeweave.errors import InvalidSpec
from pipeweave.sandbox import Sandbox
from pipeweave.spec.words_of_others import WORDS
from pipeweave.suggestions import did_you_mean

# When a step with several predecessors runs; a number: as soon as so many of them have completed.
Join = Literal["all", "all-done", "any"] | int


class Rules(TypedDict, total=False):
    """What every step without a task may be given by name.

    Keys:
        step_id: its id; by default a word such as `approval`, with `_2`, `_3` … if it is taken.
        condition: when it is false or null, the step is passed over, and its output is null.
        join: `all` (the default), `all-done`, `any`, or a number: as soon as so many have completed.
        continue_on_error: a failure is passed over like a false condition.
        on_error: what runs when it failed: a pipeline, its id, a task, or a mapping with `pipeline` or
            `task`, `params` and `handled`, whose texts are templates.
        compensate: what runs if it had completed, and its run ends badly; as `on_error`.
    """

    step_id: str | None
    condition: Any
    join: Join
    continue_on_error: bool
    on_error: Any
    compensate: Any


class NeedsAndRules(Rules, total=False):
    """As `Rules`.

    Keys:
        needs: results (or ids) of steps that must end before, though it uses none of their outputs.
    """

    needs: Iterable[Any]


_KNOWN = tuple(NeedsAndRules.__annotations__)
STEP_OPTIONS: Final = (*_KNOWN, "retry", "timeout", "on_exhausted", "sandbox", "queue", "requires")
"""The names of what a step is given by `options` of its task, or of its pipeline."""


def split(rules: Mapping[str, Any], what: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the builder needs to place a step (`step_id`, `needs`), and the members of its document.

    Args:
        what: the function that was given the rules, for errors.

    Raises:
        InvalidSpec: there is no such rule, or it is a wrong one.
    """
    if unknown := [each for each in rules if each not in _KNOWN]:
        hint = did_you_mean(unknown[0], _KNOWN, f"steps take {', '.join(_KNOWN)}")
        if (ours := WORDS.get(unknown[0])) in _KNOWN:
            hint = f"write {ours}="
        raise InvalidSpec(f"{what}() has no argument {unknown[0]!r}", hint=hint)
    place = {key: rules[key] for key in ("step_id", "needs") if key in rules}
    members = {key: rules[key] for key in rules if key not in place}
    return place, written_rules(**members)


def written_rules(
    *,
    condition: Any = None,
    join: Join | None = None,
    retry: Retry | None = None,
    timeout: float | str | None = None,
    continue_on_error: bool = False,
    on_error: Any = None,
    compensate: Any = None,
    on_exhausted: str | None = None,
    sandbox: Sandbox | Mapping[str, Any] | None = None,
    queue: str | None = None,
    requires: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The members of a step's document for these rules; none for those that are left out."""
    shown: dict[str, Any] = {}
    if condition is not None:
        shown["condition"] = condition_text(condition, "condition")
    if join is not None:
        shown["join"] = {"atLeast": join} if type(join) is int else join
    if retry is not None:
        shown["retry"] = _retry(retry)
    if timeout is not None:
        shown["timeout"] = timeout
    if continue_on_error:
        shown["continueOnError"] = continue_on_error
    if on_error is not None:
        shown["onError"] = written_call(on_error, "on_error")
    if compensate is not None:
        shown["compensate"] = written_call(compensate, "compensate")
    if on_exhausted is not None:
        shown["onExhausted"] = on_exhausted
    if sandbox is not None:
        shown["sandbox"] = sandbox.to_json() if isinstance(sandbox, Sandbox) else sandbox
    if queue is not None:
        shown["queue"] = queue
    if requires is not None:
        shown["requires"] = template(requires, "requires")
    return shown


def _retry(retry: Retry) -> dict[str, Any]:
    if not isinstance(retry, Retry):
        raise InvalidSpec(
            f"retry must be a Retry, not {retry!r}"[:300],
            hint="from pipeweave import Retry; retry=Retry(attempts=3)",
        )
    shown = {
        "attempts": retry.attempts,
        "delayMs": retry.delay_ms,
        "backoff": retry.backoff,
        "multiplier": retry.multiplier,
        "maxDelayMs": retry.max_delay_ms,
        "jitter": retry.jitter,
    }
    return shown if retry.retry_on is None else {**shown, "retryOn": list(retry.retry_on)}
