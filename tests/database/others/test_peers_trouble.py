"""Trouble that other engines had with waits and signals, by the number of their issue, and what happens here.

The sentence of each test says what went wrong there. What is proved thoroughly elsewhere is shown here once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from support.stubbed_runs import StubbedRuns

from pipeweave import Context, Suspend, TaskError
from pipeweave.errors import NotFound
from pipeweave.orchestrator.waits import callback_urls

SIGNAL = {"id": "paid", "steps": [{"id": "paid", "signal": "paid"}]}


def put(runs: StubbedRuns, *steps: dict[str, Any], id: str = "trouble", **document: Any) -> None:
    """Store a pipeline of these steps."""
    runs.put({"id": id, "steps": list(steps), **document})


def begin(runs: StubbedRuns, *steps: dict[str, Any], input: Any = None, **document: Any) -> Any:
    """Store a pipeline of these steps, and begin a run of it."""
    put(runs, *steps, **document)
    return runs.begin("trouble", input)


def fail() -> None:
    raise TaskError("it broke", code="BROKEN")


# --- Temporal ---------------------------------------------------------------------------------------------


def test_temporal_1289_and_4137_a_stream_of_signals_does_not_keep_a_loop_from_its_next_round(
    runs: StubbedRuns,
) -> None:
    """There, each signal that came while a run went into its continuation made it try anew, without end."""
    runs.put(SIGNAL)
    rounds = {"pipeline": "paid", "maxIterations": 12, "collect": True}
    run_id = begin(runs, {"id": "first", "signal": "begin"}, {"id": "taken", "loop": rounds})
    for number in range(9):
        runs.signal(run_id, "paid", number)
    runs.signal(run_id, "begin")
    for number in range(9, 12):
        runs.signal(run_id, "paid", number)
    status, taken = runs.outcome(run_id)
    assert (status, [each["payload"] for each in taken]) == ("completed", list(range(12)))


_MANY_TAKEN = """
INSERT INTO signals (run_id, id, tenant_id, name, payload, size, sent_at, once, taken_by, taken_at)
SELECT :run_id, gen_random_uuid(), :tenant, 'paid', '1', 1, now(), CAST(n AS text), :run_id, now()
FROM generate_series(1, 12000) AS n RETURNING 1
"""


def test_temporal_10941_a_run_may_take_any_number_of_signals_in_its_life(runs: StubbedRuns) -> None:
    """There, a run took 10,000 signals in all, unwarned. Here, what was taken counts no more."""
    run_id = begin(runs, {"id": "last", "signal": "paid"})
    parameters = {"run_id": run_id, "tenant": runs.driver.tenant}
    assert len(runs.driver.rows(_MANY_TAKEN, **parameters)) == 12_000
    runs.signal(run_id, "paid", "the last one")
    assert runs.outcome(run_id)[1]["payload"] == "the last one"


# --- Kestra -----------------------------------------------------------------------------------------------


def test_kestra_1223_every_branch_of_a_map_ends_its_own_sleep(runs: StubbedRuns) -> None:
    """There, of several pauses in a parallel loop only the first one ended."""
    put(runs, {"id": "rest", "sleep": "1s"}, {"id": "log", "transform": "${input}"}, id="each")
    run_id = begin(runs, {"id": "all", "pipeline": "each", "map": {"over": ["toto", "tata", "titi"]}})
    runs.wait(seconds=2)
    assert runs.outcome(run_id) == ("completed", ["toto", "tata", "titi"])


@pytest.mark.parametrize("levels", [1, 3])
def test_kestra_7506_a_run_ends_when_the_run_that_it_waits_for_has_ended(
    runs: StubbedRuns, levels: int
) -> None:
    """There, the message that a child had ended was lost, and its parent waited for ever."""
    runs.serve(work=lambda: "done")
    put(runs, {"id": "work", "task": "work"}, id="level-0")
    for level in range(levels):
        put(runs, {"id": "call", "pipeline": f"level-{level}"}, id=f"level-{level + 1}")
    assert runs.outcome(runs.begin(f"level-{levels}")) == ("completed", "done")


def test_kestra_8609_a_map_ends_with_its_last_child(runs: StubbedRuns) -> None:
    """There, it stayed open for minutes. Here nothing has to become due: no tick looks, no time passes."""
    runs.serve(work=lambda input: input, after=lambda: "after")
    put(runs, {"id": "work", "task": "work"}, id="each")
    mapped = {"id": "all", "pipeline": "each", "map": {"over": list(range(12)), "maxParallel": 3}}
    run_id = begin(runs, mapped, {"id": "after", "task": "after"})
    assert runs.outcome(run_id) == ("completed", "after")


def test_kestra_10866_a_map_has_the_outputs_of_all_children_though_nobody_told_it_of_their_ends(
    runs: StubbedRuns,
) -> None:
    """There, children were counted by messages, and with one too few the outputs were missing."""
    runs.serve(work=lambda input: input * 2)
    put(runs, {"id": "work", "task": "work"}, id="each")
    put(runs, {"id": "all", "pipeline": "each", "map": {"over": [1, 2, 3, 4]}})
    react = runs.driver.database.react
    run_id = runs.driver.trigger("trouble")
    runs.driver.database.react = lambda fact: ()
    runs.worker.consume_all()
    runs.driver.database.react = react
    assert runs.outcome(run_id)[0] == "running"
    runs.wait(seconds=1)
    assert runs.outcome(run_id) == ("completed", [2, 4, 6, 8])


def test_kestra_9319_the_time_limit_of_a_wait_is_over_with_the_wait(runs: StubbedRuns) -> None:
    """There, a pause that had been resumed failed the run when its time was over."""
    run_id = begin(
        runs, {"id": "go", "signal": {"name": "go", "timeout": "1m"}}, {"id": "work", "sleep": "10m"}
    )
    runs.signal(run_id, "go")
    runs.wait(minutes=2)
    assert runs.driver.statuses(run_id) == {"go": "completed", "work": "waiting"}
    runs.wait(minutes=10)
    assert runs.outcome(run_id)[0] == "completed"


def test_kestra_9416_what_follows_a_tolerated_wait_runs_when_nothing_came(runs: StubbedRuns) -> None:
    """There, it did not run, with a condition and without one."""
    runs.serve(log=lambda: "logged")
    run_id = begin(
        runs,
        {"id": "go", "signal": {"name": "go", "timeout": "1s"}, "continueOnError": True},
        {"id": "if_late", "task": "log", "condition": "status.go == 'timeout'"},
        {"id": "always", "task": "log"},
    )
    runs.wait(seconds=2)
    assert runs.outcome(run_id) == ("completed", "logged")
    assert len(runs.calls("log")) == 2


def test_kestra_9794_a_wait_that_is_over_leads_to_the_steps_that_are_meant_for_it(runs: StubbedRuns) -> None:
    """There, the steps for errors did not run when the time of a pause was over."""
    runs.serve(escalate=lambda code: code)
    escalate = {"id": "escalate", "task": "escalate", "params": {"code": "${error.code}"}}
    run_id = begin(
        runs,
        {"id": "go", "signal": {"name": "go", "timeout": "5s"}, "onError": [escalate]},
        {"id": "after", "transform": "${steps.go}"},
    )
    runs.wait(seconds=6)
    assert runs.outcome(run_id) == ("completed", "WAIT_TIMEOUT")
    assert runs.called == [("escalate", {"code": "WAIT_TIMEOUT"})]


@pytest.mark.parametrize(("handled", "status"), [(True, "completed"), (False, "failed")])
def test_kestra_2111_a_run_whose_error_is_handled_comes_to_an_end(
    runs: StubbedRuns, handled: bool, status: str
) -> None:
    """There, a graph with a failing task and a handler never ended."""
    runs.serve(fail=fail, log=lambda text: text)
    handler = {"steps": [{"id": "error", "task": "log", "params": {"text": "error"}}], "handled": handled}
    run_id = begin(
        runs,
        {"id": "failing", "task": "fail"},
        {"id": "after", "task": "log", "params": {"text": "after"}},
        errorHandlers=[handler],
    )
    assert runs.outcome(run_id)[0] == status
    assert [each["text"] for each in runs.calls("log")] == (["error", "after"] if handled else ["error"])


@pytest.mark.parametrize("end", ["cancelled", "failed", "completed"])
def test_kestra_9852_what_comes_finally_comes_after_a_cancel_too(runs: StubbedRuns, end: str) -> None:
    """There, it came after success and failure, but not for a run that somebody had stopped."""
    runs.serve(alert=lambda outcome: outcome, fail=fail)
    alert = {"id": "alert", "task": "alert", "params": {"outcome": "${run.outcome}"}}
    first = {"id": "go", "signal": "go"}
    run_id = begin(
        runs,
        first,
        {"id": "maybe", "task": "fail", "condition": "input.fails"},
        input={"fails": end == "failed"},
        **{"finally": [alert]},
    )
    if end == "cancelled":
        runs.cancel(run_id)
    else:
        runs.signal(run_id, "go")
    assert runs.outcome(run_id)[0] == end
    assert runs.calls("alert") == [{"outcome": end}]


def test_kestra_10155_a_run_that_has_had_its_end_goes_on_from_where_it_failed(runs: StubbedRuns) -> None:
    """There, the restart saw that the last block was done, and ended the run at once."""
    runs.serve(fail=fail, log=lambda: "logged", end=lambda: "end")
    run_id = begin(
        runs,
        {"id": "fail_here", "task": "fail"},
        {"id": "log", "task": "log"},
        **{"finally": [{"id": "end", "task": "end"}]},
    )
    assert runs.outcome(run_id)[0] == "failed"
    runs.serve(fail=lambda: "mended", log=lambda: "logged", end=lambda: "end")
    runs.retry(run_id)
    assert runs.outcome(run_id) == ("completed", "logged")
    assert len(runs.calls("end")) == 2


# --- Inngest and Hatchet ----------------------------------------------------------------------------------


def test_inngest_1433_a_signal_right_after_the_trigger_is_not_too_early(runs: StubbedRuns) -> None:
    """There, an event that came before its wait was open never ended it, and the wait timed out."""
    runs.put(SIGNAL)
    run_id = runs.driver.trigger("paid")
    runs.signal(run_id, "paid", 7)
    assert runs.outcome(run_id)[1]["payload"] == 7
    slow = begin(runs, {"id": "slow", "sleep": "1m"}, {"id": "paid", "signal": "paid"})
    runs.signal(slow, "paid", 8)
    runs.wait(minutes=2)
    assert runs.outcome(slow)[1]["payload"] == 8


def test_inngest_2423_the_step_behind_a_wait_runs_as_soon_as_the_signal_is_stored(runs: StubbedRuns) -> None:
    """There, minutes went by. Here nothing has to become due: no tick looks, and no time passes."""
    runs.serve(work=lambda: "done")
    run_id = begin(runs, {"id": "paid", "signal": "paid"}, {"id": "work", "task": "work"})
    runs.signal(run_id, "paid")
    assert runs.outcome(run_id) == ("completed", "done")


def test_inngest_js_1617_the_first_of_several_signals_leaves_no_other_wait_behind(runs: StubbedRuns) -> None:
    """There, the waits that lost kept the run open until their time was over."""
    run_id = begin(runs, {"id": "end", "signal": {"names": ["completed", "error"], "timeout": "7d"}})
    runs.signal(run_id, "error", "too many")
    assert runs.outcome(run_id)[1]["name"] == "error"
    assert runs.driver.rows("SELECT 1 FROM waits WHERE run_id = :id", id=run_id) == []


def test_hatchet_3442_a_signal_may_be_any_time_older_than_its_wait(runs: StubbedRuns) -> None:
    """There, a wait had to be told how far it should look back."""
    run_id = begin(runs, {"id": "slow", "sleep": "30d"}, {"id": "paid", "signal": "paid"})
    runs.signal(run_id, "paid", "early")
    runs.wait(days=31)
    assert runs.outcome(run_id)[1]["payload"] == "early"


# --- Airflow, n8n and Prefect -----------------------------------------------------------------------------


def test_airflow_55866_the_time_of_an_approval_begins_when_it_is_asked_for(runs: StubbedRuns) -> None:
    """There, it began with the task, and a slow notification used it up before anybody was asked."""
    approval = {"title": "Ship?", "timeout": "1m"}
    run_id = begin(runs, {"id": "notify", "sleep": "10m"}, {"id": "ok", "approval": approval})
    runs.wait(minutes=11)
    assert runs.step(run_id, "ok") == "waiting"
    runs.wait(seconds=50)
    runs.vote(run_id, "ok")
    assert runs.outcome(run_id)[0] == "completed"


def test_n8n_17566_and_19219_nobody_can_make_a_url_that_reports_for_another_attempt(
    runs: StubbedRuns,
) -> None:
    """There, it was not signed at first, and then the run's id alone, so it fitted all waits of a run."""
    urls: list[str] = []

    def ask(ctx: Context) -> Suspend:
        urls.append(ctx.callback_url)
        return Suspend.callback()

    runs.serve(ask=ask)
    run_id = begin(runs, {"id": "ask", "task": "ask"})
    task_run, attempt, expiry, signature = urls[0].rpartition("/")[2].split(".")
    for token in (
        f"{task_run}.{attempt}.{expiry}",
        f"{task_run}.2.{expiry}.{signature}",
        f"{task_run}.{attempt}.{int(expiry) + 1}.{signature}",
        f"{task_run[:-1]}0.{attempt}.{expiry}.{signature}",
    ):
        with pytest.raises(NotFound):
            callback_urls.read(runs.settings, token)
    runs.report(urls[0], "fine")
    assert runs.outcome(run_id) == ("completed", "fine")


