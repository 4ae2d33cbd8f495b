"""`pipeweave triggers`: what it asks, and what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave import webhooks
from pipeweave.cli import main

Call = Callable[..., Result]

TIME = "2026-11-20T02:30:00.000Z"


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["triggers", *arguments, "--url", served.url, "--token", "t"])

    return call


def a_trigger(**more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"id": "orders", "kind": "webhook", "pipelineId": "import", "filter": {}}
    found |= {"input": None, "paused": False, "scheme": "pipeweave", "headers": [], "maxPerMinute": 600}
    found |= {"on": None, "allowSelf": False, "reusedIds": 0, "path": "/api/webhooks/acme/orders"}
    found |= {"oldSecretUntil": None, "lastFireAt": TIME, "lastError": None, "lastFires": []}
    found |= {"signal": None}
    return found | more


def test_what_is_given_is_stored_and_the_secret_is_printed_once(served: Served, call: Call) -> None:
    served.put("PUT /api/triggers/orders", (201, a_trigger(secret="whsec_made")))
    Path("key").write_text("k" * 32 + "\n")
    options = (
        "--scheme",
        "github",
        "--filter",
        '{"body.a": 1}',
        "--secret-file",
        "key",
        "--header",
        "X-Shop",
    )
    done = call("webhook", "orders", "import", *options)
    assert done.exit_code == 0, done.output
    wanted = {"kind": "webhook", "pipelineId": "import", "scheme": "github", "filter": {"body.a": 1}}
    assert served.asked[-1][2] == wanted | {"secret": "k" * 32, "headers": ["X-Shop"]}
    assert done.output.count("whsec_made") == 1


def test_a_webhook_that_signals_is_stored_and_says_whom_it_signals(served: Served, call: Call) -> None:
    signal = {"name": "paid", "runToken": "${input.body.order}", "payload": {"n": 1}, "orStart": True}
    served.put("PUT /api/triggers/orders", (201, a_trigger(signal=signal)))
    options = (
        "--signal",
        "paid",
        "--run-token",
        "${input.body.order}",
        "--payload",
        '{"n": 1}',
        "--or-start",
    )
    done = call("webhook", "orders", "import", *options)
    assert done.exit_code == 0, done.output
    assert served.asked[-1][2]["signal"] == signal
    assert "paid to the run with the token ${input.body.order}, or starts it first" in done.output
    assert call("webhook", "orders", "import", "--signal", "paid").exit_code == 2
    assert call("webhook", "orders", "import", "--or-start").exit_code == 2


def test_a_trigger_of_events_is_stored(served: Served, call: Call) -> None:
    made = a_trigger(
        kind="event", on="pipeline-completed", scheme=None, maxPerMinute=None, secret=None, path=None
    )
    served.put("PUT /api/triggers/after", (201, made))
    done = call("event", "after", "report", "--filter", '{"status": "failed"}', "--allow-self")
    assert done.exit_code == 0, done.output
    wanted = {"kind": "event", "pipelineId": "report", "on": "pipeline-completed", "allowSelf": True}
    assert served.asked[-1][2] == wanted | {"filter": {"status": "failed"}}
    assert "pipeline-completed" in done.output
    assert "webhooks" not in done.output


@pytest.mark.parametrize("wrong", [("--filter", "{"), ("--scheme", "own"), ("--secret-file", "gone")])
def test_a_wrong_option_is_refused_in_one_line(call: Call, wrong: tuple[str, str]) -> None:
    done = call("webhook", "orders", "import", *wrong)
    assert done.exit_code == 2
    assert "Traceback" not in done.output


def test_the_list_says_what_is_paused_and_what_failed(served: Served, call: Call) -> None:
    error = {"code": "CONFLICT", "message": "task 'a' is not registered", "at": TIME}
    listed = [a_trigger(paused=True), a_trigger(id="other", lastError=error)]
    served.put("GET /api/triggers", (200, {"triggers": listed, "nextCursor": None}))
    lines = call().output.splitlines()
    assert "paused" in lines[1]
    assert "not registered" in lines[2]


def test_a_trigger_is_shown_with_its_fires(served: Served, call: Call) -> None:
    fire = {
        "key": "d-1",
        "firedAt": TIME,
        "outcome": "fired",
        "reason": None,
        "runId": "prun_1",
        "error": None,
    }
    found = a_trigger(lastFires=[fire], oldSecretUntil=TIME, filter={"body.kind": "new"})
    served.put("GET /api/triggers/orders", (200, found))
    output = call("show", "orders").output
    assert "d-1" in output
    assert '{"body.kind":"new"}' in output
    assert "/api/webhooks/acme/orders" in output
    assert "secret (shown once)" not in output


@pytest.mark.parametrize("verb", ["pause", "resume", "rotate"])
def test_each_verb_is_asked_for(served: Served, call: Call, verb: str) -> None:
    served.put(f"POST /api/triggers/orders/{verb}", (200, a_trigger(secret="whsec_new")))
    done = call(verb, "orders")
    assert done.exit_code == 0, done.output


def test_a_trigger_is_deleted(served: Served, call: Call) -> None:
    served.put("DELETE /api/triggers/orders", (200, {"id": "orders", "deleted": True}))
    assert call("delete", "orders").output == "Deleted trigger orders\n"


def test_a_delivery_is_signed_for_curl(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("k" * 32)
    done = CliRunner().invoke(
        main, ["triggers", "sign", "--secret-file", str(tmp_path / "key"), "-"], input="{}"
    )
    name, _, header = done.output.strip().partition(": ")
    assert name == webhooks.HEADER
    found = webhooks.signature_of("pipeweave", {name.lower(): header})
    assert found and found.at
    assert webhooks.is_valid("k" * 32, header, b"{}", found.at)


def test_the_secret_of_hooks_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEWEAVE_SECRET_KEY", "5e" * 32)
    done = CliRunner().invoke(main, ["triggers", "hook-secret", "ops", "--tenant", "shop"])
    assert done.output.strip() == webhooks.hook_secret("5e" * 32, "shop", "ops")
    other = CliRunner().invoke(main, ["triggers", "hook-secret", "--tenant", "shop", "--json"])
    assert webhooks.hook_secret("5e" * 32, "shop", "default") in other.output


def test_a_stored_webhook_shows_where_to_deliver_and_what_will_be_refused(served: Served, call: Call) -> None:
    warned = [
        {"field": "body", "message": "is not an input of this pipeline", "code": "unknown_input"},
        {"field": "day", "message": "is required", "code": "missing"},
    ]
    served.put("PUT /api/triggers/orders", (201, a_trigger(headers=["x-shop"], warnings=warned)))
    done = call("webhook", "orders", "import")
    assert "warning: each run will be refused: body is not an input of this pipeline" in done.output
    assert """such as --input '{"day": "${input.body.day}"}'""" in done.output
    assert f"-H 'x-shop: …' --data-binary @body.json {served.url}/api/webhooks/acme/orders" in done.output
