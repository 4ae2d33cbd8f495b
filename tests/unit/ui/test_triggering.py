"""What the form of a trigger asks for."""

from __future__ import annotations

from typing import Any, cast

from pipeweave.api.ui.triggering import schema_of
from pipeweave.api.ui.view import View
from pipeweave.spec import parse_spec

TO = {"fields": [{"name": "to", "type": "email", "label": "To", "required": True}]}


class Answering:
    """Answers with one schema for each task of a pipeline."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.spec = parse_spec(document, id="letters").to_json()

    def ask(self, operation: str, **_: Any) -> dict[str, Any]:
        return {"schema": TO}


def asked(*steps: dict[str, Any], **more: Any) -> Any:
    view = Answering({"steps": list(steps), **more})
    return schema_of(cast(View, view), view.spec)


def test_an_entry_task_that_reads_the_input_asks_for_its_fields() -> None:
    assert asked({"id": "send", "task": "send_mail"}) == TO


def test_a_task_with_parameters_of_its_own_asks_for_nothing() -> None:
    assert asked({"id": "send", "task": "send_mail", "params": {"to": "ann@example.com"}}) is None
    assert asked({"id": "send", "task": "send_mail", "map": {"over": ["ann@example.com"]}}) is None


def test_a_step_that_the_engine_decides_asks_for_nothing() -> None:
    assert asked({"id": "wait", "sleep": "1h"}, {"id": "send", "task": "send_mail"}) is None
