"""`@task`: options, checks, the registry."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import pipeweave
from pipeweave import Context, Retry, task
from pipeweave.authoring.retry import RetryPolicy
from pipeweave.authoring.task import Task, TaskSpec, collect, duplicate_tasks, registered_tasks
from pipeweave.authoring.task_spec import code_hash
from pipeweave.errors import InvalidTask


@task
def plain(name: str) -> str:
    """Greet somebody.

    At length.
    """
    return f"hello {name}"


def test_a_task_is_still_the_function_it_was() -> None:
    assert plain("Ada") == "hello Ada"
    assert plain.map(["a", "b"]) == ["hello a", "hello b"]
    assert plain.options(step_id="x")("Bo") == "hello Bo"
    assert plain.fn.__name__ == plain.id == "plain"
    assert registered_tasks()["plain"] is plain


def test_a_plain_call_fills_in_an_empty_context_where_one_is_needed() -> None:
    @task
    def first(ctx: Context, n: int, *, m: int = 0) -> list[Any]:
        return [ctx.attempt, n, m]

    @task
    def last(n: int, ctx: Context) -> list[Any]:
        return [ctx.attempt, n]

    @task
    def optional(n: int, ctx: Context | None = None) -> list[Any]:
        return [ctx, n]

    assert first(5) == [1, 5, 0]
    assert first(n=5, m=6) == [1, 5, 6]
    assert first.fn(Context(attempt=2), 5) == [2, 5, 0]
    assert first(Context(attempt=2), 5) == [2, 5, 0]
    assert last(5, Context(attempt=3)) == [3, 5]
    assert last(5, ctx=Context(attempt=3)) == [3, 5]
    assert last(5) == [1, 5]  # type: ignore[call-arg]
    assert optional(5) == [None, 5]
    assert first.map([1, 2], m=3) == [[1, 1, 3], [1, 2, 3]]
    assert first.options(step_id="x")(5) == [1, 5, 0]


def test_a_plain_call_with_wrong_arguments_fails_as_python_does() -> None:
    with pytest.raises(TypeError):
        plain()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        plain("a", "b")  # type: ignore[call-arg]


def test_the_defaults_are_those_of_the_worker_protocol() -> None:
    assert plain.spec.to_registration() == {
        "id": "plain",
        "name": f"{__name__}.plain",
        "codeHash": code_hash(plain.fn),
        "description": "Greet somebody.",
        "allowedNext": [],
        "timeout": 300,
        "retries": 3,
        "retryBackoff": "exponential",
        "retryDelayMs": 1000,
        "maxRetryDelayMs": 86400000,
        "retryMultiplier": 2,
        "retryJitter": 0,
        "heartbeatIntervalMs": 60000,
        "concurrency": 0,
        "priority": 100,
    }


def test_every_option_is_registered() -> None:
    schema = {"fields": [{"name": "n", "type": "integer", "label": "N"}]}

    @task(
        id="charge.card",
        allowed_next=[plain, "other"],
        timeout=1.5,
        retries=0,
        retry_backoff="linear",
        retry_delay_ms=5,
        max_retry_delay_ms=50,
        retry_multiplier=1.5,
        retry_jitter=0.1,
        retry_on=["HTTP_503", "TIMEOUT"],
        on_exhausted="pause",
        heartbeat_interval_ms=500,
        concurrency=2,
        rate_limit="100/m",
        priority=-1,
        idempotency_ttl=60,
        idempotency_key=lambda input, version: str(input),
        description="Charges.",
        input_schema=schema,
    )
    def charge() -> None: ...

    wire = charge.spec.to_registration()
    assert wire["id"] == charge.id == "charge.card"
    assert wire["allowedNext"] == ["plain", "other"]
    assert (wire["timeout"], wire["retries"], wire["retryBackoff"]) == (1.5, 0, "linear")
    assert (wire["retryDelayMs"], wire["maxRetryDelayMs"], wire["heartbeatIntervalMs"]) == (5, 50, 500)
    assert (wire["retryMultiplier"], wire["retryJitter"]) == (1.5, 0.1)
    assert (wire["retryOn"], wire["rateLimit"]) == (["HTTP_503", "TIMEOUT"], "100/m")
    assert wire["onExhausted"] == "pause"
    assert (wire["concurrency"], wire["priority"], wire["idempotencyTTL"]) == (2, -1, 60)
    assert (wire["description"], wire["inputSchema"]) == ("Charges.", schema)
    assert "idempotencyKey" not in wire


def test_durations_may_have_a_unit() -> None:
    @task(timeout="5m", idempotency_ttl="7d")
    def minutes() -> None: ...

    @task(timeout="1500ms")
    def brief() -> None: ...

    assert (minutes.spec.timeout, minutes.spec.idempotency_ttl, brief.spec.timeout) == (300, 604_800, 1.5)


@pytest.mark.parametrize("option", ["timeout", "idempotency_ttl"])
@pytest.mark.parametrize("wrong", ["5 minutes", "5", "", "0s"])
def test_a_text_that_is_no_duration_is_refused_with_examples(option: str, wrong: str) -> None:
    with pytest.raises(InvalidTask, match="a number with a unit such as") as refused:
        task(id="t", **{option: wrong})(lambda: None)  # type: ignore[call-overload]
    assert refused.value.errors[0].field == option


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"id": "a b"}, "id"),
        ({"id": 5}, "id"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "5 s"}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"retries": -1}, "retries"),
        ({"retries": 1.5}, "retries"),
        ({"retries": True}, "retries"),
        ({"retry_backoff": "quadratic"}, "retry_backoff"),
        ({"retry_delay_ms": 0}, "retry_delay_ms"),
        ({"max_retry_delay_ms": 0}, "max_retry_delay_ms"),
        ({"retry_multiplier": 0.5}, "retry_multiplier"),
        ({"retry_multiplier": float("inf")}, "retry_multiplier"),
        ({"retry_jitter": 1.1}, "retry_jitter"),
        ({"retry_jitter": "much"}, "retry_jitter"),
        ({"on_exhausted": "stop"}, "on_exhausted"),
        ({"retry_on": "HTTP_503"}, "retry_on"),
        ({"retry_on": []}, "retry_on"),
        ({"retry_on": [503]}, "retry_on"),
        ({"retry_on": [""]}, "retry_on"),
        ({"retry_on": ["a\0b"]}, "retry_on"),
        ({"retry": 3}, "retry"),
        ({"rate_limit": 100}, "rate_limit"),
        ({"rate_limit": "100"}, "rate_limit"),
        ({"rate_limit": "0/s"}, "rate_limit"),
        ({"rate_limit": "100/min"}, "rate_limit"),
        ({"rate_limit": "1.5/s"}, "rate_limit"),
        ({"rate_limit": "1/s\n"}, "rate_limit"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms"),
        ({"concurrency": -1}, "concurrency"),
        ({"priority": 2**40}, "priority"),
        ({"idempotency_ttl": 0}, "idempotency_ttl"),
        ({"idempotency_key": "order"}, "idempotency_key"),
        ({"idempotency_key": lambda: "k"}, "idempotency_key"),
        ({"idempotency_key": lambda a, b, c: "k"}, "idempotency_key"),
        ({"allowed_next": "other"}, "allowed_next"),
        ({"allowed_next": ["a b"]}, "allowed_next[0]"),
        ({"description": 1}, "description"),
        ({"input_schema": {"fields": [{"name": "n"}]}}, "input_schema.fields[0].label"),
        ({"retrys": 2}, "retrys"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        task(**options)(lambda: None)
    assert field in [each.field for each in refused.value.errors]


def test_a_delay_in_place_of_its_growth_is_answered_with_the_option_for_delays() -> None:
    with pytest.raises(
        InvalidTask, match="use one of fixed, linear, exponential; the delay itself is retry_delay_ms"
    ):
        task(retry_backoff=0.2)(lambda: None)


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(InvalidTask) as refused:
        task(prioriti=2)  # type: ignore[call-overload]
    assert refused.value.hint == "did you mean 'priority'?"


def test_retries_can_be_given_as_one_value() -> None:
    retry = Retry(attempts=5, delay_ms=10, backoff="linear", max_delay_ms=90, jitter=0.2, retry_on=["BUSY"])

    @task(retry=retry)
    def again() -> None: ...

    @task(retry=None, retries=7)
    def plainly() -> None: ...

    assert again.spec == TaskSpec(
        id="again",
        name=again.spec.name,
        code_hash=again.spec.code_hash,
        retries=4,
        retry_delay_ms=10,
        retry_backoff="linear",
        max_retry_delay_ms=90,
        retry_jitter=0.2,
        retry_on=("BUSY",),
    )
    assert again.spec.retry_policy == RetryPolicy("linear", 10, 90, 2, 0.2, frozenset({"BUSY"}))
    assert plainly.spec.retries == 7
    assert Retry().to_options() == {
        "retries": 2,
        "retry_delay_ms": 1_000,
        "retry_backoff": "exponential",
        "retry_multiplier": 2,
        "max_retry_delay_ms": 30_000,
        "retry_jitter": 0,
        "retry_on": None,
    }


@pytest.mark.parametrize("plain_option", Retry().to_options())
def test_a_retry_excludes_every_plain_option(plain_option: str) -> None:
    with pytest.raises(InvalidTask, match="cannot both be given") as refused:
        task(retry=Retry(), **{plain_option: 1})(lambda: None)  # type: ignore[call-overload]
    assert [each.field for each in refused.value.errors] == [plain_option]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"attempts": 0}, "a whole number from 1 to 10001"),
        ({"attempts": 2.5}, "a whole number from 1 to 10001"),
        ({"delay_ms": 0}, "a whole number from 1 to 31622400000"),
        ({"max_delay_ms": -1}, "a whole number from 1 to 31622400000"),
        ({"backoff": "quadratic"}, "fixed, linear, exponential"),
        ({"backoff": []}, "fixed, linear, exponential"),
        ({"multiplier": 0.5}, "a number from 1 to 1000"),
        ({"jitter": 2}, "a number from 0 to 1"),
        ({"retry_on": "BUSY"}, "a list of 1 to 100 error codes, each a text of 1 to 200 characters"),
    ],
)
def test_a_wrong_retry_says_what_is_expected(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        Retry(**wrong)
    assert [(each.field, each.expected) for each in refused.value.errors] == [(*wrong, expected)]


def test_an_exception_class_is_not_a_code_but_its_name_is() -> None:
    with pytest.raises(InvalidTask, match="'ConnectionError'"):
        Retry(retry_on=[ConnectionError])  # type: ignore[list-item]


def test_a_function_that_cannot_be_called_by_keywords_is_no_task() -> None:
    async def later() -> Any:
        yield 1

    def many() -> Any:
        yield 1

    def positional(a: int, /) -> None: ...

    wrong: Any
    for wrong in (later, many, positional, print, "name", plain, int):
        with pytest.raises(InvalidTask):
            task(wrong)


def test_an_async_function_is_a_task_of_many_calls_at_once() -> None:
    @task
    async def fetch(url: str) -> str:
        return url

    assert fetch.is_async
    assert fetch.spec.concurrent == 200
    assert asyncio.run(fetch("a")) == "a"
    assert task(id="one-by-one", concurrent=1)(fetch.fn).spec.concurrent == 1


def test_a_plain_function_has_one_call_at_a_time() -> None:
    def fetch(url: str) -> str:
        return url

    assert task(id="plain-fetch", concurrent=1)(fetch).spec.concurrent == 1
    with pytest.raises(InvalidTask, match=r"concurrent is for `async def` tasks alone") as refused:
        task(concurrent=2)(fetch)
    assert [each.field for each in refused.value.errors] == ["concurrent"]
    assert "--concurrency" in str(refused.value.hint)


@pytest.mark.parametrize("wrong", [0, 1_001, "many", 2.5, True])
def test_a_wrong_number_of_concurrent_calls_says_what_is_expected(wrong: Any) -> None:
    async def fetch(url: str) -> str:
        return url

    with pytest.raises(InvalidTask) as refused:
        task(concurrent=wrong)(fetch)
    assert [each.expected for each in refused.value.errors] == ["a whole number from 1 to 1000"]


def test_the_hash_changes_with_the_source_and_not_with_its_indentation(tmp_path: Path) -> None:
    def hash_of(source: str) -> str:
        file = tmp_path / f"m{len(list(tmp_path.iterdir()))}.py"
        file.write_text(source)
        space: dict[str, Any] = {"__name__": file.stem}
        exec(compile(source, str(file), "exec"), space)
        return code_hash(space["f"])

    first = hash_of("def f(n):\n    return n + 1\n")
    assert first == hash_of("if True:\n    def f(n):\n        return n + 1\n")
    assert first != hash_of("def f(n):\n    return n + 2\n")
    assert len(first) == 64


def test_the_hash_changes_with_the_version_that_the_task_names() -> None:
    def count(n: int) -> int:
        return n

    versions = [None, "1", "2"]
    assert len({code_hash(count, each) for each in versions}) == len(versions)
    assert task(id="count-2", version="2")(count).spec.code_hash == code_hash(count, "2")


@pytest.mark.parametrize("version", [2, "", "x" * 101])
def test_a_version_is_a_short_text(version: Any) -> None:
    with pytest.raises(InvalidTask, match=r"version is .*: use a text of 1 to 100 characters"):
        task(id="count-3", version=version)(lambda n: n)


def test_a_function_without_source_has_a_hash_that_is_the_same_in_every_process() -> None:
    program = (
        "from pipeweave.authoring.task_spec import code_hash\n"
        "space = {}\n"
        'exec(\'def f(x):\\n    return x in {"a", "b", "c"} and (lambda: 1)\', space)\n'
        "print(code_hash(space['f']))"
    )
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_two_places_that_claim_one_id_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["pipeweave.authoring.task"], "_registry", {})
    monkeypatch.setattr(sys.modules["pipeweave.authoring.task"], "_duplicates", {})

    source = "from pipeweave import task\n@task\ndef load() -> None: ..."
    for module in ("first", "first", "second"):
        assert duplicate_tasks() == {}
        exec(compile(source, f"{module}.py", "exec"), {"__name__": module})
    assert duplicate_tasks() == {"load": ("first.load", "second.load")}


def test_collect_finds_a_modules_tasks_and_refuses_two_of_one_id() -> None:
    module = types.ModuleType("shop")
    vars(module).update(plain=plain, again=plain, other=5)
    assert collect(module) == {"plain": plain}
    double: Task[..., Any] = Task(plain.fn, TaskSpec(id="plain", code_hash="0" * 64))
    vars(module)["double"] = double
    with pytest.raises(InvalidTask, match="two tasks 'plain'"):
        collect(module)


def test_importing_pipeweave_stays_light() -> None:
    program = (
        "import sys, pipeweave; from pipeweave import task, pipeline, Context, TaskResult, TaskError\n"
        "assert callable(task) and callable(pipeline)\n"
        "heavy = {'pydantic', 'celery', 'kombu', 'flask', 'sqlalchemy', 'yaml', 'urllib3', 'click'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_client_is_found_on_demand() -> None:
    assert pipeweave.Client.__name__ == "Client"
    with pytest.raises(AttributeError):
        _ = pipeweave.Cleint


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("delay", "Client.queue('plain', input)"),
        ("apply_async", "trigger a pipeline that calls it"),
        ("s", "inside a @pipeline function"),
        ("retry", "@task(retries=…)"),
        ("nothing", "has no attribute 'nothing'"),
    ],
)
def test_what_a_celery_task_has_is_answered_with_what_to_use(name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as error:
        getattr(plain, name)
    assert instead in str(error.value)
