"""What comes twice or too late, and reports that do not get through."""

from __future__ import annotations

from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.dispatching import encoded
from pipeweave.conformance.journal import RequestKind
from pipeweave.conformance.stage import DispatchOutcome, Stage
from pipeweave.conformance.stand_in import CUT, OUTAGE
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, warned

# The answers 5xx before a report is taken.
OUTAGES = 2
# More reports than these of one run, each refused as too late, are a loop.
_LOOP = 3
_RETRY = "send the report again, with growing pauses, until it is answered with 2xx or 4xx"


def duplicate_dispatch(stage: Stage) -> ContractVerdict:
    """Send one dispatch twice, and once more after its report."""
    run = stage.new_run()
    body = encoded(stage.body(run))
    first, second = (stage.door.signed(run.task_id, body) for _ in range(2))
    outcome = DispatchOutcome(first, stage.report_of(run))
    if trouble := outcome.trouble():
        return trouble
    for again in (second, stage.door.signed(run.task_id, body)):
        if again.is_refused and again.status != 429:
            return failed(
                f"it was answered {again.said()} the next time: the orchestrator would give the attempt up",
                "answer 202 again for a runId that is known",
            )
    reports = stage.reports(run, 2, stage.options.quiet_s)
    if len(reports) > 1:
        return warned(
            f"the run was done and reported {len(reports)} times",
            "remember the runIds that run or were reported, answer 202 again, and do the work once",
        )
    return passed("it was acknowledged each time, and reported once")


def stale_report(stage: Stage) -> ContractVerdict:
    """Refuse a report as too late."""
    run = stage.new_run()
    run.is_stale = True
    outcome = stage.carry_out(run)
    if trouble := outcome.trouble():
        return trouble
    reports = stage.reports(run, _LOOP + 1, stage.options.quiet_s * 2)
    if not stage.is_alive():
        return failed("the worker ended when its report was answered 409", "log a 409 and go on")
    if len(reports) > _LOOP:
        return failed(f"it was sent {len(reports)} times", "a report that is answered 409 is final: drop it")
    if len(reports) > 1:
        return warned(f"it was sent {len(reports)} times", "a report that is answered 409 is final: drop it")
    return passed("the report was dropped, and the worker went on")


def report_outage(stage: Stage) -> ContractVerdict:
    """Answer a report 503 a few times."""
    run = stage.new_run()
    run.refusals += [OUTAGE] * OUTAGES
    outcome = stage.carry_out(run)
    if trouble := outcome.trouble():
        return trouble
    reports = stage.reports(run, OUTAGES + 1)
    if run.settled is None:
        return warned(
            f"it was sent {_times(len(reports))} and then given up: the attempt would run again", _RETRY
        )
    return _settled(run.settled, f"it was sent {_times(len(reports))}, until it was taken")


def report_cut(stage: Stage) -> ContractVerdict:
    """Cut the connection of a report without an answer."""
    run = stage.new_run()
    run.refusals.append(CUT)
    outcome = stage.carry_out(run)
    if trouble := outcome.trouble():
        return trouble
    stage.reports(run, 2)
    if not stage.is_alive():
        return failed("the worker ended when the connection was cut", "catch the error and send again")
    if run.settled is None:
        return warned("it was not sent again: the attempt would run again", _RETRY)
    return _settled(run.settled, "it was sent again and taken")


def _settled(report: object, said: str) -> ContractVerdict:
    """The verdict on the report that was taken after others got lost."""
    if isinstance(report, dict) and report.get("status") == "success":
        return passed(said)
    return warned("a failure was reported for work that was done", f"{_RETRY}; never turn it into a failure")


def strays(stage: Stage) -> ContractVerdict:
    """Look at all requests that no orchestrator would understand."""
    requests = stage.journal.of(RequestKind.STRAY)
    if not requests:
        return passed("every request had its place")
    first = requests[0]
    return warned(
        f"unknown requests: {len(requests)}, the first: {first.method} {first.path[:80]}",
        "use the paths of docs/http-workers.md, and the runId as it was dispatched",
    )


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


CHECKS = (
    ContractCheck(
        "duplicate-dispatch",
        "a dispatch that comes again is acknowledged again, and done once",
        duplicate_dispatch,
    ),
    ContractCheck(
        "stale-report", "a report that is answered 409 is dropped, and the worker goes on", stale_report
    ),
    ContractCheck(
        "report-outage", "a report that is answered 503 is sent again until it is taken", report_outage
    ),
    ContractCheck("report-cut", "a report whose connection breaks is sent again", report_cut),
)
AFTER_ALL_RUNS = (
    ContractCheck("strays", "every request has a place in the protocol", strays, need=Need.NOTHING),
)
