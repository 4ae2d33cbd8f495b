"""A worker that is stopped and started again; only for one that the kit started."""

from __future__ import annotations

from pipeweave.conformance.check import ContractCheck, Need
from pipeweave.conformance.journal import RequestKind
from pipeweave.conformance.stage import Stage
from pipeweave.conformance.verdicts import ContractVerdict, failed, passed, skipped, warned
from pipeweave.conformance.worker_process import STOP_S

_ONLY_OURS = "the kit did not start the worker"
_GIVE_COMMAND = 'start it with --command "…"'


def shutdown(stage: Stage) -> ContractVerdict:
    """Stop the worker while it works."""
    if stage.process is None:
        return skipped(_ONLY_OURS, _GIVE_COMMAND)
    trial = stage.options.slow_task or stage.options.task
    run = stage.new_run(trial.task_id)
    answer = stage.send(run, trial)
    stage.process.terminate()
    code = stage.process.wait()
    if code is None:
        stage.process.kill()
        return failed(f"it did not end within {STOP_S:.0f} s after SIGTERM", "end within 30 s after SIGTERM")
    if answer.is_taken and run.settled is None:
        return warned(
            "it ended without a report of the run that it had taken", "finish what was taken, then end"
        )
    has_left = (
        "and took its instance away" if stage.journal.of(RequestKind.DEPARTURE) else "and finished its work"
    )
    return passed(f"it ended with exit code {code} {has_left}")


def restart(stage: Stage) -> ContractVerdict:
    """Start the worker again."""
    if stage.process is None:
        return skipped(_ONLY_OURS, _GIVE_COMMAND)
    before = stage.registration
    registered = stage.start_again()
    if registered is None:
        return failed("it did not register again", "register at every start")
    changed = sorted(
        name for name, task in stage.tasks.items() if task.get("codeHash") != _hash(before, name)
    )
    if changed or stage.registration.get("serviceId") != before.get("serviceId"):
        return failed(
            f"the same program registered differently ({', '.join(changed) or 'serviceId'})",
            "make codeHash from the source of the task alone, and keep serviceId",
        )
    if stage.sample is None:
        return passed("it registered the same tasks")
    outcome = stage.carry_out(stage.new_run())
    return outcome.trouble() or passed("it registered the same tasks and went on")


def _hash(registration: object, task_id: str) -> object:
    tasks = registration.get("tasks", ()) if isinstance(registration, dict) else ()
    return next((each.get("codeHash") for each in tasks if each.get("id") == task_id), None)


CHECKS = (
    ContractCheck("shutdown", "SIGTERM ends it within 30 s, after what it has taken is reported", shutdown),
    ContractCheck("restart", "the same program registers the same tasks again", restart, need=Need.NOTHING),
)
