"""Settings: read the environment variables, check them, and say where each value came from.

This is the only place that reads the environment; every later room and layer may call it. It imports only the
base modules. A setting may be given under its own name (`MAX_CONCURRENCY`) or with the prefix
(`PIPEWEAVE_PORT`). A variable must never be ignored silently: an unknown `PIPEWEAVE_…` name, a misspelt
name, two spellings with different values, and a name that never had an effect are errors, with the nearest
right name. DATABASE_URL, BROKER_URL and DB_… may belong to another program: with the prefix, they win.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from pipeweave.errors import FieldError, InvalidSetting
from pipeweave.settings import env_file, oidc
from pipeweave.settings.database_url import DATABASE_PARTS, NEEDED, parts_of, read_part, url_of
from pipeweave.settings.readers import UnreadableSetting
from pipeweave.settings.table import INEFFECTIVE, OLD_STORAGE_PREFIXES, PREFIX, RESERVED_PREFIXES, TABLE

# A variable is taken for a misspelt setting only if the setting's name is this long and the two are this
# similar. A short name such as DATABASE_URI may belong to another program.
_DISTINCTIVE_LENGTH = 13
_MISSPELT_RATIO = 0.93

_OF_A_CLIENT = frozenset({"orchestrator_url", "api_token", "tenant", "data_dir"})
_OF_AN_HTTP_WORKER = _OF_A_CLIENT | {"secret_key", "log_format", "log_level", "log_names"}
COMMON = frozenset(setting.field for setting in TABLE if setting.is_common)
"""The fields that all processes of a deployment must have the same values of."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all settings. A duration has the unit that its environment variable has in its name."""

    database_url: str | None = None
    broker_url: str | None = None
    secret_key: str | None = None
    mode: str = "standalone"
    tenant: str = "default"
    max_concurrency: int = 10
    max_tasks_per_child: int = 1000
    worker_max_memory: int = 500
    worker_labels: tuple[str, ...] = ()
    api_max_memory: int = 1000
    api_dispatches: int = 16
    poll_interval_ms: int = 1000
    dispatch_networks: tuple[str, ...] = ()
    worker_address: str = "registered"
    worker_secrets: str = "shared"
    host: str = "127.0.0.1"
    port: int = 3000
    trusted_proxies: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    db_pool_max: int = 10
    stream_limit: int = 100
    otlp_endpoint: str | None = None
    ui: bool = True
    ui_insecure: bool = False
    ui_read_only: bool = False
    ui_parts: bool = False
    ui_login: str = "both"
    oidc_issuer: str | None = None
    oidc_client_id: str | None = None
    oidc_client_secret: str | None = None
    oidc_scopes: str = "openid profile email"
    oidc_groups_claim: str = "groups"
    oidc_roles: tuple[oidc.GroupRole, ...] = ()
    metrics_access: str = "token"
    log_format: str = "auto"
    log_level: str = "normal"
    log_levels: tuple[str, ...] = ()
    log_names: str = "plain"
    require_pipelines: bool = False
    worker_heartbeat_interval: int = 30000
    orchestrator_url: str | None = None
    api_token: str | None = None
    data_dir: str = ".pipeweave"
    env_file: str = env_file.DEFAULT
    storage_backends: tuple[Mapping[str, Any], ...] = ()
    default_storage_backend_id: str | None = None
    secrets: tuple[Mapping[str, Any], ...] = ()
    storage_grace_hours: int = 24
    run_retention_days: int | None = None
    archive_runs: bool = True
    dlq_retention_days: int = 30
    audit_retention_days: int | None = None
    idempotency_ttl_seconds: int = 86_400
    max_retry_delay_ms: int = 86_400_000
    max_execution_timeout: int | None = None
    task_gone_after_seconds: int = 600
    task_removed_after_seconds: int | None = None
    named: frozenset[str] = frozenset()
    """The names of the fields that the environment sets; the others have their defaults."""

    @property
    def chosen_tenant(self) -> str | None:
        """The tenant that PIPEWEAVE_TENANT sets; None if it is not set."""
        return self.tenant if "tenant" in self.named else None


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting's effective value and the variable it came from, or `default`; secrets are masked."""

    name: str
    value: str | None
    source: str
    about: str


