"""Large inputs and very many references."""

from __future__ import annotations

from typing import Any

from pipeweave.conformance.check import ContractCheck
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.verdicts import ContractVerdict, passed

LARGE_BYTES = 5_000_000
REFERENCES = 1_000
# The references name so many different objects.
_OBJECTS = 10


def large_input(stage: Stage) -> ContractVerdict:
    """Dispatch a run whose input is a large object: the same JSON, followed by spaces."""
    run = stage.new_run()
    path = str(stage.body(run)["inputPath"])
    stage.objects.put_json(path, stage.options.task.input, padding=LARGE_BYTES)
    url: dict[str, Any] = {"inputUrl": stage.objects.url(path, "GET")} if stage.uses_urls else {}
    outcome = stage.carry_out(run, inputPath=path, **url)
    return outcome.trouble() or passed(f"completed with an input of {LARGE_BYTES // 1_000_000} MB")


def many_references(stage: Stage) -> ContractVerdict:
    """Dispatch a run with as many predecessors as a dispatch can name."""
    run = stage.new_run()
    paths = [f"runs/{stage.new_run().run_id}/output.json" for _ in range(_OBJECTS)]
    for number, path in enumerate(paths):
        stage.objects.put_json(path, {"number": number})
    references = {f"step-{number}": stage.reference(paths[number % _OBJECTS]) for number in range(REFERENCES)}
    # A worker may read them one after another.
    outcome = stage.carry_out(run, patience=4, upstreamRefs=references)
    return outcome.trouble() or passed(f"completed with {REFERENCES:,} references")


CHECKS = (
    ContractCheck("large-input", "an input of 5 MB can be read", large_input),
    ContractCheck(
        "many-references", f"{REFERENCES:,} references to earlier steps can be taken", many_references
    ),
)
