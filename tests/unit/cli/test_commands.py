"""The command line as a user meets it: what it prints where, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from support.stub_http_server import Served

from pipeweave import errors
from pipeweave.cli import COMMANDS, main
from pipeweave.cli.support import rendering
from pipeweave.ids import RUN, TASK_RUN, new_id, show

Call = Callable[..., Result]
RUN_ID = show(RUN, new_id())


def run_document(status: str, **more: Any) -> dict[str, Any]:
    return {"id": RUN_ID, "pipelineId": "report", "pipelineVersion": 2, "status": status, "steps": [], **more}


@pytest.fixture
def call(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command in an empty folder, with the answering server as its orchestrator."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPEWEAVE_ORCHESTRATOR_URL", served.url)

    def called(*arguments: str, **more: Any) -> Result:
        return CliRunner().invoke(main, arguments, **more)

    return called


def commands() -> list[tuple[str, ...]]:
    context = click.Context(main)
    return [names for name in COMMANDS for names in below((name,), main.get_command(context, name))]


def below(names: tuple[str, ...], command: click.Command | None) -> list[tuple[str, ...]]:
    assert command is not None
    if not isinstance(command, click.Group):
        return [names]
    return [deeper for name, each in command.commands.items() for deeper in below((*names, name), each)]


@pytest.mark.parametrize("names", commands(), ids=" ".join)
def test_every_command_explains_itself(names: tuple[str, ...], call: Call) -> None:
    result = call(*names, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


# Those go on until they are stopped, or print what people wait for; there is no document to give.
ENDLESS = {("up",), ("down",), ("api",), ("worker",), ("dispatcher",), ("beat",), ("http-worker",)}


@pytest.mark.parametrize("names", [each for each in commands() if each not in ENDLESS], ids=" ".join)
def test_every_command_that_answers_can_answer_in_json(names: tuple[str, ...], call: Call) -> None:
    assert "--json" in call(*names, "--help").stdout


@pytest.mark.skipif(not hasattr(click, "NoSuchCommand"), reason="click suggests names from 8.4 on")
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (("trigge", "x"), "'trigger'"),
        (("token", "creat"), "'create'"),
        (("pipelines", "versoins"), "'versions'"),
        (("runs", "--limmit", "3"), "'--limit'"),
        (("trigger", "x", "--wiat"), "'--wait'"),
    ],
)
def test_a_slip_of_the_pen_gets_the_nearest_right_word(
    wrong: tuple[str, ...], right: str, call: Call
) -> None:
    result = call(*wrong)
    assert result.exit_code == 2
    assert right in result.stderr
    assert result.stdout == ""


def test_a_refusal_is_one_line_on_stderr_with_every_wrong_field(served: Served, call: Call) -> None:
    fields = [errors.FieldError(f"input.{name}", "must be a number") for name in "abcdefg"]
    problem = errors.InputValidationFailed("the input is\nnot valid \x1b[31m", errors=fields, hint="mend it")
    served.put("POST /api/pipelines/report/trigger", (400, problem.to_problem()))
    result = call("trigger", "report")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "pipeweave: INPUT_VALIDATION_FAILED: the input is not valid ?[31m; input.a: must be a number; "
        "input.b: must be a number; input.c: must be a number; input.d: must be a number; "
        "input.e: must be a number; and 2 more; mend it\n"
    )


def test_trigger_prints_the_run(served: Served, call: Call) -> None:
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": RUN_ID, "status": "running"}))
    result = call("trigger", "report", "-i", '{"n": 1}', "--failure-mode", "continue", "-p", "5")
    assert (result.exit_code, result.stdout) == (0, f"{RUN_ID} running\n")
    assert served.asked[0][2] == {"input": {"n": 1}, "failureMode": "continue", "priority": 5}


@pytest.mark.parametrize(("prefix", "path"), [(RUN, "runs"), (TASK_RUN, "task-runs")])
def test_cancel_takes_a_run_or_a_standalone_task(served: Served, call: Call, prefix: str, path: str) -> None:
    which = show(prefix, new_id())
    served.put(f"POST /api/{path}/{which}/cancel", (200, run_document("cancelled") | {"id": which}))
    result = call("cancel", which, "--reason", "wrong input")
    assert (result.exit_code, result.stdout) == (0, f"{which} cancelled\n")
    assert served.asked[0][2] == {"reason": "wrong input"}


def test_trigger_says_when_a_run_of_the_key_is_open(served: Served, call: Call) -> None:
    answer = {"pipelineRunId": "prun_1", "status": "running", "created": False, "skipped": True}
    served.put("POST /api/pipelines/nightly/trigger", (200, answer))
    result = call("trigger", "nightly")
    assert (result.exit_code, result.stdout) == (0, "prun_1 running\n")
    assert result.stderr == "no run was started: this one of its key is open\n"


def test_trigger_reads_its_input_from_a_file_or_from_standard_input(served: Served, call: Call) -> None:
    served.put("POST /api/pipelines/report/trigger", (200, {"pipelineRunId": RUN_ID, "status": "running"}))
    Path("input.json").write_text("[1, 2]")
    assert call("trigger", "report", "-f", "input.json").exit_code == 0
    assert call("trigger", "report", "-f", "-", input='"text"').exit_code == 0
    assert [body["input"] for _, _, body in served.asked] == [[1, 2], "text"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("-i", "{"), 1, "--input is not JSON"),
        (("-i", "{}", "-f", "-"), 2, "not both"),
        (("-f", "missing.json"), 2, "missing.json"),
        (("--failure-mode", "sometimes"), 2, "fail-fast"),
        (("-p", "high"), 2, "integer"),
    ],
)
def test_wrong_input_is_never_sent(
    served: Served, call: Call, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = call("trigger", "report", *arguments, input="{}")
    assert result.exit_code == code
    assert said in result.stderr
    assert served.asked == []


def test_a_list_is_plain_lines_without_colour_where_no_terminal_is(served: Served, call: Call) -> None:
    runs = [run_document("completed"), run_document("failed\x1b[2J", pipelineId=None)]
    served.put("GET /api/runs?limit=20", (200, {"runs": runs, "nextCursor": "c1"}))
    result = call("runs")
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["RUN", "PIPELINE", "VERSION", "STATUS", "ERROR", "CREATED", "(UTC)", "TOOK"]
    assert lines[1].split() == [RUN_ID, "report", "2", "completed", "-", "-", "-"]
    assert "\x1b" not in result.output
    assert result.stderr == "More: --cursor c1\n"


@pytest.mark.parametrize("arguments", [("trigger", "a\udcff"), ("runs", "--text", "\udcff")])
def test_an_argument_that_is_not_utf_8_is_refused_in_one_line(arguments: tuple[str, ...], call: Call) -> None:
    result = call(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("pipeweave: INVALID_INPUT: the argument ")
    assert result.stderr.endswith("\\udcff' is not UTF-8 text; write it in UTF-8\n")


def test_an_empty_list_says_what_to_do(served: Served, call: Call) -> None:
    served.put("GET /api/pipelines", (200, {"pipelines": [], "nextCursor": None}))
    assert "pipelines put FILE" in call("pipelines").stdout
    assert json.loads(call("pipelines", "--json").stdout) == {"pipelines": []}


def test_a_document_is_stored_under_its_own_id(served: Served, call: Call) -> None:
    stored = {"pipelineId": "nightly", "version": 1, "specHash": "ab" * 32, "isNew": True}
    served.put("PUT /api/pipelines/nightly", (201, stored))
    Path("nightly.yaml").write_text("steps:\n  - task: list_files\n  - task: report\n")
    result = call("pipelines", "put", "nightly.yaml")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split() == ["nightly", "1", "new", "abababababab"]
    sent = served.asked[0][2]
    assert [each["needs"] for each in sent["steps"]] == [[], ["list_files"]]


def test_a_pipeline_is_stored_before_those_that_run_it_and_warnings_are_told(
    served: Served, call: Call
) -> None:
    for id in ("night", "day", "hour"):
        warned = [{"code": "UNKNOWN_PIPELINE", "message": "day runs what is not stored", "steps": []}]
        answer = {"pipelineId": id, "version": 1, "specHash": "ab" * 32, "isNew": True}
        served.put(f"PUT /api/pipelines/{id}", (201, {**answer, "warnings": warned if id == "day" else []}))
    # `night` runs `day`, which runs `hour` and, again, `night`.
    documents = (
        "{id: night, steps: [{id: a, pipeline: day}]}",
        "{id: day, steps: [{id: a, pipeline: hour, onError: {pipeline: night}}]}",
        "{id: hour, steps: [{id: a, task: count}]}",
    )
    Path("all.yaml").write_text("\n---\n".join(documents))
    result = call("pipelines", "put", "all.yaml")
    assert result.exit_code == 0, result.output
    assert [asked[0].rpartition("/")[2] for asked in served.asked] == ["hour", "night", "day"]
    assert result.stderr == "warning: day: UNKNOWN_PIPELINE: day runs what is not stored\n"


@pytest.mark.parametrize("command", [("pipelines", "put"), ("dry-run",)])
def test_a_document_without_a_pipeline_is_refused(command: tuple[str, ...], call: Call) -> None:
    Path("empty.yaml").write_text("# nothing yet\n")
    result = call(*command, "empty.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "pipeweave: INVALID_SPEC: empty.yaml holds no pipeline\n"


def test_a_dry_run_of_a_document_sends_it_along_and_its_verdict_is_the_exit_code(
    served: Served, call: Call
) -> None:
    plan = {
        "valid": False,
        "errors": [{"code": "UNKNOWN_TASK", "message": "step 'a' runs an unknown task", "steps": ["a"]}],
        "warnings": [],
        "executionPlan": [{"step": 0, "tasks": ["a"], "type": "entry"}],
    }
    served.put("POST /api/pipelines/nightly/dry-run", (200, plan))
    Path("nightly.json").write_text('{"steps": [{"id": "a", "task": "b"}]}')
    result = call("dry-run", "nightly.json")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[:2] == ["nightly: not valid", "error: step 'a' runs an unknown task"]
    assert served.asked[0][2]["spec"]["steps"][0]["task"] == "b"


def spread(p50: float | None, p95: float | None, runs: int) -> dict[str, Any]:
    return {"runs": runs, "tooFewRuns": runs < 10, "p50Ms": p50, "p95Ms": p95}


def test_a_dry_run_shows_the_forecast_in_80_columns(served: Served, call: Call) -> None:
    steps = {
        "fetch_everything_from_the_archive": (900.0, 61_000.0, 40),
        "b": (4.25, 9.5, 3),
        "c": (None, None, 0),
    }
    plan: dict[str, Any] = {
        "valid": True,
        "errors": [],
        "warnings": [],
        "executionPlan": [{"step": 0, "tasks": list(steps), "type": "entry"}],
        "forecast": {
            **spread(910.0, 62_000.0, 40),
            "pastRuns": {"p50Ms": 1500.0, "p95Ms": 90_000.0},
            "criticalPath": ["fetch_everything_from_the_archive"],
            "steps": [{"id": step, **spread(*given)} for step, given in steps.items()],
        },
    }
    served.put("POST /api/pipelines/nightly/dry-run", (200, plan))
    lines = call("dry-run", "nightly").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "forecast: p50 910 ms, p95 62.0 s; from the last 40 runs" in lines
    assert "with their waits they took: p50 1.5 s, p95 90.0 s" in lines
    shown = [" ".join(line.split()) for line in lines[-3:]]
    assert shown == [
        "fetch_everything_from_the_archive 900 ms 61.0 s 40 yes",
        "b 4 ms 10 ms 3 (too few) -",
        "c - - 0 (too few) -",
    ]
    plan["forecast"] = {**plan["forecast"], **spread(None, None, 0)}
    served.put("POST /api/pipelines/nightly/dry-run", (200, plan))
    assert call("dry-run", "nightly").stdout.splitlines()[-1] == "forecast: none, no run has completed yet"


def python(*arguments: str, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    environment = {"PATH": os.defpath, "HOME": str(cwd)}
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path) -> None:
    process = python("-m", "pipeweave.cli", "config", cwd=tmp_path)
    assert process.stdout and process.stderr
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(120) in (0, 1)


def test_ctrl_c_ends_a_command_quietly_with_130(served: Served, call: Call) -> None:
    def interrupt(*_: object, **__: object) -> Any:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeweave.client.Client.runs", interrupt)
        result = call("runs")
    assert (result.exit_code, result.output) == (130, "")


HEAVY = (
    "celery",
    "flask",
    "sqlalchemy",
    "psycopg2",
    "alembic",
    "pydantic",
    "rich",
    "urllib3",
    "yaml",
    "gunicorn",
)


def test_the_help_imports_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pipeweave.cli import main\nmain(['--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    process = python("-c", script, cwd=tmp_path)
    out, err = process.communicate(timeout=180)
    assert "Run and watch:" in out
    assert err == "[]\n"


@pytest.mark.parametrize(
    ("command", "path", "document"),
    [
        ("runs", "/api/runs?limit=20", {"runs": [], "nextCursor": None}),
        ("tasks", "/api/tasks", {"tasks": [], "nextCursor": None}),
        ("pipelines", "/api/pipelines", {"pipelines": [], "nextCursor": None}),
        ("schedule", "/api/schedules", {"schedules": [], "nextCursor": None}),
        ("triggers", "/api/triggers", {"triggers": [], "nextCursor": None}),
        ("workers", "/api/workers", {"workers": [], "nextCursor": None}),
        ("services", "/api/services", {"services": [], "nextCursor": None}),
        ("bulk", "/api/bulk?limit=20", {"bulkChanges": [], "nextCursor": None}),
        ("enqueued", "/api/enqueued?status=waiting&limit=20", {"enqueuedRuns": [], "nextCursor": None}),
    ],
)
def test_an_empty_list_of_a_tenant_that_does_not_exist_names_those_that_do(
    command: str, path: str, document: dict[str, Any], served: Served, call: Call
) -> None:
    served.put(f"GET {path}", (200, document))
    served.put("GET /api/tenants", (200, {"tenants": [{"id": "default"}], "nextCursor": None}))
    result = call(command, "--tenant", "acme")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == ("pipeweave: NOT_FOUND: tenant 'acme' does not exist; you may enter: default\n")
    assert call(command, "--tenant", "default").exit_code == 0


@pytest.mark.parametrize(
    ("command", "path"), [("bulk", "/api/bulk?limit=20"), ("maintenance", "/api/maintenance")]
)
def test_a_group_without_a_command_shows_what_there_is(
    command: str, path: str, served: Served, call: Call
) -> None:
    mode = {"mode": "running", "pendingTasks": 0, "unfinishedRuns": 0, "runs": []}
    served.put(f"GET {path}", (200, {"bulkChanges": [], "nextCursor": None, **mode}))
    call(command)
    assert served.asked[0][0] == f"GET {path}"


def test_an_input_in_a_file_as_curl_takes_it_is_told_the_right_option(call: Call) -> None:
    result = call("trigger", "report", "-i", "@day.json")
    assert result.exit_code == 2
    assert "write --file day.json" in result.stderr


def test_an_address_in_https_of_a_server_of_http_is_told_so(served: Served, call: Call) -> None:
    result = call("runs", "--url", served.url.replace("http:", "https:"))
    assert result.exit_code == 1
    assert f"write {served.url} if it answers plain HTTP" in result.stderr
    assert "SSL" not in result.stderr


@pytest.mark.parametrize(("variables", "is_coloured"), [({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)])
def test_commands_have_no_colours_where_people_want_none(
    call: Call,
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    is_coloured: bool,
) -> None:
    monkeypatch.setattr(rendering, "is_terminal", lambda: True)
    listed = {"runs": [run_document("completed", createdAt="2026-11-20T12:00:00Z")], "nextCursor": None}
    served.put("GET /api/runs?limit=20", (200, listed))
    shown = call("runs", color=True, env={"TERM": "xterm", **variables}).output
    assert RUN_ID in shown
    assert ("\x1b[" in shown) == is_coloured
