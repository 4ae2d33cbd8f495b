"""A process that is killed between the commit of a wait, or of a signal, and its look loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from support.servers import wait_until
from support.waiting_runs import WaitingRuns

from pipeweave.orchestrator.waits import due
from pipeweave.spec.wait_steps import SignalWait

# Both stop where their look would begin, and are killed there.
SEND = """
import sys, time
from uuid import UUID
from pipeweave.orchestrator.state import signals
from pipeweave.orchestrator.state.signals import NewSignal
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import keep_inline

def react(fact):
    return [lambda tx: time.sleep(600)]

run, tenant = UUID(sys.argv[2]), sys.argv[3]
with Database(sys.argv[1], react=react).transaction() as tx:
    signals.send(tx, NewSignal(run, tenant, "paid", keep_inline(7)), event="run.signalled", data="{}")
    tx._after.insert(0, lambda: print("committed", flush=True))
"""


def kill_after_commit(script: str, *arguments: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "committed\n"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("is_before", [True, False], ids=["before the wait", "after it"])
def test_a_sender_that_is_killed_after_its_commit_has_sent(
    isolated_runs: WaitingRuns, is_before: bool
) -> None:
    driver = isolated_runs.driver
    if is_before:
        run_id = isolated_runs.trigger({"paid": SignalWait(("paid",))})
        kill_after_commit(SEND, driver.database.url, str(run_id), driver.tenant)
        isolated_runs.start(run_id)
    else:
        run_id = isolated_runs.begin({"paid": SignalWait(("paid",))})
        kill_after_commit(SEND, driver.database.url, str(run_id), driver.tenant)
        wait_until(lambda: due.run_once(driver.database) == 1, what="nobody looks at the wait")
    assert isolated_runs.output(run_id, "paid")["payload"] == 7
    assert isolated_runs.waits(run_id) == []
