"""The hash of what a task run was given changes exactly with what it was given."""

from __future__ import annotations

import hashlib

from pipeweave.orchestrator.kept.given_hashes import GivenHashes
from pipeweave.spec.document import parse_spec

INPUT, A, B = "1" * 64, "a" * 64, "b" * 64
SPEC = parse_spec(
    {
        "id": "p",
        "steps": [
            {"id": "plain", "task": "t"},
            {"id": "constant", "task": "t", "params": {"n": 1}},
            {"id": "ofInput", "task": "t", "params": {"n": "${input.n}"}},
            {"id": "ofStep", "task": "t", "params": {"n": "${steps.plain.total}"}},
            {"id": "each", "task": "t", "map": "${steps.plain}"},
            {
                "id": "placed",
                "task": "t",
                "map": "${steps.plain}",
                "params": {"at": "${mapIndex}", "what": "${item}"},
            },
        ],
    }
)
HASHES = GivenHashes(INPUT, SPEC.by_id)
OUTPUTS = {"plain": A}


def test_a_step_without_params_was_given_the_input_of_the_run() -> None:
    assert HASHES.of("plain", "task", {}) == INPUT


def test_the_hash_of_params_is_that_of_their_canonical_json() -> None:
    expected = hashlib.sha256(b'{"params":{"n":1}}').hexdigest()
    assert HASHES.of("constant", "task", {}) == expected


def test_params_change_with_what_they_refer_to_and_with_nothing_else() -> None:
    other = GivenHashes("2" * 64, SPEC.by_id)
    assert HASHES.of("ofInput", "task", {}) != other.of("ofInput", "task", {})
    assert HASHES.of("ofStep", "task", OUTPUTS) == other.of("ofStep", "task", OUTPUTS)
    assert HASHES.of("ofStep", "task", OUTPUTS) != HASHES.of("ofStep", "task", {"plain": B})
    assert HASHES.of("ofStep", "task", {}) == HASHES.of("ofStep", "task", {"plain": None})
    assert HASHES.referenced("ofStep", "task") == {"plain"}


def test_a_map_was_given_its_list_and_an_item_its_part_of_it() -> None:
    assert HASHES.of("each", "map", OUTPUTS) != HASHES.of("each", "map", {"plain": B})
    first, second = (HASHES.of("each", "item", OUTPUTS, item, 0) for item in (1, 2))
    assert first != second
    assert first == HASHES.of("each", "item", {}, 1, 7), "its place is not given to it"
    # An item is what a user's program made: it is never read as a reference.
    assert HASHES.of("each", "item", OUTPUTS, "${steps.nobody}", 0) is not None


def test_the_place_of_an_item_counts_where_params_name_it() -> None:
    places = {HASHES.of("placed", "item", OUTPUTS, 1, place) for place in (0, 1)}
    assert len(places) == 2


def test_a_step_that_the_pipeline_does_not_have_has_no_hash() -> None:
    assert HASHES.of("nobody", "task", {}) is None
    assert HASHES.referenced("nobody", "task") == set()
