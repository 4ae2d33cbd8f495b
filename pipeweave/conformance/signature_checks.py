"""Dispatches that are not from the orchestrator."""

from __future__ import annotations

from pipeweave import signatures
from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.dispatching import WorkerReply, encoded
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.stand_in import DispatchedRun
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, warned

_MEND = f"check {signatures.HEADER} before anything else, and answer 401"


def wrong_signature(stage: Stage) -> ContractVerdict:
    """Sign a body and send another one."""
    run = stage.new_run()
    body = encoded(stage.body(run))
    signature = stage.door.signature(stage.door.path_of(run.task_id), body + b" ")
    return _judged(stage, run, stage.door.post(run.task_id, body, {signatures.HEADER: signature}))


def missing_signature(stage: Stage) -> ContractVerdict:
    """Send no signature."""
    run = stage.new_run()
    return _judged(stage, run, stage.door.post(run.task_id, encoded(stage.body(run)), {}))


def old_signature(stage: Stage) -> ContractVerdict:
    """Send what was recorded ten minutes ago."""
    run = stage.new_run()
    body = encoded(stage.body(run))
    path = stage.door.path_of(run.task_id)
    signature = stage.door.signature(path, body, age_s=signatures.MAX_AGE_S * 2)
    return _judged(stage, run, stage.door.post(run.task_id, body, {signatures.HEADER: signature}))


def foreign_path(stage: Stage) -> ContractVerdict:
    """Send what was signed for another task."""
    run = stage.new_run()
    body = encoded(stage.body(run))
    signature = stage.door.signature(stage.door.path_of("another-task"), body)
    return _judged(stage, run, stage.door.post(run.task_id, body, {signatures.HEADER: signature}))


def _judged(stage: Stage, run: DispatchedRun, answer: WorkerReply) -> ContractVerdict:
    if answer.status in (401, 403):
        return passed(f"refused with {answer.said()}")
    if answer.is_taken:
        stage.report_of(run)
        return warned("it was taken and done", _MEND)
    if answer.is_refused:
        return warned(f"refused with {answer.said()}", _MEND)
    return failed(f"was answered: {answer.said()}", _MEND)


CHECKS = (
    ContractCheck(
        "wrong-signature",
        "a dispatch whose body was changed is refused with 401",
        wrong_signature,
        need=Need.WORKER,
    ),
    ContractCheck(
        "missing-signature",
        "a dispatch without a signature is refused with 401",
        missing_signature,
        need=Need.WORKER,
    ),
    ContractCheck(
        "old-signature",
        "a dispatch signed ten minutes ago is refused with 401",
        old_signature,
        need=Need.WORKER,
    ),
    ContractCheck(
        "foreign-path",
        "a dispatch signed for another task is refused with 401",
        foreign_path,
        need=Need.WORKER,
    ),
)
