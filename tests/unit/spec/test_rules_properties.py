"""Whole runs of any graph with any failures and choices, compared with a plain model of the rules.

The model knows no predecessors' statuses: it says for the whole graph at once which steps run, by fixed
points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from pipeweave.authoring.context import TaskResult
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec
from pipeweave.spec.rules import CONTINUE, FAIL_FAST, PARTIAL_MERGE
from pipeweave.testing import run_pipeline


@dataclass(frozen=True)
class Story:
    """A graph, which steps would fail, and what the others would choose (None: all)."""

    needs: dict[str, tuple[str, ...]]
    fails: frozenset[str]
    chooses: dict[str, tuple[str, ...] | None]

    def after(self, step: str) -> list[str]:
        return [other for other, needs in self.needs.items() if step in needs]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    names = [f"s{place}" for place in range(draw(st.integers(1, 8)))]
    needs = {
        name: tuple(each for each in names[:place] if draw(st.integers(0, 2)) == 0)
        for place, name in enumerate(names)
    }
    fails = frozenset(name for name in names if draw(st.integers(0, 4)) == 0)
    story = Story(needs, fails, {})
    for name in names:
        some = [each for each in story.after(name) if draw(st.booleans())]
        story.chooses[name] = tuple(some) if draw(st.booleans()) else None
    return story


def model(story: Story, mode: str) -> dict[str, str]:
    """Status by step: `ran` grows from the entries along the edges that are taken."""
    dead: set[str] = set()
    while True:
        ran = _ran(story, mode, dead)
        failed = ran & story.fails
        if mode == PARTIAL_MERGE:
            break
        more = {step for step in story.needs if _comes_after(story, step, failed)}
        if more == dead:
            break
        dead = more
    return {
        step: "skipped" if step not in ran else "failed" if step in story.fails else "completed"
        for step in story.needs
    }


def _ran(story: Story, mode: str, dead: set[str]) -> set[str]:
    ran: set[str] = set()
    while True:
        more = {
            step
            for step, needs in story.needs.items()
            if step not in dead and (not needs or any(_taken(story, each, step, ran) for each in needs))
        }
        if more == ran:
            return ran
        ran = more


def _taken(story: Story, before: str, step: str, ran: set[str]) -> bool:
    chosen = story.chooses[before]
    return before in ran and before not in story.fails and (chosen is None or step in chosen)


def _comes_after(story: Story, step: str, failed: set[str]) -> bool:
    return any(each in failed or _comes_after(story, each, failed) for each in story.needs[step])


def run(story: Story, mode: str) -> tuple[str, dict[str, str], list[str]]:
    spec = PipelineSpec("p", tuple(StepSpec(step, step, needs) for step, needs in story.needs.items()))
    ran: list[str] = []

    def task_of(step: str) -> Callable[[], TaskResult]:
        def task() -> TaskResult:
            ran.append(step)
            if step in story.fails:
                raise RuntimeError(step)
            return TaskResult(step, run_next=story.chooses[step])

        return task

    result = run_pipeline(spec, tasks={step: task_of(step) for step in story.needs}, failure_mode=mode)
    return result.status, {step: each.status for step, each in result.steps.items()}, ran


@given(stories())
def test_continue_agrees_with_the_model(story: Story) -> None:
    status, steps, _ = run(story, CONTINUE)
    assert steps == model(story, CONTINUE)
    assert status == ("failed" if "failed" in steps.values() else "completed")


@given(stories())
def test_partial_merge_agrees_with_the_model(story: Story) -> None:
    status, steps, _ = run(story, PARTIAL_MERGE)
    assert steps == model(story, PARTIAL_MERGE)
    assert status == ("partial" if "failed" in steps.values() else "completed")


@given(stories())
def test_failing_fast_ends_the_run_with_the_first_failure(story: Story) -> None:
    status, steps, ran = run(story, FAIL_FAST)
    failed = [step for step in ran if step in story.fails]
    assert len(failed) <= 1
    assert failed == ran[-1:] if failed else True
    assert status == ("failed" if failed else "completed")
    if not failed:
        assert steps == model(story, CONTINUE)


@given(stories(), st.sampled_from([CONTINUE, PARTIAL_MERGE]))
def test_every_step_runs_at_most_once_and_after_its_predecessors(story: Story, mode: str) -> None:
    _, _, ran = run(story, mode)
    assert len(ran) == len(set(ran))
    for place, step in enumerate(ran):
        assert not set(ran[place:]) & set(story.needs[step])
