"""`pipeweave schedule`: what it asks, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave.cli import main

Call = Callable[..., Result]

TIME = "2026-11-20T02:30:00.000Z"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["schedule", *arguments, "--url", served.url, "--token", "t"])

    return call


def a_schedule(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": "nightly", "pipelineId": "report", "cron": "30 2 * * *", "everyMs": None}
    found |= {"at": None, "timeZone": "UTC", "input": None, "missedPolicy": "one", "overlapPolicy": "allow"}
    found |= {"jitterMs": 0, "startAt": None, "endAt": None, "paused": False, "nextFireAt": TIME}
    return found | {"lastFireAt": None, "lastError": None, "nextFires": [TIME], "lastFires": []} | more


def body_of(served: Served) -> Any:
    return served.asked[-1][2]


def test_what_is_given_is_stored_and_nothing_else(served: Served, call: Call) -> None:
    served.put("PUT /api/schedules/nightly", (201, a_schedule()))
    done = call("set", "nightly", "report", "--every", "15m", "--overlap", "skip", "-i", '{"a": 1}')
    assert done.exit_code == 0, done.output
    wanted = {"pipelineId": "report", "everyMs": 900_000, "overlapPolicy": "skip", "input": {"a": 1}}
    assert body_of(served) == wanted
    assert "2026-11-20 02:30:00" in done.output


def test_an_interval_without_a_unit_is_seconds(served: Served, call: Call) -> None:
    served.put("PUT /api/schedules/nightly", (201, a_schedule()))
    assert call("set", "nightly", "report", "--every", "10").exit_code == 0
    assert body_of(served)["everyMs"] == 10_000


@pytest.mark.parametrize("wrong", [("--every", "soon"), ("--input", "{"), ("--missed", "some")])
def test_a_wrong_option_is_refused_in_one_line(call: Call, wrong: tuple[str, str]) -> None:
    done = call("set", "nightly", "report", *wrong)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_the_list_says_what_is_paused(served: Served, call: Call) -> None:
    paused = a_schedule(id="poll", cron=None, everyMs=5_000, paused=True, nextFireAt=None)
    served.put("GET /api/schedules", (200, {"schedules": [a_schedule(), paused], "nextCursor": None}))
    lines = call().output.splitlines()
    assert "30 2 * * *" in lines[1]
    assert "every 5 s" in lines[2]
    assert "paused" in lines[2]


def test_a_schedule_is_shown_with_its_fires(served: Served, call: Call) -> None:
    error = {"code": "CONFLICT", "message": "task 'a' is not registered"}
    fire = {"scheduledAt": TIME, "firedAt": TIME, "kind": "due", "outcome": "failed", "reason": None}
    found = a_schedule(lastError=error, lastFires=[fire | {"runId": None, "error": error}])
    served.put("GET /api/schedules/nightly", (200, found))
    assert call("show", "nightly").output.count("is not registered") == 2


@pytest.mark.parametrize("verb", ["pause", "resume", "fire"])
def test_each_verb_is_asked_for(served: Served, call: Call, verb: str) -> None:
    answer = a_schedule(pipelineRunId="run_1")
    served.put(f"POST /api/schedules/nightly/{verb}", (200, answer))
    done = call(verb, "nightly")
    assert done.exit_code == 0, done.output


def test_a_schedule_is_deleted(served: Served, call: Call) -> None:
    served.put("DELETE /api/schedules/nightly", (200, {"id": "nightly", "deleted": True}))
    assert call("delete", "nightly").output == "Deleted schedule nightly\n"


def test_a_backfill_goes_on_to_the_end_of_the_range(served: Served, call: Call) -> None:
    first = {
        "times": [TIME],
        "created": 1,
        "known": 0,
        "runIds": ["run_1"],
        "nextFrom": "2026-11-21T02:30:00Z",
    }
    last = {"times": [TIME], "created": 0, "known": 1, "runIds": [], "nextFrom": None}
    served.put("POST /api/schedules/nightly/backfill", (200, first), (200, last))
    done = call("backfill", "nightly", "2026-11-20T00:00:00Z", "2026-11-22T00:00:00Z")
    assert done.output == "Started 1 runs; decided about before: 1\n"
    assert body_of(served)["from"] == "2026-11-21T02:30:00Z"


@pytest.mark.parametrize("times", [[], ["--cron", "0 0 * * *", "--every", "15m"]])
def test_a_schedule_is_given_one_kind_of_times_by_the_names_of_the_options(
    call: Call, times: list[str]
) -> None:
    done = call("set", "nightly", "report", *times)
    assert done.exit_code == 2
    assert "give one of --cron, --every and --at" in done.stderr
