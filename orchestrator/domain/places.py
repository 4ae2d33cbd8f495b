"""Says where values are: in rows or in storage; and what the run of a body sees of the runs around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Where a value is: (inline value, None) or (None, path in storage). The output of a map is a list of them,
# one for each item.
Place = tuple[Any, str | None]
Places = dict[str, Place | list[Place]]

# Stands among the places of steps for the output of the round before, of a loop. No step has such an id.
LAST_ROUND = "last round"


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How a step stands.

    Args:
        error: as its row keeps it; None if it did not fail.
    """

    status: str
    error: Mapping[str, Any] | None
    error_code: str | None
    attempt: int


@dataclass(frozen=True, slots=True)
class BodyScope:
    """What the steps of a body see of the steps around them, as it was when the run of the body started.

    Nothing of it changes later: it names steps that had ended. Large values stay where they are.

    Args:
        values: by root, such as `item`; small ones.
        places: of the outputs of steps around the body, by step id.
        outcomes: of steps around the body, by step id.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    places: Mapping[str, Place | list[Place]] = field(default_factory=dict)
    outcomes: Mapping[str, StepOutcome] = field(default_factory=dict)

    @classmethod
    def of_json(cls, document: Mapping[str, Any]) -> BodyScope:
        """What `to_json` made a document of."""
        return cls(
            document["values"],
            {step: _place(each) for step, each in document["places"].items()},
            {step: StepOutcome(*each) for step, each in document["outcomes"].items()},
        )

    def to_json(self) -> dict[str, Any]:
        """The document that the row of the run keeps."""
        return {
            "values": dict(self.values),
            "places": {step: _document(each) for step, each in self.places.items()},
            "outcomes": {
                step: [each.status, each.error, each.error_code, each.attempt]
                for step, each in self.outcomes.items()
            },
        }


def _document(place: Place | list[Place]) -> Any:
    return {"items": place} if isinstance(place, list) else list(place)


def _place(document: Any) -> Place | list[Place]:
    if isinstance(document, dict):
        return [(each[0], each[1]) for each in document["items"]]
    return document[0], document[1]