# What `take_env_file` added to the environment.
_FROM_ENV_FILE: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class _Given:
    value: Any
    source: str


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from environment variables.

    Args:
        environ: the variables; the process's environment by default.

    Raises:
        InvalidSetting: with one FieldError for each variable that is invalid, unknown or without effect.
    """
    return _settings_of(_read(environ))


def wants_colours(environ: Mapping[str, str] | None = None) -> bool:
    """Whether a terminal may show colours: not where NO_COLOR says so, nor on one that knows none."""
    source = os.environ if environ is None else environ
    return not source.get("NO_COLOR") and source.get("TERM") != "dumb"


def load_for_client(environ: Mapping[str, str] | None = None) -> Settings:
    """Read only the settings of a client: the URL of the API, the token, the tenant and the data directory.

    A program that uses the Client may have variables such as DATABASE_URL for itself, with any value.

    Raises:
        InvalidSetting: as `load`, for these settings and for unknown names that begin with `PIPEWEAVE_`.
    """
    return _load_only(_OF_A_CLIENT, environ)


def load_for_http_worker(environ: Mapping[str, str] | None = None) -> Settings:
    """Read only the settings of an HTTP worker: those of a client, the secret key and the log level.

    Raises:
        InvalidSetting: as `load_for_client`.
    """
    return _load_only(_OF_AN_HTTP_WORKER, environ)


def common_texts(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that all processes of a deployment must share, by name, as they were given, with secrets.

    Raises:
        InvalidSetting: as `load`.
    """
    source = os.environ if environ is None else environ
    origins = _read(environ)
    return {
        each.name: source[origins[each.field].source]
        for each in TABLE
        if each.is_common and each.field in origins
    }


def load_common(environ: Mapping[str, str]) -> Settings:
    """Read only the settings that all processes of a deployment must share; the others have their defaults.

    Raises:
        InvalidSetting: as `load_for_client`.
    """
    return _load_only(COMMON, environ)


def _load_only(wanted: frozenset[str], environ: Mapping[str, str] | None) -> Settings:
    source = os.environ if environ is None else environ
    names = {name for setting in TABLE if setting.field in wanted for name in setting.names}
    known = _known() - names
    return _settings_of(
        _read(
            {
                name: text
                for name, text in source.items()
                if name in names or (name.startswith(PREFIX) and name not in known)
            }
        )
    )


def explain(environ: Mapping[str, str] | None = None) -> list[SettingRow]:
    """List every setting with its effective value and its source, in the table's order.

    Raises:
        InvalidSetting: as `load`.
    """
    origins = _read(environ)
    defaults = {each.name: each.default for each in fields(Settings)}
    rows = []
    for setting in TABLE:
        origin = origins.get(setting.field, _Given(defaults[setting.field], "default"))
        mask = setting.mask if setting.field in origins else None
        shown = mask(origin.value) if mask else _text(origin.value)
        rows.append(SettingRow(setting.name, shown, origin.source, setting.about))
    return rows


def explain_named(settings: Settings, environ: Mapping[str, str] | None = None) -> list[SettingRow]:
    """List every setting as a process has it: as `explain`, but a value that differs from the environment's
    has the source `program`.
    """
    try:
        origins = _read(environ)
    except InvalidSetting:
        origins = {}
    defaults = {each.name: each.default for each in fields(Settings)}
    rows = []
    for setting in TABLE:
        value = getattr(settings, setting.field)
        origin = origins.get(setting.field, _Given(defaults[setting.field], "default"))
        is_masked = setting.mask is not None and value is not None and value != ()
        shown = setting.mask(value) if is_masked and setting.mask else _text(value)
        source = origin.source if origin.value == value else "program"
        rows.append(SettingRow(setting.name, shown, source, setting.about))
    return rows


