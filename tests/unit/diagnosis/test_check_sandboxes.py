"""Doctor says whether calls can be confined here, and why not."""

from __future__ import annotations

from pipeweave.orchestrator.diagnosis.check_sandboxes import confines
from pipeweave.orchestrator.diagnosis.doctor import Severity
from pipeweave.settings import Settings


def test_a_machine_that_can_confine_is_fine() -> None:
    assert confines(Settings(), lambda: None).level is Severity.OK


def test_a_machine_that_cannot_confine_is_named_with_the_reason() -> None:
    verdict = confines(Settings(), lambda: "Landlock is missing: Linux 5.13 brought it")
    assert verdict.level is Severity.WARNING
    assert verdict.line.endswith("Landlock is missing: Linux 5.13 brought it")
    assert verdict.hint is not None and "sandbox" in verdict.hint
