"""Twenty secrets are shown by tasks in every way: none is in what a deployment stores, logs or answers."""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
import urllib3
from support.api_server import running_api
from support.live_stack import SECRET_KEY, LiveStack

from pipeweave import Context, HttpWorker, TaskError, ids, task
from pipeweave.api.http import browser
from pipeweave.orchestrator.security import access_tokens, sessions
from pipeweave.orchestrator.security.access_tokens import READ, WORKER
from pipeweave.up.postgres import Postgres

NAMES = [f"P{number:02}" for number in range(20)]


def ref(number: int) -> str:
    return f"${{secret.P{number:02}}}"


STEPS: list[dict[str, Any]] = [
    {
        "id": "returns",
        "task": "returns",
        "params": {"one": ref(0), "two": ref(1), "three": ref(2), "four": f"x{ref(3)}"},
    },
    {"id": "takes", "task": "takes", "params": {"value": "${steps.returns}"}, "needs": ["returns"]},
    {
        "id": "fails",
        "task": "fails",
        "params": {"one": ref(5), "two": ref(6), "three": ref(7)},
        "continueOnError": True,
        "needs": [],
    },
    {"id": "seen", "transform": {"output": "${errors.fails}"}, "needs": ["fails"]},
    {"id": "crashes", "task": "crashes", "params": {"one": ref(8)}, "continueOnError": True, "needs": []},
    {"id": "waits", "task": "waits", "params": {"one": ref(10), "two": ref(11)}, "needs": []},
    {
        "id": "keyed",
        "task": "keyed",
        "params": {"one": ref(12)},
        "map": {"over": [1, 2, 3], "as": "item"},
        "needs": [],
    },
    {
        "id": "writes",
        "adapter": "log",
        "action": "write",
        "params": {"message": f"as {ref(13)}"},
        "needs": [],
    },
    {"id": "remote", "task": "remote", "params": {"one": ref(14), "two": ref(15)}, "needs": []},
    {
        "id": "broken",
        "task": "broken",
        "params": {"one": ref(16)},
        "continueOnError": True,
        "needs": [],
    },
    {
        "id": "inner",
        "map": {
            "over": [1, 2],
            "steps": [{"id": "in", "task": "takes", "params": {"value": [ref(17), ref(18)]}}],
        },
        "needs": [],
    },
]


@task(id="remote", retries=0)
def remote(ctx: Context, one: str, two: str) -> Any:
    ctx.log.info(f"remote with {one}")
    print(two)
    ctx.progress(10, one)
    ctx.add_asset("remote.txt", two)
    return [one, base64.b64encode(two.encode()).decode()]


@task(id="broken", retries=0)
def broken(ctx: Context, one: str) -> Any:
    raise TaskError(f"broken by {one}", details=[one])


@pytest.fixture(scope="module")
def planted() -> dict[str, str]:
    """Name -> value; with what has to be escaped, and one of several lines."""
    values = {name: f'{name}/{secrets.token_urlsafe(18)}+%"\\' for name in NAMES}
    values["P17"] = f"first-{secrets.token_hex(12)}\nsecond-{secrets.token_hex(12)}"
    return values


@pytest.fixture(scope="module")
def run_id(empty_stack: LiveStack, planted: dict[str, str], tmp_path_factory: Any) -> Iterator[UUID]:
    """A run of all these steps, after its end."""
    stack, folder = empty_stack, tmp_path_factory.mktemp("planted")
    place = folder / stack.settings.tenant
    place.mkdir()
    for name, value in planted.items():
        (place / name).write_text(value)
    sources = json.dumps([{"provider": "file", "path": str(folder)}])
    variables = {"SECRETS": sources, "LOG_LEVEL": "detailed"}
    stack.start_worker("leaking.py", "--adapters", concurrency=2, variables=variables)
    stack.variables["SECRETS"] = sources
    stack.start_beat()
    with running_api(stack.settings, stack.folder) as server:
        worker = _http_worker(stack, server.url)
        try:
            stack.store({"id": "leaks", "steps": STEPS, "failureMode": "continue"})
            run = stack.ran(
                {"id": "polled", "steps": [{"id": "w", "task": "takes", "params": {"value": ref(19)}}]}
            )
            assert run.status == "completed"
            run_id = stack.trigger("leaks")
            stack.finished(run_id)
            _answers(stack, server.url, run_id)
            yield run_id
        finally:
            worker.stop()


def _http_worker(stack: LiveStack, url: str) -> HttpWorker:
    tenant = stack.settings.tenant
    with stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="worker", tenants=[tenant], scopes=[WORKER])
    worker = HttpWorker(
        "remote",
        url,
        SECRET_KEY,
        tasks=[remote, broken],
        host="127.0.0.1",
        port=0,
        token=token,
        tenant=tenant,
    )
    worker.start()
    return worker


