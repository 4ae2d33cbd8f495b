"""What operators call, beside real workers: verify, recover, doctor."""

from __future__ import annotations

import json
import random

import pytest
from click.testing import CliRunner, Result
from support.live_stack import Stage
from support.oracle import random_graph

from pipeweave import ids
from pipeweave.cli import main
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.spec.rules import FAILURE_MODES

pytestmark = pytest.mark.timeout(240)

WIDE = {
    "id": "wide",
    "steps": [
        {"id": "a", "task": "act", "needs": []},
        *({"id": f"b{n}", "task": "act", "needs": ["a"]} for n in range(10)),
        {"id": "c", "task": "act", "needs": [f"b{n}" for n in range(10)]},
    ],
}


def call(stage: Stage, *arguments: str) -> Result:
    variables = {
        "DATABASE_URL": stage.settings.database_url or "",
        "BROKER_URL": stage.settings.broker_url or "",
        "PIPEWEAVE_TENANT": stage.settings.tenant,
        "PIPEWEAVE_DATA_DIR": stage.settings.data_dir,
    }
    return CliRunner().invoke(main, list(arguments), env=variables)


def make_late(stage: Stage) -> None:
    """As if what is open had been so for long."""
    with stage.deployment.database.transaction() as tx:
        ago = "- interval '1 minute'"
        tx.execute(f"UPDATE task_runs SET queued_at = queued_at {ago} WHERE status = 'queued'")
        tx.execute(f"UPDATE runs SET created_at = created_at {ago} WHERE finished_at IS NULL")


def test_the_events_of_real_workers_agree_with_their_rows(stage: Stage) -> None:
    chance = random.Random(7)
    for number in range(6):
        document, wishes = random_graph(chance, f"verified-{number}")
        stage.ran(document, wishes, failure_mode=FAILURE_MODES[number % 3])
    with verify.snapshot(stage.deployment.database) as tx:
        assert list(verify.all(tx)) == []
    result = call(stage, "verify", "--all", "--json")
    assert (result.exit_code, json.loads(result.stdout)["differing"]) == (0, 0)
    assert json.loads(result.stdout)["verified"] >= 6


def test_a_lost_message_is_shown_and_sent_again(stage: Stage) -> None:
    stage.store({"id": "one", "steps": [{"id": "a", "task": "act"}]})
    run_id = stage.trigger_unsent("one", {})
    make_late(stage)
    shown = call(stage, "recover", "--json")
    assert shown.exit_code == 1
    kinds = {each["kind"]: each["run"] for each in json.loads(shown.stdout)["stale"]}
    # There is no beat on this stage either.
    assert kinds == {"message_lost": ids.show(ids.RUN, run_id), "tick_silent": None}
    healed = call(stage, "recover", "--auto-resume")
    assert healed.exit_code == 0, healed.output
    assert "1 messages sent again" in healed.stdout
    assert "pipeweave beat" in healed.stderr
    assert stage.finished(run_id).status == "completed"


def test_a_deployment_at_work_is_as_it_should_be_once_beat_runs(stage: Stage) -> None:
    with stage.deployment.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET last_tick_at = NULL")
    missed = call(stage, "doctor")
    assert missed.exit_code == 1
    assert "there was no tick yet" in missed.stdout
    beat = stage.start_beat()
    stage.until(lambda: "error" not in call(stage, "doctor").stdout, "beat does not tick")
    levels = {line[9:28].strip(): line.split()[0] for line in call(stage, "doctor").stdout.splitlines()}
    stage.stop(beat)
    assert levels.pop("dead letters") in ("ok", "warning")
    assert set(levels.values()) == {"ok"}
