"""What operators call, beside real workers: verify, recover, doctor."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner, Result
from support.live_stack import LiveStack
from support.oracle import random_graph

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.spec.rules import FAILURE_MODES

WIDE = {
    "id": "wide",
    "steps": [
        {"id": "a", "task": "act", "needs": []},
        *({"id": f"b{n}", "task": "act", "needs": ["a"]} for n in range(10)),
        {"id": "c", "task": "act", "needs": [f"b{n}" for n in range(10)]},
    ],
}


@pytest.fixture(scope="module")
def stack(own_stack: LiveStack) -> LiveStack:
    return own_stack


def call(stack: LiveStack, *arguments: str) -> Result:
    variables = {
        "DATABASE_URL": stack.settings.database_url or "",
        "BROKER_URL": stack.settings.broker_url or "",
        "PIPEWEAVE_TENANT": stack.settings.tenant,
        "PIPEWEAVE_DATA_DIR": stack.settings.data_dir,
        "PIPEWEAVE_SECRET_KEY": stack.settings.secret_key or "",
        "DISPATCH_NETWORKS": ",".join(stack.settings.dispatch_networks),
    }
    return CliRunner().invoke(main, list(arguments), env=variables)


def make_late(stack: LiveStack) -> None:
    """As if what is open had been so for long."""
    with stack.deployment.database.transaction() as tx:
        ago = "- interval '1 minute'"
        tx.execute(f"UPDATE task_runs SET queued_at = queued_at {ago} WHERE status = 'queued'")
        tx.execute(f"UPDATE runs SET created_at = created_at {ago} WHERE finished_at IS NULL")


def test_the_events_of_real_workers_agree_with_their_rows(stack: LiveStack) -> None:
    chance = random.Random(7)
    for number in range(6):
        document, wishes = random_graph(chance, f"verified-{number}")
        stack.ran(document, wishes, failure_mode=FAILURE_MODES[number % 3])
    with verify.snapshot(stack.deployment.database) as tx:
        assert list(verify.all_runs(tx)) == []
    result = call(stack, "verify", "--all", "--json")
    assert (result.exit_code, json.loads(result.stdout)["differing"]) == (0, 0)
    assert json.loads(result.stdout)["verified"] >= 6


def test_a_lost_message_is_shown_and_sent_again(stack: LiveStack) -> None:
    stack.store({"id": "one", "steps": [{"id": "a", "task": "act"}]})
    run_id = stack.trigger_unsent("one", {})
    make_late(stack)
    shown = call(stack, "recover", "--json")
    assert shown.exit_code == 1
    kinds = {each["kind"]: each["run"] for each in json.loads(shown.stdout)["stale"]}
    # There is no beat on this stack either.
    assert kinds == {"message_lost": ids.show(ids.RUN, run_id), "tick_silent": None}
    healed = call(stack, "recover", "--auto-resume")
    assert healed.exit_code == 0, healed.output
    assert "messages sent again (1)" in healed.stdout
    assert "pipeweave beat" in healed.stderr
    assert stack.finished(run_id).status == "completed"


def test_a_deployment_at_work_is_as_it_should_be_once_beat_runs(stack: LiveStack) -> None:
    with stack.deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET last_tick_at = NULL")
    missed = call(stack, "doctor")
    assert missed.exit_code == 1
    assert "there was no tick yet" in missed.stdout
    beat = stack.start_beat()
    stack.until(lambda: "error" not in call(stack, "doctor").stdout, "beat does not tick")
    levels = {line[9:28].strip(): line.split()[0] for line in call(stack, "doctor").stdout.splitlines()}
    stack.stop(beat)
    assert levels.pop("dead letters") in ("ok", "warning")
    assert {name for name, level in levels.items() if level != "ok"} == set()