def _answers(stack: LiveStack, url: str, run_id: UUID) -> None:
    """Ask for every answer and page about the run, and keep them in a file."""
    tenant = stack.settings.tenant
    with stack.deployment.database.transaction() as tx:
        token = access_tokens.create_token(tx, name="reader", tenants=[tenant], scopes=[READ])
        session = sessions.begin_by_token(tx, token)
    assert session is not None
    run = ids.show(ids.RUN, run_id)
    api = [
        f"/api/runs/{run}{each}" for each in ("", "/events", "/task-runs", "/state", "/graph", "/timeline")
    ]
    api += [
        f"/api/task-runs/{ids.show(ids.TASK_RUN, each.id)}{end}"
        for each in stack.task_runs(run_id)
        for end in ("", "/logs")
    ]
    api += ["/api/runs", "/api/dlq", "/api/audit", "/api/pipelines/leaks", "/metrics", "/api/tasks"]
    pages = [f"/ui/{tenant}/runs/{run}", f"/ui/{tenant}/runs/{run}?tab=logs", f"/ui/{tenant}/dead-letters"]
    http = urllib3.PoolManager()
    cookie = browser.PLAIN_NAME.format(port=url.rpartition(":")[2])
    with (stack.folder / "answers.txt").open("ab") as file:
        for path in api:
            answer = http.request(
                "GET", url + path, headers={"Authorization": f"Bearer {token}", "X-Tenant": tenant}
            )
            file.write(path.encode() + b" " + str(answer.status).encode() + b"\n" + answer.data + b"\n")
        for path in pages:
            answer = http.request("GET", url + path, headers={"Cookie": f"{cookie}={session.secret}"})
            file.write(path.encode() + b" " + str(answer.status).encode() + b"\n" + answer.data + b"\n")


def forms(value: str) -> set[bytes]:
    """A value as it could be read: whole, its lines, escaped, and in base64."""
    parts = {value, *value.splitlines()}
    found = {each for part in parts for each in (part, json.dumps(part)[1:-1], quote(part, safe=""))}
    return {each.encode() for each in found} | {
        base64.b64encode(before + part.encode())[4:-4] for part in parts for before in (b"", b"a", b"ab")
    }


def holders(content: bytes, planted: dict[str, str]) -> set[str]:
    return {name for name, value in planted.items() if any(each in content for each in forms(value))}


def files_below(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                yield path, path.read_bytes()


def test_the_run_has_shown_all_it_could(empty_stack: LiveStack, run_id: UUID) -> None:
    statuses = empty_stack.statuses(run_id)
    failed = {"fails", "crashes", "broken"}
    assert {step for step, status in statuses.items() if status != "completed"} == failed, statuses
    masked = {
        row.step_id
        for row in empty_stack.rows(
            "SELECT t.step_id FROM events AS e "
            "JOIN task_runs AS t ON t.run_id = e.run_id AND t.id = e.task_run_id "
            "WHERE e.type = 'task_run.secret_masked'"
        )
    }
    assert {"returns", "waits", "keyed"} <= masked


def test_no_table_holds_a_secret(empty_stack: LiveStack, run_id: UUID, planted: dict[str, str]) -> None:
    tables = empty_stack.rows(
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name FROM pg_class AS c "
        "JOIN pg_namespace AS n ON n.oid = c.relnamespace "
        "WHERE c.relkind = 'r' AND n.nspname NOT IN ('pg_catalog', 'information_schema')"
    )
    assert len(tables) > 20
    for each in tables:
        rows = empty_stack.rows(f"SELECT CAST(to_jsonb(t) AS text) AS text FROM {each.name} AS t")
        content = "\n".join(row.text for row in rows)
        # The text of JSON in JSON is escaped twice.
        both = f"{content}\n{content.replace(chr(92) * 2, chr(92))}".encode()
        assert holders(both, planted) == set(), each.name


def test_no_write_ahead_log_holds_a_secret(
    postgres_server: Postgres, run_id: UUID, planted: dict[str, str]
) -> None:
    segments = list(files_below(postgres_server.folder / "pg_wal"))
    assert segments
    # It holds what this run has written.
    assert any(b"secret.P00" in content for _, content in segments)
    for path, content in segments:
        assert holders(content, planted) == set(), path.name


def test_the_broker_holds_no_secret(empty_stack: LiveStack, run_id: UUID, planted: dict[str, str]) -> None:
    redis = empty_stack.redis
    for key in redis.keys("*"):
        assert holders(key + (redis.dump(key) or b""), planted) == set(), key


def test_no_log_object_or_answer_holds_a_secret(
    empty_stack: LiveStack, run_id: UUID, planted: dict[str, str]
) -> None:
    files = dict(files_below(empty_stack.folder))
    answers = files[empty_stack.folder / "answers.txt"]
    taken = re.findall(rb"^(/\S+) 200$", answers, re.MULTILINE)
    assert len(taken) >= 18 and sum(each.startswith(b"/ui/") for each in taken) == 3, taken
    assert b"with ***" in answers
    logs = [content for path, content in files.items() if path.suffix == ".log"]
    assert any(b"task_run.secret_masked" in content and b"***" in content for content in logs)
    objects = [path for path in files if path.name in ("logs.jsonl", "account.txt", "remote.txt")]
    assert len(objects) >= 5
    for path, content in files.items():
        assert holders(content, planted) == set(), path
