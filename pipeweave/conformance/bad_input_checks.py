"""Requests that are not valid, and objects and tokens that cannot be used."""

from __future__ import annotations

from typing import Any

from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.dispatching import WorkerReply, encoded
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, skipped, warned

HUGE_BYTES = 48 * 1024 * 1024
_UNKNOWN_TASK = "no-such-task-of-the-kit"
_LIVE_ON = "catch the error of the parser, answer 400, and go on"


def unknown_task(stage: Stage) -> ContractVerdict:
    """Dispatch a task that was not registered."""
    run = stage.new_run(_UNKNOWN_TASK)
    answer = stage.send(run)
    if answer.status == 404:
        return passed(f"answered {answer.said()}")
    if answer.is_refused:
        return warned(f"answered {answer.said()}", "answer 404 for a task that it does not have")
    return failed(f"answered: {answer.said()}", "answer 404 for a task that it does not have")


def missing_input(stage: Stage) -> ContractVerdict:
    """Dispatch a run whose input was never stored."""
    run = stage.new_run()
    path = f"pipelines/{run.run_id}/input.json"
    changes = {"inputPath": path, **_url_of(stage, path)}
    outcome = stage.carry_out(run, **changes)
    if trouble := outcome.trouble("a failure"):
        return trouble
    if outcome.is_success:
        return warned("completed without its input", "report a failure if the input cannot be read")
    return passed(outcome.said())


def forged_token(stage: Stage) -> ContractVerdict:
    """Dispatch a run with a token that another secret sealed."""
    if stage.uses_urls:
        return skipped("the worker uses URLs")
    return _refused_token(stage, stage.token(secret="not the secret of this worker, but another"))


def expired_access(stage: Stage) -> ContractVerdict:
    """Dispatch a run whose token, or whose URL, has expired."""
    if not stage.uses_urls:
        return _refused_token(stage, stage.token(seconds=-600))
    run = stage.new_run()
    path = str(stage.body(run)["inputPath"])
    outcome = stage.carry_out(run, inputPath=path, inputUrl=stage.objects.url(path, "GET", seconds=-600))
    if trouble := outcome.trouble("an end"):
        return trouble
    return passed(outcome.said())


def _refused_token(stage: Stage, token: str) -> ContractVerdict:
    run = stage.new_run()
    outcome = stage.carry_out(run, storageToken=token)
    if trouble := outcome.trouble("a failure"):
        return trouble
    if outcome.is_success:
        return warned("it was used, and the run completed", "check the token's exp, and report INVALID_TOKEN")
    if outcome.error_code != "INVALID_TOKEN":
        return warned(outcome.said(), "report errorCode INVALID_TOKEN for a token that cannot be used")
    return passed(outcome.said())


def _url_of(stage: Stage, path: str) -> dict[str, Any]:
    return {"inputUrl": stage.objects.url(path, "GET")} if stage.uses_urls else {}


def not_json(stage: Stage) -> ContractVerdict:
    """Send a body that is not JSON."""
    return _malformed(stage, b"{ this is not JSON")


def wrong_types(stage: Stage) -> ContractVerdict:
    """Send fields of wrong types."""
    body = {**stage.body(stage.new_run()), "runId": 5, "inputPath": ["no", "path"], "upstreamRefs": "none"}
    return _malformed(stage, encoded(body))


def no_object(stage: Stage) -> ContractVerdict:
    """Send JSON that is no object."""
    return _malformed(stage, b"[1, 2, 3]")


def truncated(stage: Stage) -> ContractVerdict:
    """Hang up in the middle of a body."""
    run = stage.new_run()
    problem = stage.door.broken_off(run.task_id, encoded(stage.body(run)))
    if not stage.survives():
        return failed("the worker ended or hangs", _LIVE_ON)
    return passed(f"the worker goes on{f' ({problem})' if problem else ''}")


def huge(stage: Stage) -> ContractVerdict:
    """Send far more than a dispatch can have."""
    run = stage.new_run()
    body = encoded({**stage.body(run), "previousAttempts": "x" * HUGE_BYTES})
    return _malformed(stage, body, may_hang_up=True)


def _malformed(stage: Stage, body: bytes, *, may_hang_up: bool = False) -> ContractVerdict:
    answer = stage.door.signed(stage.task_id, body)
    if not (stage.is_alive() if answer.is_refused else stage.survives()):
        return failed(f"the worker ended or hangs ({answer.said()})", _LIVE_ON)
    if answer.is_refused or (may_hang_up and answer.status is None):
        return passed(f"answered: {answer.said()}")
    return _not_refused(answer)


def _not_refused(answer: WorkerReply) -> ContractVerdict:
    if answer.is_taken:
        return warned(
            f"was taken with {answer.said()}", "look at the body before it is taken, and answer 400"
        )
    return warned(f"answered: {answer.said()}", "answer 400: what is answered with 5xx is sent again")


CHECKS = (
    ContractCheck(
        "unknown-task", "a task that it does not have is answered 404", unknown_task, need=Need.WORKER
    ),
    ContractCheck("missing-input", "a run whose input is not there is reported as failed", missing_input),
    ContractCheck(
        "forged-token", "a token of another secret leads to a failure with code INVALID_TOKEN", forged_token
    ),
    ContractCheck("expired-access", "a token or URL that has expired leads to a failure", expired_access),
)
# They come last: a worker may end.
BODIES = (
    ContractCheck("wrong-types", "fields of wrong types are answered 400", wrong_types, need=Need.WORKER),
    ContractCheck("no-object", "JSON that is no object is answered 400", no_object, need=Need.WORKER),
    ContractCheck("truncated", "a body that breaks off does not disturb it", truncated, need=Need.WORKER),
    ContractCheck("huge", "a body of 48 MB is refused with 413, or cut", huge, need=Need.WORKER),
    ContractCheck("not-json", "a body that is not JSON is answered 400", not_json, need=Need.WORKER),
)
