"""Any graph, compared with a model that is slow and plain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeweave.spec.graph import Graph, dry_run, validate_graph
from pipeweave.spec.pipeline_spec import PipelineSpec, StepSpec

Edges = dict[str, set[str]]


@st.composite
def graphs(draw: st.DrawFn, *, cyclic: bool = False) -> Edges:
    """Steps in a drawn order; without cycles, each needs only steps before it."""
    names = draw(st.lists(st.text("abcxyz", min_size=1, max_size=3), min_size=1, max_size=9, unique=True))
    edges: Edges = {}
    for place, name in enumerate(names):
        candidates = names if cyclic else names[:place]
        edges[name] = draw(st.sets(st.sampled_from(candidates))) if candidates else set()
    shuffled = draw(st.permutations(names))
    return {name: edges[name] for name in shuffled}


def spec_of(edges: Edges) -> PipelineSpec:
    return PipelineSpec(
        "p", tuple(StepSpec(name, name, tuple(sorted(needs))) for name, needs in edges.items())
    )


def model_order(edges: Edges) -> list[str]:
    """Again and again the lexically first step whose predecessors are all there."""
    order: list[str] = []
    while free := sorted(name for name, needs in edges.items() if name not in order and needs <= set(order)):
        order.append(free[0])
    return order


def model_ancestors(edges: Edges, step: str) -> set[str]:
    found: set[str] = set()
    while (more := found | {p for each in found | {step} for p in edges[each]}) != found:
        found = more
    return found


@given(graphs())
def test_a_graph_agrees_with_the_model(edges: Edges) -> None:
    graph = Graph(spec_of(edges))
    assert list(graph.order) == model_order(edges)
    for step in edges:
        assert graph.ancestors(step) == model_ancestors(edges, step)
        assert set(graph.successors[step]) == {other for other, needs in edges.items() if step in needs}
        assert graph.level_of[step] == 1 + max((graph.level_of[each] for each in edges[step]), default=-1)
        assert all(step in graph.descendants(each) for each in graph.ancestors(step))
    assert sorted(step for level in graph.levels for step in level) == sorted(edges)


@given(graphs(cyclic=True))
def test_cycles_are_found_exactly_where_there_are_some(edges: Edges) -> None:
    cycles = [error for error in validate_graph(spec_of(edges)) if error.code == "CYCLE"]
    assert bool(cycles) == (len(model_order(edges)) < len(edges))
    for cycle in cycles:
        assert cycle.steps[0] == cycle.steps[-1] == min(cycle.steps)
        assert len(set(cycle.steps)) == len(cycle.steps) - 1
        assert all(
            before in edges[after] for before, after in zip(cycle.steps, cycle.steps[1:], strict=False)
        )


@given(graphs())
def test_parts_are_warned_of_when_no_path_joins_them(edges: Edges) -> None:
    groups = {name: {name} for name in edges}
    for name, needs in edges.items():
        for each in needs:
            merged = groups[name] | groups[each]
            for member in merged:
                groups[member] = merged
    separate = {min(group) for group in groups.values()}
    warned = [each for each in dry_run(spec_of(edges)).warnings if each.code == "DISCONNECTED"]
    assert {step for each in warned for step in each.steps} == (separate if len(separate) > 1 else set())
