"""The registration, a dispatch, its report and what the report names in storage."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeweave.conformance import registration as rules
from pipeweave.conformance import reports
from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.dispatching import ANSWER_S
from pipeweave.conformance.journal import RequestKind
from pipeweave.conformance.stage import DispatchOutcome, Stage
from pipeweave.conformance.stand_in import DispatchedRun
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, skipped, warned

AT_ONCE = 8
# Dispatches that were refused with 429 are sent again so often.
_ROUNDS = 10


def registration(stage: Stage) -> ContractVerdict:
    """Look at every field of the registration."""
    document = stage.registration
    if isinstance(document, dict) and not document.get("tasks"):
        return failed("no task is registered", "register at least one task")
    if faults := rules.faults(document):
        return failed(_listed(faults), "send each field in the form and unit that docs/http-workers.md says")
    if doubtful := rules.doubts(document):
        return warned(_listed(doubtful), "check the unit or the spelling")
    access = "presigned URLs" if stage.uses_urls else f"tokens ({document.get('tokenFormat', 'sdk')})"
    (registered, *_) = stage.journal.of(RequestKind.REGISTRATION)
    names = ", ".join(stage.tasks)[:80]
    return passed(f"POST {registered.path} by {document['serviceId']}: {names}; storage by {access}")


def credentials(stage: Stage) -> ContractVerdict:
    """Look whether the registration carried the token that the orchestrator's URL has."""
    (registered, *_) = stage.journal.of(RequestKind.REGISTRATION)
    if registered.has_credential:
        return passed("the registration carried the token of the orchestrator's URL")
    return failed(
        "the registration carried no token: an orchestrator would answer 401",
        "append /api/… to the orchestrator's URL as it is given; or send the token as a bearer token",
    )


def health(stage: Stage) -> ContractVerdict:
    """Ask for the worker's health."""
    answer = stage.door.health()
    if answer.is_taken:
        return passed(f"answered {answer.said()}")
    if answer.status is None:
        return failed(
            f"{stage.door.base_url}: {answer.problem}", "give the URL at which the kit can reach the worker"
        )
    return warned(f"answered {answer.said()}", "answer GET /health with 200: a worker is probed there")


def dispatch(stage: Stage) -> ContractVerdict:
    """Dispatch a run whose report is not answered before the dispatch is."""
    run = stage.new_run()
    with run.held():
        answer = stage.send(run)
        has_reported = bool(stage.journal.of(RequestKind.REPORT, run.run_id))
    if answer.is_taken and answer.seconds < ANSWER_S:
        stage.report_of(run)
        return passed(f"acknowledged with {answer.said()}")
    if answer.status is None and has_reported:
        return failed(
            "answered only when the work was done",
            "answer 202 first and do the work afterwards: after 5 s without an answer the attempt is lost",
        )
    return failed(f"was answered: {answer.said()}", "answer a valid dispatch with 202 within 5 s")


def report(stage: Stage) -> ContractVerdict:
    """Look at the report of a run."""
    run = stage.new_run()
    outcome = stage.carry_out(run)
    if outcome.report is None:
        return _without_report(stage, outcome)
    allowed_next = stage.tasks.get(run.task_id, {}).get("allowedNext", [])
    if faults := reports.faults(outcome.report, run.run_id, allowed_next):
        return failed(_listed(faults), "send the report in the form that docs/http-workers.md says")
    if not outcome.is_success:
        return failed(outcome.said(), "choose a task and an input that succeed with --task and --input")
    stage.sample = run, outcome.report
    (first, *_) = stage.reports(run, 1)
    return passed(f"POST {first.path.replace(run.run_id, '…')}: success")


def _without_report(stage: Stage, outcome: DispatchOutcome) -> ContractVerdict:
    strays = [each.run_id for each in stage.journal.of(RequestKind.STRAY) if each.run_id]
    if strays:
        return failed(
            f"no report came for the run, but one for {strays[-1][:60]!r}, which was not dispatched",
            "repeat the runId of the dispatch as it is",
        )
    if stage.has_ended:
        return failed("the worker ended", "see what it printed")
    return failed(outcome.said(), "report to {orchestratorUrl}/api/task-runs/{runId}/complete; or --patience")


def output(stage: Stage) -> ContractVerdict:
    """Look at the stored output."""
    _, document = _sample(stage)
    if "outputPath" not in document:
        return passed("the report has the output itself")
    if faults := reports.output_faults(document, stage.objects):
        return failed(_listed(faults), "write the output as JSON before the report is sent")
    return passed(f"{str(document['outputPath']).rpartition('/')[2]} is stored")