def take_env_file() -> None:
    """Add the variables of the `.env` file to this process's environment, also for the code of tasks.

    Commands and the Celery app call it when they start. A program that imports PipeWeave reads its own files.

    Raises:
        InvalidSetting: as `env_file.additions`.
    """
    added = env_file.additions(os.environ)
    _FROM_ENV_FILE.update(added)
    os.environ.update(added)


def origin_of(source: str) -> str:
    """Where the variables of a `SettingRow.source` were set: their names, with the file that holds them."""
    names = source.split(", ")
    if not any(os.environ.get(name) == _FROM_ENV_FILE.get(name, "") != "" for name in names):
        return source
    return f"{os.environ.get(env_file.NAME, '').strip() or env_file.DEFAULT}: {source}"


def environment() -> dict[str, str]:
    """A copy of this process's environment, for the processes that it starts."""
    return dict(os.environ)


def _settings_of(origins: Mapping[str, _Given]) -> Settings:
    values = {name: each.value for name, each in origins.items()}
    return Settings(**values, named=frozenset(values))


def _text(value: Any) -> str | None:
    if value is None or value == ():
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _read(environ: Mapping[str, str] | None) -> dict[str, _Given]:
    """Read the given values by field.

    A blank variable counts as not given: compose files and CI pass blanks.
    """
    source = os.environ if environ is None else environ
    env = {name: text for name, text in source.items() if text.strip()}
    errors = list(_without_effect(env))
    origins: dict[str, _Given] = {}
    for setting in TABLE:
        name = _pick_shared(env, setting.names) if setting.is_shared else _pick(env, setting.names, errors)
        if name is not None:
            try:
                origins[setting.field] = _Given(setting.read(env[name]), name)
            except UnreadableSetting as error:
                errors.append(FieldError(name, str(error), "invalid"))
    _add_database_parts(env, origins, errors)
    _check_default_backend(origins, errors)
    errors.extend(oidc.faults(origins))
    if errors:
        names = ", ".join(dict.fromkeys(error.field for error in errors))
        only = errors[0]
        detail = f"{only.field} {only.message}" if len(errors) == 1 else f"{names} cannot be used"
        raise InvalidSetting(detail, errors=errors, hint="docs/configuration.md lists every setting")
    return origins


def _pick(env: Mapping[str, str], names: tuple[str, ...], errors: list[FieldError]) -> str | None:
    """Return the first of these names that is set; add an error if two of them have different values."""
    variables = [name for name in names if name in env]
    for other in variables[1:]:
        if env[other].strip() != env[variables[0]].strip():
            errors.append(FieldError(other, f"differs from {variables[0]}; set only one of them", "conflict"))
    return variables[0] if variables else None


