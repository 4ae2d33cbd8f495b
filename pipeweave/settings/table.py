"""Define the table of settings: name, reader and meaning. A test keeps docs/configuration.md equal to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeweave.settings import backend_entries, oidc, secret_sources
from pipeweave.settings import readers as values
from pipeweave.settings.sentinels import FORM

PREFIX = "PIPEWEAVE_"
# Variables of tests and benchmarks; the product does not read them.
RESERVED_PREFIXES = ("PIPEWEAVE_TEST_", "PIPEWEAVE_BENCH_")

_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table.

    Args:
        name: the environment variable.
        field: the field of Settings that it fills.
        read: converts the text to the value.
        about: its meaning, for people.
        also: further names of the variable.
        mask: hides secrets when the value is shown; None to show the value as it is.
        is_shared: true if other programs read the plain name, too: next to the prefixed name, it is theirs.
        is_common: true if all processes of a deployment must have the same value.
    """

    name: str
    field: str
    read: values.Reader
    about: str
    also: tuple[str, ...] = ()
    mask: Callable[[Any], str] | None = None
    is_shared: bool = False
    is_common: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the setting, the preferred name first."""
        plain = (self.name, *self.also)
        return plain + tuple(PREFIX + name for name in plain if not name.startswith(PREFIX))


def _secret(_: Any) -> str:
    return values.MASK


_DATABASE_ABOUT = (
    "PostgreSQL: postgresql://user:password@host:port/database; several hosts: host:port,host:port"
)

_BROKER_ABOUT = f"Redis or Valkey: redis://:password@host:port/0; behind Sentinel: {FORM}"

TABLE: tuple[Setting, ...] = (
    Setting(
        "DATABASE_URL",
        "database_url",
        values.database_url,
        _DATABASE_ABOUT,
        mask=values.masked_url,
        is_shared=True,
    ),
    Setting("DB_POOL_MAX", "db_pool_max", values.whole(1, 1000), "database connections per process"),
    Setting("STREAM_LIMIT", "stream_limit", values.whole(0, 400), "streams of changes per API process"),
    Setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "otlp_endpoint",
        values.http_url,
        "the OpenTelemetry collector that spans are sent to, over HTTP; absent: none are sent",
        is_shared=True,
    ),
    Setting("UI", "ui", values.flag, "whether the API serves the dashboard, under /ui"),
    Setting(
        "UI_READ_ONLY",
        "ui_read_only",
        values.flag,
        "whether sessions of browsers may only read, and the dashboard shows no verb",
    ),
    Setting(
        "UI_PARTS",
        "ui_parts",
        values.flag,
        "whether the dashboard has a page of its parts, /ui/TENANT/parts, for work on its looks",
    ),
    Setting(
        "UI_LOGIN",
        "ui_login",
        values.one_of("both", "oidc", "token"),
        "how people log in: with an access token (token), by the OpenID provider (oidc), or either (both); "
        "links of `pipeweave open` always do",
    ),
    Setting(
        "OIDC_ISSUER",
        "oidc_issuer",
        oidc.issuer,
        "URL of the OpenID provider by which people log in, exactly as it calls itself",
    ),
    Setting("OIDC_CLIENT_ID", "oidc_client_id", values.words, "name of this deployment at the provider"),
    Setting(
        "OIDC_CLIENT_SECRET",
        "oidc_client_secret",
        values.words,
        "secret of this deployment at the provider; unset: it is a public client there",
        mask=_secret,
    ),
    Setting(
        "OIDC_SCOPES",
        "oidc_scopes",
        oidc.scopes,
        "what the provider is asked for; with offline_access, providers give tokens to ask again with",
    ),
    Setting(
        "OIDC_GROUPS_CLAIM",
        "oidc_groups_claim",
        values.words,
        "the claim that has the groups of a person, or the path to it: realm_access.roles",
    ),
    Setting(
        "OIDC_ROLES",
        "oidc_roles",
        oidc.roles,
        'JSON: what people of a group may do, {"engineers": {"tenants": ["shop"], "scopes": ["write"]}}',
        mask=oidc.roles_text,
    ),
    Setting(
        "BROKER_URL",
        "broker_url",
        values.broker_url,
        _BROKER_ABOUT,
        mask=values.masked_url,
        is_shared=True,
    ),
    Setting(
        "PIPEWEAVE_SECRET_KEY",
        "secret_key",
        values.secret_key,
        "signs and encrypts for HTTP workers, webhooks and hooks; 32 random bytes as hex, the same in every "
        "process; new,old while a key is exchanged",
        mask=_secret,
        is_common=True,
    ),
    Setting(
        "MODE",
        "mode",
        values.mode,
        "standalone: beat runs the tick; serverless: POST /api/tick runs it",
        is_common=True,
    ),
    Setting(
        "MAX_CONCURRENCY",
        "max_concurrency",
        values.whole(1, 10_000),
        "task runs at once: processes of a worker, dispatches of a tick",
    ),
    Setting(
        "MAX_TASKS_PER_CHILD",
        "max_tasks_per_child",
        values.whole(1, 1_000_000_000),
        "messages that a process of a worker works off before a new process takes its place",
    ),
    Setting(
        "WORKER_MAX_MEMORY",
        "worker_max_memory",
        values.whole(0, 10_000_000),
        "MB that a worker and its processes take before the one that has grown most is replaced; 0: no limit",
    ),
    Setting(
        "WORKER_LABELS",
        "worker_labels",
        values.labels,
        "labels of a worker's machine, gpu=a100,zone=eu: it calls what requires some of them, too",
    ),
    Setting(
        "API_MAX_MEMORY",
        "api_max_memory",
        values.whole(0, 10_000_000),
        "MB that the processes of an API take before one that has grown is replaced; 0: no limit",
    ),
    Setting(
        "API_DISPATCHES",
        "api_dispatches",
        values.whole(0, 256),
        "next steps of HTTP services that an API process dispatches at once after reports; 0: workers do it",
    ),
    Setting(
        "POLL_INTERVAL_MS",
        "poll_interval_ms",
        values.whole(100, 3_600_000),
        "ms between two ticks",
        also=("POLL_INTERVAL",),
        is_common=True,
    ),
    Setting(
        "DISPATCH_NETWORKS",
        "dispatch_networks",
        values.networks,
        "networks besides public addresses that dispatches, calls of hooks, polls and actions may reach: "
        "loopback, private or CIDR, separated by commas",
        is_common=True,
    ),
    Setting(
        "WORKER_ADDRESS",
        "worker_address",
        values.one_of("registered", "peer"),
        "where dispatches go: the URL that an HTTP worker registers, or with `peer` the address that it "
        "registers from",
        is_common=True,
    ),
    Setting(
        "WORKER_SECRETS",
        "worker_secrets",
        values.one_of("shared", "service"),
        "the secret of an HTTP worker: PIPEWEAVE_SECRET_KEY itself (shared), or one for each service",
        is_common=True,
    ),
    Setting("PIPEWEAVE_HOST", "host", values.words, "address the API listens on"),
    Setting("PORT", "port", values.whole(1, 65535), "port the API listens on"),
    Setting(
        "TRUSTED_PROXIES",
        "trusted_proxies",
        values.cidrs,
        "networks of proxies, separated by commas, whose X-Forwarded-For, X-Forwarded-Proto and Client-Cert "
        "are believed",
    ),
    Setting(
        "CORS_ORIGINS",
        "cors_origins",
        values.origins,
        "browser origins that may call the API, separated by commas, or *",
    ),
    Setting(
        "METRICS_ACCESS",
        "metrics_access",
        values.one_of("token", "open", "off"),
        "who may read GET /metrics: a token (token), everybody (open) or nobody (off)",
    ),
    Setting(
        "UI_INSECURE",
        "ui_insecure",
        values.flag,
        "whether browsers may log in over plain HTTP from other machines, where others could read the cookie",
    ),
    # Never without the prefix: other programs take a format of Python's lines under the short name.
    Setting(
        "PIPEWEAVE_LOG_FORMAT",
        "log_format",
        values.one_of("auto", "json", "text"),
        "lines of the log: JSON (json), for people (text), or for people on a terminal alone (auto)",
    ),
    Setting("LOG_LEVEL", "log_level", values.log_level, "minimal, normal or detailed"),
    Setting(
        "LOG_LEVELS",
        "log_levels",
        values.log_levels,
        "other levels of single loggers and those below them, e.g. shop.tasks=detailed,urllib3=minimal",
    ),
    Setting(
        "LOG_NAMES",
        "log_names",
        values.one_of("plain", "documents", "both"),
        "names of ids in log lines: run_id (plain), runId (documents) or both",
    ),
    Setting(
        "REQUIRE_PIPELINES",
        "require_pipelines",
        values.flag,
        "whether a worker that loads tasks and no pipeline refuses to start",
    ),
    Setting(
        "WORKER_HEARTBEAT_INTERVAL",
        "worker_heartbeat_interval",
        values.whole(1000, 3_600_000),
        "ms between two log lines that say a worker is alive",
    ),
    Setting(
        "PIPEWEAVE_ORCHESTRATOR_URL",
        "orchestrator_url",
        values.http_url,
        "URL of the API, for the CLI, the Client and the links that hooks send",
        also=("PIPEWEAVE_BASE_URL",),
        mask=values.masked_url,
    ),
    Setting(
        "PIPEWEAVE_API_TOKEN",
        "api_token",
        values.words,
        "bearer token of the CLI and the Client",
        mask=_secret,
    ),
    Setting("PIPEWEAVE_TENANT", "tenant", values.tenant, "tenant of the CLI, the Client and a worker"),
    Setting("PIPEWEAVE_DATA_DIR", "data_dir", values.words, "folder of `pipeweave up` and of local storage"),
    Setting(
        "PIPEWEAVE_ENV_FILE",
        "env_file",
        values.words,
        "file with further variables; the environment wins over it",
    ),
    Setting(
        "STORAGE_BACKENDS",
        "storage_backends",
        backend_entries.storage_backends,
        "JSON list of {id, provider, endpoint, bucket, region, credentials, isDefault, tenants, pipelines}",
        mask=backend_entries.masked_backends,
        is_common=True,
    ),
    Setting(
        "DEFAULT_STORAGE_BACKEND_ID",
        "default_storage_backend_id",
        values.words,
        "id of one of STORAGE_BACKENDS; by default the backend marked isDefault, else the first backend",
        is_common=True,
    ),
    Setting(
        "SECRETS",
        "secrets",
        secret_sources.secret_sources,
        "JSON list of {provider, prefix, tenants, hosts, …}: where the values of ${secret.NAME} are; of "
        "workers, beat and the API",
        mask=secret_sources.masked_sources,
    ),
    Setting(
        "STORAGE_GRACE_HOURS",
        "storage_grace_hours",
        values.whole(2, 100 * 366 * 24),
        "hours before an object in storage that no row refers to is deleted",
        is_common=True,
    ),
    Setting(
        "RUN_RETENTION_DAYS",
        "run_retention_days",
        values.whole(1, 36_500),
        "days that runs are kept after the end of their month; unset: for ever",
        is_common=True,
    ),
    Setting(
        "ARCHIVE_RUNS",
        "archive_runs",
        values.flag,
        "true: a month of runs is archived to storage before it is dropped",
        is_common=True,
    ),
    Setting(
        "DLQ_RETENTION_DAYS",
        "dlq_retention_days",
        values.whole(1, 36_500),
        "days that a dead letter is kept after its failure",
        is_common=True,
    ),
    Setting(
        "AUDIT_RETENTION_DAYS",
        "audit_retention_days",
        values.whole(1, 36_500),
        "days that a row of the audit is kept; unset: 31 days longer than RUN_RETENTION_DAYS",
        is_common=True,
    ),
    Setting(
        "IDEMPOTENCY_TTL_SECONDS",
        "idempotency_ttl_seconds",
        values.whole(1, 10 * 366 * 86_400),
        "seconds that a result is reused for its idempotency key, unless its task sets idempotency_ttl",
        is_common=True,
    ),
    Setting(
        "MAX_RETRY_DELAY_MS",
        "max_retry_delay_ms",
        values.whole(1, 366 * _DAY_MS),
        "ms, the longest delay before any retry",
        is_common=True,
    ),
    Setting(
        "MAX_EXECUTION_TIMEOUT",
        "max_execution_timeout",
        values.whole(1000, 366 * _DAY_MS),
        "ms that a run may take, unless its pipeline sets a timeout; not for standalone tasks; "
        "unset: no limit",
        is_common=True,
    ),
    Setting(
        "TASK_GONE_AFTER_SECONDS",
        "task_gone_after_seconds",
        values.whole(1, 10 * 366 * 86_400),
        "seconds without a worker that has a task until `pipeweave doctor` calls the task gone",
        is_common=True,
    ),
    Setting(
        "TASK_REMOVED_AFTER_SECONDS",
        "task_removed_after_seconds",
        values.whole(60, 10 * 366 * 86_400),
        "seconds without a worker that has a task until the task is removed and its waiting task runs are "
        "cancelled; unset: only `pipeweave tasks remove` does that",
        is_common=True,
    ),
)

# Names from older documents that never had an effect -> the setting to use instead.
INEFFECTIVE: dict[str, str] = {
    "STORAGE_PROVIDER": "STORAGE_BACKENDS",
    "LOCAL_STORAGE_BASE_PATH": "STORAGE_BACKENDS",
    "MAINTENANCE_CHECK_INTERVAL_MS": "POLL_INTERVAL_MS",
    "DB_ALLOW_EXIT_ON_IDLE": "DB_POOL_MAX",
}
# Refused only next to STORAGE_PROVIDER; otherwise S3_BUCKET and the like belong to the user's own tasks.
OLD_STORAGE_PREFIXES = ("S3_", "GCP_", "MINIO_")
