"""What a version says, in sentences."""

from __future__ import annotations

from typing import Any

import pytest

from pipeweave.api.ui.step_sentences import all_steps, of_pipeline, of_step
from pipeweave.spec import parse_spec


def stored(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The document of a version, as the API shows it."""
    return parse_spec({"steps": list(steps), **more}, id="shop").version_json()


def said(step: dict[str, Any], *before: str, **more: Any) -> list[str]:
    """The sentences of a step behind other steps."""
    others = [{"id": each, "task": "noop", "needs": []} for each in before]
    return of_step(stored(*others, {"id": "it", **step}, **more)["steps"][len(before)])


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"task": "t", "condition": "input.total > 5"}, "Only if `input.total > 5`."),
        ({"task": "t", "timeout": "30s"}, "An attempt may take 30 seconds."),
        ({"task": "t", "retry": {"attempts": 1}}, "It is not tried again."),
        (
            {"task": "t", "retry": {"attempts": 4, "retryOn": ["HTTP_503"]}},
            "Up to 4 attempts, 1 second apart, then longer, up to 30 seconds, only after `HTTP_503`.",
        ),
        (
            {"task": "t", "retry": {"attempts": 2, "backoff": "fixed", "delayMs": 2000}},
            "Up to 2 attempts, 2 seconds apart.",
        ),
        (
            {"task": "t", "continueOnError": True},
            "When it fails for good, the run goes on as if it had been passed over.",
        ),
        ({"task": "t", "sandbox": {"files": []}}, "Called in a sandbox."),
        (
            {"task": "t", "sandbox": {"memory": "64M", "cpu": 2}},
            "Called in a sandbox with memory 64M and cpu 2.",
        ),
        (
            {"task": "t", "requires": {"zone": "eu", "gpu": "a100"}},
            "Called only by workers with `gpu=a100` and `zone=eu`.",
        ),
        ({"task": "t", "onExhausted": "pause"}, "Without an attempt left, it pauses the run."),
        (
            {"task": "t", "onError": {"pipeline": "mend"}},
            "When its last attempt has failed: `mend` runs, and the step completes with its output.",
        ),
        (
            {
                "task": "t",
                "onError": {"steps": [{"id": "x", "task": "x"}, {"id": "y", "task": "y"}], "handled": False},
            },
            "When its last attempt has failed: `x` and `y` run, and the step stays failed.",
        ),
        (
            {"task": "t", "compensate": {"pipeline": {"id": "undo", "version": 2}}},
            "Taken back, if the run fails or is cancelled after it: `undo` v2 runs.",
        ),
        ({"task": "t", "async": {"timeout": "12h"}}, "What goes on elsewhere may take 12 hours."),
        ({"sleep": "15m"}, "Waits 15 minutes."),
        ({"sleepUntil": "${input.at}"}, "Waits until `${input.at}`."),
        (
            {"signal": {"names": ["delivered", "lost"], "timeout": "10d", "default": {"name": "lost"}}},
            'Waits for the signal `delivered` or `lost`, 10 days at most, then it gives `{"name": "lost"}`.',
        ),
        ({"signal": "paid"}, "Waits for the signal `paid`, 7 days at most, then it fails."),
        (
            {
                "approval": {
                    "title": "Ship?",
                    "assignees": ["ann", "group:finance"],
                    "needs": 2,
                    "timeout": "2d",
                }
            },
            "Asks `ann` or the group `finance`, 2 of them: «Ship?», 2 days at most, then it fails.",
        ),
        ({"pipeline": "charge"}, "Runs `charge`, and completes with its output."),
        (
            {"loop": {"pipeline": "ask", "maxIterations": 5, "delay": "1h", "until": "last.ok"}},
            "In rounds until `last.ok`, 5 at most, 1 hour apart: `ask` runs.",
        ),
        (
            {"map": {"over": "${input.files}", "maxParallel": 20, "steps": [{"id": "x", "task": "x"}]}},
            "For each item of `${input.files}`: `x` runs, 20 at once.",
        ),
        (
            {"task": "t", "map": {"over": "${input.files}", "failure": "partial"}},
            "The others go on when one of them fails; its result is null.",
        ),
        (
            {
                "transform": {
                    "output": 1,
                    "failIf": [{"condition": "true == false", "code": "NO", "message": "no"}],
                }
            },
            "Fails with `NO` if `true == false`.",
        ),
    ],
)
def test_a_rule_of_a_step_is_a_sentence(step: dict[str, Any], sentence: str) -> None:
    assert sentence in said(step)


@pytest.mark.parametrize(
    ("join", "sentence"),
    [
        ("any", "As soon as one of `a`, `b` and `c` has completed."),
        ({"atLeast": 2}, "As soon as 2 of `a`, `b` and `c` have completed."),
        ("all-done", "When `a`, `b` and `c` have ended, whatever they came to."),
    ],
)
def test_a_join_names_the_steps_before(join: Any, sentence: str) -> None:
    step = {"task": "t", "needs": ["a", "b", "c"], "join": join}
    assert said(step, "a", "b", "c", failureMode="continue") == [sentence]


def test_a_plain_step_says_nothing() -> None:
    assert said({"task": "t"}) == []


def test_a_choice_says_where_each_case_leads() -> None:
    cases = [
        {"name": "large", "condition": "input.total > 5", "steps": [{"id": "ask", "task": "ask"}]},
        {"steps": [{"id": "small", "task": "small"}]},
    ]
    assert said({"choice": cases}) == ["`large` if `input.total > 5`: `ask`.", "Otherwise: `small`."]


def test_a_pipeline_says_what_holds_for_all_of_it() -> None:
    rules = [
        {"condition": "error.code == 'X'", "pipeline": "mend"},
        {"pipeline": "tell", "handled": False},
    ]
    spec = stored(
        {"id": "a", "task": "a"},
        timeout="2h",
        failureMode="continue",
        errorHandlers=rules,
        **{"finally": {"steps": [{"id": "free", "task": "free"}]}},
        finallyTimeout="10m",
    )
    assert of_pipeline(spec) == [
        "When a step fails, what needs it is skipped; the others go on, and then the run fails.",
        "When a step fails and `error.code == 'X'`: `mend` runs, and the step completes with its output.",
        "When a step fails: `tell` runs, and the step stays failed.",
        "A run may take 2 hours.",
        "When all steps have ended, however they did: `free` runs.",
        "What follows the last step may take 10 minutes in all.",
    ]


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (3, "At most 3 runs are under way: others wait for their turn."),
        (
            {"key": "${input.shop}", "onLimit": "skip"},
            "At most 1 run is under way for each `${input.shop}`: another one does not start.",
        ),
        ({"onLimit": "cancel-old"}, "At most 1 run is under way: a newer one replaces the oldest."),
    ],
)
def test_a_pipeline_says_how_many_of_its_runs_are_under_way(written: Any, sentence: str) -> None:
    assert of_pipeline(stored({"id": "a", "task": "a"}, concurrency=written))[-1] == sentence


def test_a_step_names_the_pipeline_that_it_runs() -> None:
    steps = [
        {"id": "one", "pipeline": {"id": "charge", "version": 2}},
        {"id": "rounds", "loop": {"pipeline": "ask", "maxIterations": 2}},
        {"id": "each", "pipeline": "send", "map": {"over": [1]}},
        {"id": "own", "task": "t"},
    ]
    assert [row["pipeline"] for row in all_steps(stored(*steps))] == ["charge", "ask", "send", None]


def test_steps_of_bodies_follow_the_step_that_they_are_in() -> None:
    inner = {"id": "rows", "task": "rows", "onError": {"steps": [{"id": "aside", "task": "aside"}]}}
    spec = stored(
        {"id": "files", "map": {"over": [1], "steps": [inner]}},
        {"id": "end", "task": "end"},
        errorHandlers=[{"steps": [{"id": "note", "task": "note"}]}],
        **{"finally": {"steps": [{"id": "free", "task": "free"}]}},
    )
    assert [(row["step"]["id"], row["inside"]) for row in all_steps(spec)] == [
        ("files", ""),
        ("rows", "files.map"),
        ("aside", "rows.onError"),
        ("end", ""),
        ("note", "errorHandlers[0]"),
        ("free", "finally"),
    ]