def _pick_shared(env: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    """Return the first of these names that is set, those with the prefix before the others."""
    by_prefix = sorted(names, key=lambda name: not name.startswith(PREFIX))
    return next((name for name in by_prefix if name in env), None)


def _add_database_parts(env: Mapping[str, str], origins: dict[str, _Given], errors: list[FieldError]) -> None:
    picked = _pick_database_parts(env, origins, errors)
    parts = {}
    for part, name in picked.items():
        try:
            parts[part] = read_part(part, env[name])
        except UnreadableSetting as error:
            errors.append(FieldError(name, str(error), "invalid"))
    if "database_url" in origins:
        stated = parts_of(origins["database_url"].value)
        contrary = [picked[part] for part, value in parts.items() if value != stated[part]]
        message = "has no effect next to DATABASE_URL; set only one of them"
        errors.extend(FieldError(name, message, "conflict") for name in contrary)
    elif picked:
        missing = [DATABASE_PARTS[part][0] for part in NEEDED if part not in picked]
        errors.extend(
            FieldError(name, f"is required next to {min(picked.values())}", "required") for name in missing
        )
        if not missing and len(parts) == len(picked):
            try:
                origins["database_url"] = _Given(url_of(parts), ", ".join(picked.values()))
            except UnreadableSetting as error:
                errors.append(FieldError(picked.get("port", picked["host"]), str(error), "invalid"))


def _pick_database_parts(
    env: Mapping[str, str], origins: Mapping[str, _Given], errors: list[FieldError]
) -> dict[str, str]:
    """Find the variable of each part. If the URL or a part has the prefix, the plain names are another's."""
    prefixed = {
        part: tuple(PREFIX + name for name in names if PREFIX + name in env)
        for part, names in DATABASE_PARTS.items()
    }
    is_url_prefixed = "database_url" in origins and origins["database_url"].source.startswith(PREFIX)
    is_ours_alone = is_url_prefixed or any(prefixed.values())
    return {
        part: name
        for part, names in DATABASE_PARTS.items()
        if (name := _pick(env, prefixed[part] if is_ours_alone else names, errors))
    }


def _prefixed(names: tuple[str, ...]) -> tuple[str, ...]:
    return names + tuple(PREFIX + name for name in names)


def _check_default_backend(origins: Mapping[str, _Given], errors: list[FieldError]) -> None:
    wanted, backends = origins.get("default_storage_backend_id"), origins.get("storage_backends")
    if wanted and wanted.value not in [each["id"] for each in (backends.value if backends else ())]:
        errors.append(FieldError(wanted.source, "is not the id of a backend in STORAGE_BACKENDS", "unknown"))


def _known() -> set[str]:
    parts = (name for names in DATABASE_PARTS.values() for name in _prefixed(names))
    return {name for setting in TABLE for name in setting.names}.union(parts)


def _without_effect(env: Mapping[str, str]) -> Iterator[FieldError]:
    known = _known()
    for name in sorted(env.keys() - known):
        plain = name.removeprefix(PREFIX)
        if plain in INEFFECTIVE:
            yield FieldError(
                name, f"has no effect; use {INEFFECTIVE[plain]}", "ineffective", INEFFECTIVE[plain]
            )
        elif "STORAGE_PROVIDER" in env and name.startswith(OLD_STORAGE_PREFIXES):
            yield FieldError(name, "has no effect; use STORAGE_BACKENDS", "ineffective", "STORAGE_BACKENDS")
        elif name.startswith(PREFIX) and not name.startswith(RESERVED_PREFIXES):
            yield _unknown(name, _nearest(name, known))
        elif right := _misspelt(name, known):
            yield _unknown(name, right)


def _unknown(name: str, nearest: str | None) -> FieldError:
    meant = f"; did you mean {nearest}?" if nearest else ""
    return FieldError(name, f"is not a setting{meant}", "unknown", nearest)


def _nearest(name: str, known: set[str]) -> str | None:
    """Find the known name nearest to a wrong name; compare it with its prefix first, then without."""
    close = get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    close = close or get_close_matches(name.removeprefix(PREFIX), sorted(known), n=1, cutoff=0.5)
    return close[0] if close else None


def _misspelt(name: str, known: set[str]) -> str | None:
    """Find the setting that a variable without our prefix misspells, if it does."""
    if len(name) < _DISTINCTIVE_LENGTH - 1:
        return None
    for right in sorted(known):
        if len(right) >= _DISTINCTIVE_LENGTH and _is_near(name, right):
            return right
    return None


def _is_near(name: str, right: str) -> bool:
    # Every command compares all of its environment with all settings: bounds that cost little come first.
    if 2 * min(len(name), len(right)) < _MISSPELT_RATIO * (len(name) + len(right)):
        return False
    compared = SequenceMatcher(None, name, right)
    return compared.quick_ratio() >= _MISSPELT_RATIO and compared.ratio() >= _MISSPELT_RATIO
