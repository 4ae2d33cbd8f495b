"""What a token sees of the metrics, and how labels stay bounded."""

from __future__ import annotations

from pipeweave.orchestrator.metrics import Family, Histogram, MetricKind, Samples
from pipeweave.orchestrator.metrics.catalogue import DATABASE_UP, OTHER, QUEUE_DEPTH, QUEUE_OLDEST, TENANT
from pipeweave.orchestrator.metrics.samples import MOST_NAMES

DONE = Family("orchestrator_done", MetricKind.COUNTER, "Done.", ("tenant", "task"), of="task")
TOOK = Family(
    "orchestrator_took", MetricKind.HISTOGRAM, "Took.", ("tenant", "task"), of="task", bounds=(1.0, 10.0)
)
MANY = MOST_NAMES + 3


def test_values_of_the_same_labels_are_added_up_or_the_greatest_is_taken() -> None:
    made = Samples()
    for value in (3, 5, 4):
        made.add(QUEUE_DEPTH, value, "t", "a", "ready")
        made.add(QUEUE_OLDEST, value, "t", "a", "ready")
    assert made.values[QUEUE_DEPTH] == {("t", "a", "ready"): 12}
    assert made.values[QUEUE_OLDEST] == {("t", "a", "ready"): 5}


def test_a_token_sees_its_tenants_and_only_metrics_of_tenants() -> None:
    made = Samples()
    for tenant in ("mine", "its"):
        made.add(QUEUE_DEPTH, 1, tenant, "a", "ready")
        made.observe(TOOK, Histogram.of([1, 0, 0], 0.5), tenant, "a")
    made.add(DATABASE_UP, 1)
    seen = made.of({"mine"})
    assert seen.values == {QUEUE_DEPTH: {("mine", "a", "ready"): 1}}
    assert set(seen.histograms[TOOK]) == {("mine", "a")}
    assert set(made.of(None).values) == {QUEUE_DEPTH, DATABASE_UP}


def test_a_gauge_shows_those_with_the_most_and_adds_up_the_others() -> None:
    made = Samples()
    for number in range(MANY):
        made.add(QUEUE_DEPTH, number + 1, "t", f"task-{number:03}", "ready")
        made.add(QUEUE_OLDEST, number + 1, "t", f"task-{number:03}", "ready")
    seen = made.of(None).values
    assert len(seen[QUEUE_DEPTH]) == MOST_NAMES + 1
    assert seen[QUEUE_DEPTH]["t", OTHER, "ready"] == 1 + 2 + 3
    assert seen[QUEUE_OLDEST]["t", OTHER, "ready"] == 3
    assert sum(seen[QUEUE_DEPTH].values()) == sum(range(MANY + 1))


def test_what_a_counter_adds_up_never_goes_back() -> None:
    """Whoever of the others overtakes one that is shown stays one of the others."""
    names = [f"task-{number:03}" for number in range(MANY)]
    made = Samples(first={("task", "t"): names})
    for name in names:
        made.add(DONE, 1, "t", name)
        made.observe(TOOK, Histogram.of([1, 1, 0], 3.0), "t", name)
    before = made.of(None)
    made.add(DONE, 1_000, "t", names[-1])
    after = made.of(None)
    assert (before.values[DONE]["t", OTHER], after.values[DONE]["t", OTHER]) == (3, 1_003)
    assert set(before.values[DONE]) == set(after.values[DONE])
    assert after.histograms[TOOK]["t", OTHER] == Histogram((3, 6, 6), 9.0)


def test_tenants_beyond_the_first_are_put_together() -> None:
    made = Samples(first={(TENANT, ""): ["a", "b"]})
    for tenant in ("a", "b", "c", "d"):
        made.add(DONE, 2, tenant, "work")
    assert made.of(None).values[DONE] == {("a", "work"): 2, ("b", "work"): 2, (OTHER, OTHER): 4}