def assets(stage: Stage) -> ContractVerdict:
    """Look at the stored assets."""
    run, document = _sample(stage)
    if not document.get("assets"):
        return skipped("the task has no assets")
    if faults := reports.asset_faults(document, run.run_id, stage.objects):
        return failed(
            _listed(faults), "store each asset below runs/{runId}/assets/ and report its size in bytes"
        )
    return passed(f"stored: {', '.join(document['assets'])[:80]}")


def logs(stage: Stage) -> ContractVerdict:
    """Look at the stored log."""
    run, document = _sample(stage)
    path = document.get("logsPath")
    if path is None:
        return skipped("the report names no log")
    # A worker need not wait for its log before it reports.
    content = stage.wait_for_object(str(path))
    if content is None:
        return warned("there is no object at logsPath", "write the log, or leave logsPath out")
    if faults := reports.log_faults(content, run.run_id):
        return warned(_listed(faults), "write JSON lines with timestamp, level, runId and message")
    return passed(f"stored, with lines: {len(content.splitlines())}")


def next_attempt(stage: Stage) -> ContractVerdict:
    """Dispatch a second attempt, with the story of the first."""
    run = stage.new_run(attempt=2)
    story = {
        "attempt": 1,
        "error": "the kit says so",
        "errorCode": "DISPATCH_FAILED",
        "timestamp": "2026-11-22T12:00:00.000Z",
    }
    outcome = stage.carry_out(run, previousAttempts=[story])
    return outcome.trouble() or passed("completed and reported under its own runId")


def upstream(stage: Stage) -> ContractVerdict:
    """Dispatch a run with two predecessors."""
    run = stage.new_run()
    references = {}
    for name in ("first", "second"):
        path = f"runs/{stage.new_run().run_id}/output.json"
        stage.objects.put_json(path, {"step": name})
        references[name] = stage.reference(path)
    outcome = stage.carry_out(run, upstreamRefs=references)
    return outcome.trouble() or passed("completed with the outputs of two steps before it")


def concurrent(stage: Stage) -> ContractVerdict:
    """Dispatch several runs at once."""
    waiting = [stage.new_run() for _ in range(AT_ONCE)]
    for _ in range(_ROUNDS):
        with ThreadPoolExecutor(AT_ONCE) as threads:
            answers = list(threads.map(stage.send, waiting))
        refused = [each.said() for each in answers if not each.is_taken and each.status != 429]
        if refused:
            return failed(
                f"{len(refused)} of {AT_ONCE} were answered: {refused[0]}", "answer 202, or 429 when full"
            )
        taken = [run for run, each in zip(waiting, answers, strict=True) if each.is_taken]
        if missing := _unreported(stage, taken):
            return failed(f"{len(missing)} of {AT_ONCE} runs were not reported", "see what the worker prints")
        waiting = [run for run, each in zip(waiting, answers, strict=True) if not each.is_taken]
        if not waiting:
            return passed(f"{AT_ONCE} runs at once were taken and reported")
    return failed(
        f"{len(waiting)} of {AT_ONCE} were answered 429 again and again", "take runs when others ended"
    )


def _unreported(stage: Stage, runs: Sequence[DispatchedRun]) -> list[DispatchedRun]:
    """The runs that are not reported in the time that one may take."""
    deadline = time.monotonic() + stage.options.patience_s
    return [run for run in runs if stage.report_of(run, max(deadline - time.monotonic(), 0)) is None]


def _sample(stage: Stage) -> tuple[DispatchedRun, Mapping[str, Any]]:
    assert stage.sample is not None
    return stage.sample


def _listed(texts: Sequence[str]) -> str:
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    return f"{texts[0]}{more}"


CHECKS = (
    ContractCheck(
        "registration",
        "the service registers with every field in its form and unit",
        registration,
        need=Need.NOTHING,
    ),
    ContractCheck(
        "credentials",
        "requests go below the orchestrator's URL as it was given, with its token",
        credentials,
        need=Need.NOTHING,
    ),
    ContractCheck("health", "GET /health answers 200", health, need=Need.NOTHING),
    ContractCheck(
        "dispatch",
        "a dispatch is answered with 202 within 5 s, before the work is done",
        dispatch,
        need=Need.WORKER,
    ),
    ContractCheck("report", "the end of the work is reported in the right form", report, need=Need.WORKER),
    ContractCheck("output", "the output is stored as JSON before it is reported", output),
    ContractCheck("assets", "what the report lists as assets is stored", assets),
    ContractCheck("logs", "the log is stored as JSON lines", logs),
    ContractCheck("next-attempt", "a second attempt is done and reported under its own runId", next_attempt),
    ContractCheck("upstream", "outputs of earlier steps can be read", upstream),
    ContractCheck(
        "concurrent", f"{AT_ONCE} runs at once are taken, or answered 429 when it is full", concurrent
    ),
)