def test_n8n_13856_a_wait_of_five_seconds_ends_after_five_seconds(runs: StubbedRuns) -> None:
    """There, it ended after sixty."""
    run_id = begin(runs, {"id": "go", "signal": {"name": "go", "timeout": "5s", "default": "nothing came"}})
    runs.wait(seconds=4.8)
    assert runs.step(run_id, "go") == "waiting"
    runs.wait(seconds=0.3)
    assert runs.outcome(run_id) == ("completed", "nothing came")


def test_n8n_33643_what_waits_goes_on_as_it_began_although_everything_else_is_newer(
    runs: StubbedRuns,
) -> None:
    """There, runs that waited for people could not be resumed after some days."""
    runs.serve(work=lambda: "old code")
    run_id = begin(runs, {"id": "ok", "approval": {"title": "Go on?"}}, {"id": "work", "task": "work"})
    put(runs, {"id": "another", "task": "work"})
    runs.serve(work=lambda: "new code")
    runs.wait(days=6)
    runs.vote(run_id, "ok")
    assert runs.outcome(run_id) == ("completed", "new code")
    assert list(runs.driver.statuses(run_id)) == ["ok", "work"]


def test_prefect_11683_a_run_sleeps_until_a_moment_and_goes_on(runs: StubbedRuns) -> None:
    """There, the end of a pause's time could only fail the run."""
    at = runs.clock() + timedelta(hours=1)
    run_id = begin(runs, {"id": "sleep", "sleepUntil": "${input.at}"}, input={"at": at.isoformat()})
    runs.wait(minutes=59)
    assert runs.step(run_id, "sleep") == "waiting"
    runs.wait(minutes=2)
    assert runs.outcome(run_id)[0] == "completed"


def test_prefect_20388_nothing_starts_after_a_pause_that_came_while_a_step_ran(runs: StubbedRuns) -> None:
    """There, the run was shown as suspended, and its next tasks ran all the same."""
    runs.serve(first=lambda: runs.pause(run_id), second=lambda: "second")
    put(runs, {"id": "first", "task": "first"}, {"id": "second", "task": "second"})
    run_id = runs.driver.trigger("trouble")
    runs.worker.consume_all()
    assert runs.driver.statuses(run_id) == {"first": "completed", "second": "ready"}
    assert runs.calls("second") == []
    runs.resume(run_id)
    assert runs.outcome(run_id) == ("completed", "second")
