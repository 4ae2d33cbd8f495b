"""Settings: what is read, what is refused and with which hint, what is shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pipeweave.cli import main
from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import Settings, explain, load
from pipeweave.settings.table import TABLE

BACKEND = '{"id": "a", "provider": "local", "credentials": {"basePath": "/srv/a"}}'


def refused(environ: dict[str, str]) -> dict[str, FieldError]:
    with pytest.raises(InvalidSetting) as caught:
        load(environ)
    return {error.field: error for error in caught.value.errors}


def shown(environ: dict[str, str]) -> dict[str, tuple[str | None, str]]:
    return {row.name: (row.value, row.source) for row in explain(environ)}


def test_nothing_given_means_the_defaults() -> None:
    assert load({}) == Settings()


def test_every_field_has_a_row_in_the_table() -> None:
    assert {row.field for row in TABLE} == {each.name for each in dataclasses.fields(Settings)} - {"named"}


@pytest.mark.parametrize("setting", TABLE, ids=lambda setting: setting.name)
def test_a_blank_variable_counts_as_not_given(setting: object) -> None:
    name = setting.name  # type: ignore[attr-defined]
    assert load({name: "  "}) == Settings()


@pytest.mark.parametrize("name", ["MAX_CONCURRENCY", "PIPEWEAVE_MAX_CONCURRENCY"])
def test_a_setting_is_read_with_and_without_the_prefix(name: str) -> None:
    assert load({name: "7"}).max_concurrency == 7
    assert shown({name: "7"})["MAX_CONCURRENCY"] == ("7", name)


def test_two_spellings_may_agree_but_not_disagree() -> None:
    assert load({"PORT": "4000", "PIPEWEAVE_PORT": "4000"}).port == 4000
    errors = refused({"PORT": "4000", "PIPEWEAVE_PORT": "4001"})
    assert errors["PIPEWEAVE_PORT"].code == "conflict"
    assert "PORT" in errors["PIPEWEAVE_PORT"].message


def test_servers_with_the_prefix_leave_the_plain_names_to_other_programs() -> None:
    ours = {"PIPEWEAVE_BROKER_URL": "redis://ours", "PIPEWEAVE_DATABASE_URL": "postgresql://ours:x@h/d"}
    theirs = {"BROKER_URL": "amqp://theirs", "DATABASE_URL": "mysql://theirs", "DB_HOST": "theirs"}
    found = load({**ours, **theirs})
    assert (found.broker_url, found.database_url) == tuple(ours.values())
    assert shown({**ours, **theirs})["BROKER_URL"][1] == "PIPEWEAVE_BROKER_URL"


def test_database_parts_with_the_prefix_leave_the_plain_names_to_other_programs() -> None:
    ours = {"PIPEWEAVE_DB_HOST": "db", "PIPEWEAVE_DB_NAME": "pw", "PIPEWEAVE_DB_USER": "me"}
    theirs = {"DB_HOST": "theirs", "DB_NAME": "shop", "DB_PASSWORD": "secret"}
    assert load({**ours, **theirs}).database_url == "postgresql://me@db:5432/pw"


def test_an_older_spelling_of_the_poll_interval_is_read_in_milliseconds() -> None:
    assert load({"POLL_INTERVAL": "5000"}).poll_interval_ms == 5000


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("PIPEWEAVE_MAX_CONCURENCY", "PIPEWEAVE_MAX_CONCURRENCY"),
        ("PIPEWEAVE_SECRETKEY", "PIPEWEAVE_SECRET_KEY"),
        ("PIPEWEAVE_DATABASE_URI", "PIPEWEAVE_DATABASE_URL"),
        ("MAX_CONCURENCY", "MAX_CONCURRENCY"),
        ("POLL_INTERVALL_MS", "POLL_INTERVAL_MS"),
        ("WORKER_HEARTBEAT_INTERVAL_MS", "WORKER_HEARTBEAT_INTERVAL"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_right_one(name: str, right: str) -> None:
    error = refused({name: "5"})[name]
    assert (error.code, error.expected) == ("unknown", right)


@pytest.mark.parametrize(
    "name", ["DATABASE_URI", "HOST", "S3_BUCKET", "MAX_RETRIES", "MODEL", "PATH", "HOSTNAME"]
)
def test_other_programs_variables_are_none_of_our_business(name: str) -> None:
    assert load({name: "5"}) == Settings()


@pytest.mark.parametrize(
    "name", ["STORAGE_PROVIDER", "PIPEWEAVE_STORAGE_PROVIDER", "MAINTENANCE_CHECK_INTERVAL_MS"]
)
def test_a_name_that_never_did_anything_is_refused(name: str) -> None:
    assert refused({name: "x"})[name].code == "ineffective"


def test_old_storage_names_are_refused_next_to_the_old_provider_name() -> None:
    assert set(refused({"STORAGE_PROVIDER": "s3", "S3_BUCKET": "b"})) == {"STORAGE_PROVIDER", "S3_BUCKET"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PORT", "0"),
        ("PORT", "65536"),
        ("PORT", "3e3"),
        ("PORT", "+3000"),
        ("MAX_CONCURRENCY", "0"),
        ("MAX_CONCURRENCY", "-1"),
        ("POLL_INTERVAL_MS", "1s"),
        ("DB_POOL_MAX", "many"),
        ("MODE", "production"),
        ("MODE", "serverles"),
        ("LOG_LEVEL", "loud"),
        ("DATABASE_URL", "mysql://u@h/d"),
        ("DATABASE_URL", "postgresql://host"),
        ("DATABASE_URL", "postgresql://host:port/d"),
        ("BROKER_URL", "amqp://guest@localhost"),
        ("BROKER_URL", "redis://"),
        ("PIPEWEAVE_SECRET_KEY", "short"),
        ("PIPEWEAVE_TENANT", "a tenant"),
        ("PIPEWEAVE_ORCHESTRATOR_URL", "localhost:3000"),
        ("CORS_ORIGINS", "app.example.com"),
        ("CORS_ORIGINS", "https://app.example.com/path"),
        ("STORAGE_BACKENDS", "{}"),
        ("STORAGE_BACKENDS", "[1]"),
        ("STORAGE_BACKENDS", '[{"provider": "local"}]'),
        ("STORAGE_BACKENDS", '[{"id": "a", "provider": "ftp"}]'),
        ("STORAGE_BACKENDS", '[{"id": "a", "provider": "gcs"}]'),
        ("STORAGE_BACKENDS", '[{"id": "a", "provider": ["local"]}]'),
        ("STORAGE_BACKENDS", '[{"id": "a", "provider": "local"}]'),
        ("STORAGE_BACKENDS", f"[{BACKEND}, {BACKEND}]"),
        ("DEFAULT_STORAGE_BACKEND_ID", "nowhere"),
        ("DLQ_RETENTION_DAYS", "forever"),
        ("RUN_RETENTION_DAYS", "0"),
        ("ARCHIVE_RUNS", "perhaps"),
    ],
)
def test_a_value_out_of_its_range_is_refused_by_name(name: str, text: str) -> None:
    assert set(refused({name: text})) == {name}


AMAZON = {
    "id": "a",
    "provider": "aws-s3",
    "bucket": "b",
    "credentials": {"accessKeyId": "k", "secretAccessKey": "hunter2"},
}
COMPATIBLE = {
    "id": "a",
    "provider": "minio",
    "endpoint": "http://s3:7070",
    "bucket": "b",
    "credentials": {"accessKey": "k", "secretKey": "hunter2"},
}
GOOGLE = {
    "id": "a",
    "provider": "gcs",
    "bucket": "b",
    "credentials": {"projectId": "p", "clientEmail": "e", "privateKey": "hunter2"},
}
EMULATOR = {"id": "a", "provider": "gcs", "bucket": "b", "endpoint": "http://gcs:4443"}


@pytest.mark.parametrize("backend", [AMAZON, COMPATIBLE, GOOGLE, EMULATOR])
def test_a_bucket_may_be_a_storage_backend(backend: dict[str, Any]) -> None:
    assert load({"STORAGE_BACKENDS": json.dumps([backend])}).storage_backends == (backend,)


@pytest.mark.parametrize(
    ("backend", "changes", "named"),
    [
        (AMAZON, {"bucket": None}, "bucket"),
        (AMAZON, {"bucket": "a/b"}, "bucket"),
        (AMAZON, {"bucket": "-a"}, "bucket"),
        (AMAZON, {"region": 1}, "region"),
        (AMAZON, {"endpoint": "s3.example.com"}, "endpoint"),
        (AMAZON, {"credentials": {"accessKeyId": "hunter2"}}, "secretAccessKey"),
        (AMAZON, {"credentials": {**AMAZON["credentials"], "sessionToken": 1}}, "sessionToken"),
        (AMAZON, {"credentials": COMPATIBLE["credentials"]}, "accessKeyId"),
        (COMPATIBLE, {"endpoint": None}, "endpoint"),
        (COMPATIBLE, {"endpoint": "http://[::1"}, "endpoint"),
        (COMPATIBLE, {"endpoint": "http://me:hunter2@s3:7070"}, "endpoint"),
        (COMPATIBLE, {"credentials": {"secretKey": "hunter2"}}, "accessKey"),
        (GOOGLE, {"bucket": None}, "bucket"),
        (GOOGLE, {"credentials": {"projectId": "p", "clientEmail": "e"}}, "privateKey"),
        (GOOGLE, {"credentials": {}}, "projectId"),
        (EMULATOR, {"endpoint": "gcs"}, "endpoint"),
        (EMULATOR, {"credentials": {"privateKey": "hunter2"}}, "projectId"),
        (AMAZON, {"id": "a/b"}, "id"),
        (AMAZON, {"id": "a b"}, "id"),
        (AMAZON, {"tenants": []}, "tenants"),
        (AMAZON, {"tenants": "acme"}, "tenants"),
        (AMAZON, {"tenants": ["a tenant"]}, "tenants[0]"),
        (AMAZON, {"pipelines": ["right", 1]}, "pipelines[1]"),
    ],
)
def test_a_backend_with_a_mistake_is_refused_by_the_name_of_its_place(
    backend: dict[str, Any], changes: dict[str, Any], named: str
) -> None:
    error = refused({"STORAGE_BACKENDS": json.dumps([{**backend, **changes}])})["STORAGE_BACKENDS"]
    assert named in error.message
    assert "hunter2" not in error.message


def test_all_problems_are_reported_at_once() -> None:
    assert set(refused({"PORT": "x", "MODE": "y", "PIPEWEAVE_NOPE": "z"})) == {
        "PORT",
        "MODE",
        "PIPEWEAVE_NOPE",
    }


def test_a_refused_secret_is_not_repeated() -> None:
    with pytest.raises(InvalidSetting) as caught:
        load({"PIPEWEAVE_SECRET_KEY": "hunter2", "BROKER_URL": "amqp://u:hunter2@h"})
    assert "hunter2" not in str(caught.value.to_problem())


def test_the_database_may_be_given_in_parts() -> None:
    parts = {"DB_HOST": "db", "DB_NAME": "pw", "DB_USER": "me", "DB_PASS": "p@ss:/word", "DB_SSL": "true"}
    assert load(parts).database_url == "postgresql://me:p%40ss%3A%2Fword@db:5432/pw?sslmode=require"
    assert shown(parts)["DATABASE_URL"][0] == "postgresql://me:***@db:5432/pw?sslmode=require"


def test_both_spellings_of_the_database_parts_are_read() -> None:
    parts = {"DB_HOST": "db", "DB_PORT": "6432", "DB_DATABASE": "pw", "DB_USERNAME": "me", "DB_PASSWORD": "x"}
    assert load(parts).database_url == "postgresql://me:x@db:6432/pw"


def test_database_parts_without_a_host_name_what_is_missing() -> None:
    assert set(refused({"DB_PASSWORD": "x"})) == {"DB_HOST", "DB_NAME", "DB_USER"}


def test_database_parts_next_to_a_url_that_says_otherwise_are_refused() -> None:
    url = {"DATABASE_URL": "postgresql://me@db/pw"}
    assert load({**url, "DB_HOST": "db", "DB_PORT": "5432"}).database_url == "postgresql://me@db/pw"
    assert refused({**url, "DB_HOST": "other"})["DB_HOST"].code == "conflict"


@pytest.mark.parametrize(
    ("name", "text"), [("DB_HOST", "db:5432"), ("DB_HOST", "a/b"), ("DB_PORT", "x"), ("DB_SSL", "maybe")]
)
def test_a_database_part_that_cannot_be_read_is_refused_by_name(name: str, text: str) -> None:
    parts = {"DB_HOST": "db", "DB_NAME": "pw", "DB_USER": "me"}
    assert set(refused({**parts, name: text})) == {name}


def test_an_address_of_ipv6_is_a_host_too() -> None:
    parts = {"DB_HOST": "::1", "DB_NAME": "pw", "DB_USER": "me"}
    assert load(parts).database_url == "postgresql://me@[::1]:5432/pw"


def test_any_mode_of_tls_agrees_with_a_part_that_asks_for_it() -> None:
    url = "postgresql://me@db/pw?sslmode=verify-full"
    assert load({"DATABASE_URL": url, "DB_SSL": "yes"}).database_url == url


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_spelling_of_a_postgresql_url_becomes_one(scheme: str) -> None:
    assert load({"DATABASE_URL": f"{scheme}://u@h/d"}).database_url == "postgresql://u@h/d"


def test_secrets_are_masked_where_settings_are_shown() -> None:
    backends = [{"id": "main", "provider": "local", "credentials": {"basePath": "/srv/hunter2"}}]
    rows = shown(
        {
            "DATABASE_URL": "postgresql://u:hunter2@h/d?sslpassword=hunter2",
            "BROKER_URL": "redis://:hunter2@h:6379/0",
            "PIPEWEAVE_SECRET_KEY": "hunter2" * 8,
            "PIPEWEAVE_API_TOKEN": "hunter2",
            "STORAGE_BACKENDS": json.dumps(backends),
        }
    )
    assert "hunter2" not in str(rows)
    assert rows["BROKER_URL"] == ("redis://:***@h:6379/0", "BROKER_URL")


def test_a_default_is_shown_as_a_default() -> None:
    assert shown({})["PORT"] == ("3000", "default")
    assert shown({})["ARCHIVE_RUNS"] == ("true", "default")


def test_single_loggers_have_levels_of_their_own() -> None:
    given = load({"LOG_LEVELS": " shop.tasks = debug , urllib3=minimal,"})
    assert given.log_levels == ("shop.tasks=detailed", "urllib3=minimal")
    rows = {row.name: row.value for row in explain({"LOG_LEVELS": "a=info,b=warning"})}
    assert rows["LOG_LEVELS"] == "a=normal,b=minimal"


@pytest.mark.parametrize(
    "text", ["shop", "shop=", "=debug", "shop=loud", "a b=debug", "a=b=debug", "a=debug,b"]
)
def test_levels_of_loggers_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidSetting, match="LOG_LEVELS"):
        load({"LOG_LEVELS": text})


@pytest.mark.parametrize(
    ("word", "level"), [("info", "normal"), ("DEBUG", "detailed"), ("minimal", "minimal")]
)
def test_common_log_levels_mean_ours(word: str, level: str) -> None:
    assert load({"LOG_LEVEL": word}).log_level == level


def test_the_config_command_shows_what_the_stack_here_says_with_secrets_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = {
        "url": "http://127.0.0.1:3999",
        "tenant": "default",
        "token": "hunter2",
        "databaseUrl": "postgresql://u:hunter2@127.0.0.1/d",
        "brokerUrl": "redis://:hunter2@127.0.0.1/0",
    }
    (tmp_path / "connection.json").write_text(json.dumps(connection))
    monkeypatch.setenv("PIPEWEAVE_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PIPEWEAVE_TENANT", "mine")
    answer = CliRunner().invoke(main, ["config", "--json"])
    rows = {row["name"]: (row["value"], row["source"]) for row in json.loads(answer.output)["settings"]}
    assert rows["PIPEWEAVE_ORCHESTRATOR_URL"] == ("http://127.0.0.1:3999", str(tmp_path / "connection.json"))
    assert rows["DATABASE_URL"][0] == "postgresql://u:***@127.0.0.1/d"
    assert rows["PIPEWEAVE_TENANT"] == ("mine", "PIPEWEAVE_TENANT")
    assert "hunter2" not in answer.output


def test_the_config_command_ends_with_one_line_for_a_setting_that_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PIPEWEAVE_PRT", "1")
    answer = CliRunner().invoke(main, ["config"])
    assert answer.exit_code == 1
    assert answer.stderr.count("\n") == 1
    assert "did you mean PIPEWEAVE_PORT?" in answer.stderr


def test_the_password_in_the_url_of_the_api_is_masked() -> None:
    rows = {
        row.name: row.value for row in explain({"PIPEWEAVE_ORCHESTRATOR_URL": "http://me:hunter5@host:3000"})
    }
    assert rows["PIPEWEAVE_ORCHESTRATOR_URL"] == "http://me:***@host:3000"


@pytest.mark.parametrize("url", ["amqp://guest@localhost//", "pyamqp://mq"])
def test_the_url_of_rabbitmq_is_refused_as_such(url: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        load({"BROKER_URL": url})
    assert refused.value.errors[0].message.endswith("RabbitMQ is not supported")


def test_the_labels_of_a_worker_are_read_and_shown_in_one_order() -> None:
    assert load({"WORKER_LABELS": " zone = eu , gpu=a100,"}).worker_labels == ("gpu=a100", "zone=eu")
    rows = {row.name: row.value for row in explain({"WORKER_LABELS": "zone=eu,gpu=a100"})}
    assert rows["WORKER_LABELS"] == "gpu=a100,zone=eu"
    with pytest.raises(InvalidSetting) as caught:
        load({"WORKER_LABELS": "gpu"})
    assert "is no label: write gpu=a100" in caught.value.errors[0].message
