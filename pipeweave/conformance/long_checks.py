"""Tasks that run for a while, fail, or go on elsewhere: heartbeats, cancellation, failures, pending work."""

from __future__ import annotations

import time

from pipeweave.conformance import reports
from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.journal import RequestKind
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, skipped, warned

# A first heartbeat that comes this much after the interval was meant in time.
_LATE = 1.25
_GIVE_SLOW = "name one that runs for more than two of its intervals with --slow-task and --slow-input"


def heartbeat(stage: Stage) -> ContractVerdict:
    """Wait for the first heartbeat of a long run."""
    trial = stage.options.slow_task
    if trial is None or trial.task_id is None:
        return skipped("no slow task is named", _GIVE_SLOW)
    interval = stage.interval_s(trial.task_id)
    if interval * 2 > stage.options.patience_s:
        return skipped(
            f"{trial.task_id} registered an interval of {interval:g} s, which takes too long to wait for",
            "register it with a heartbeatIntervalMs of a second, or give --patience",
        )
    run = stage.new_run(trial.task_id)
    started = time.monotonic()
    answer = stage.send(run, trial)
    if not answer.is_taken:
        return failed(f"the dispatch was answered: {answer.said()}", "answer 202")
    beats = stage.journal.wait(
        RequestKind.HEARTBEAT, run.run_id, seconds=interval * 2, until=lambda: run.settled is not None
    )
    if not beats and run.settled is not None:
        return skipped(f"{trial.task_id} ended before a heartbeat was due", _GIVE_SLOW)
    run.should_cancel = True
    stage.report_of(run)
    if not beats:
        return failed(
            f"none came within {interval * 2:g} s: the attempt would be declared lost",
            "post a heartbeat at half of heartbeatIntervalMs, from the beginning",
        )
    if faults := [fault for each in beats for fault in reports.heartbeat_faults(each.body)]:
        return failed(faults[0], "send {} or {progress, message}")
    first = beats[0].at - started
    if first > interval * _LATE:
        return warned(f"the first came after {first:.1f} s, the interval is {interval:g} s", "begin at once")
    return passed(f"the first came after {first:.1f} s, the interval is {interval:g} s")


def cancellation(stage: Stage) -> ContractVerdict:
    """Answer the heartbeats of a long run that it should end."""
    trial = stage.options.slow_task
    if trial is None or trial.task_id is None:
        return skipped("no slow task is named", _GIVE_SLOW)
    interval = stage.interval_s(trial.task_id)
    run = stage.new_run(trial.task_id)
    run.should_cancel = True
    answer = stage.send(run, trial)
    beats = stage.journal.wait(
        RequestKind.HEARTBEAT, run.run_id, seconds=interval * 2, until=lambda: run.settled is not None
    )
    if not answer.is_taken or not beats:
        return skipped("no heartbeat came that could be answered")
    report = stage.report_of(run)
    if isinstance(report, dict) and report.get("status") == "success":
        return warned(
            "it worked on to the end", "stop the work when a heartbeat is answered shouldCancel: true"
        )
    later = stage.journal.wait(RequestKind.HEARTBEAT, run.run_id, seconds=stage.options.quiet_s, count=10**9)
    if report is None and [each for each in later if each.at > time.monotonic() - interval]:
        return warned("it went on with its heartbeats", "stop the work, and report a failure with CANCELLED")
    return passed("it reported a failure" if report is not None else "it went silent")


def failing_task(stage: Stage) -> ContractVerdict:
    """Dispatch a task that fails."""
    trial = stage.options.failing_task
    if trial is None or trial.task_id is None:
        return skipped("no failing task is named", "name one with --failing-task and --failing-input")
    run = stage.new_run(trial.task_id)
    outcome = stage.carry_out(run, trial)
    if trouble := outcome.trouble("a failure"):
        return trouble
    if outcome.is_success:
        return failed("reported a success", "report status failed when the work raises an error")
    if faults := reports.faults(outcome.report, run.run_id, []):
        return failed(faults[0], "send the report in the form that docs/http-workers.md says")
    if not stage.is_alive():
        return failed("the worker ended", "catch what a task raises")
    return passed(outcome.said())


def pending_task(stage: Stage) -> ContractVerdict:
    """Dispatch a task whose work goes on elsewhere."""
    trial = stage.options.pending_task
    if trial is None or trial.task_id is None:
        return skipped("no pending task is named", "name one with --pending-task and --pending-input")
    run = stage.new_run(trial.task_id)
    outcome = stage.carry_out(run, trial)
    if trouble := outcome.trouble("a pending attempt"):
        return trouble
    if not isinstance(outcome.report, dict) or outcome.report.get("status") != "pending":
        return failed(outcome.said(), "report status pending with callbackUrl or pollUrl")
    if faults := reports.faults(outcome.report, run.run_id, []):
        return failed(faults[0], "send the report in the form that docs/http-workers.md says")
    polls = outcome.report.get("pollUrl") is not None
    return passed("it waits for a poll" if polls else "it waits for a callback")


CHECKS = (
    ContractCheck(
        "failing-task", "work that fails is reported as failed, with a text", failing_task, need=Need.WORKER
    ),
    ContractCheck(
        "pending-task",
        "work that goes on elsewhere is reported as pending, with a callback or a URL to poll",
        pending_task,
        need=Need.WORKER,
    ),
    ContractCheck("heartbeat", "the first heartbeat comes within the interval", heartbeat, need=Need.WORKER),
    ContractCheck(
        "cancellation",
        "shouldCancel in the answer to a heartbeat ends the work",
        cancellation,
        need=Need.WORKER,
    ),
)
