"""Build the environment of each process that `up` starts, without the settings that `up` itself sets."""

from __future__ import annotations

from collections.abc import Mapping

from pipeweave.settings import common_texts, environment, explain
from pipeweave.settings.database_url import DATABASE_PARTS
from pipeweave.settings.table import PREFIX, TABLE
from pipeweave.up.options import UpOptions

# Variables that programs and Python need; none of them is secret.
_PLAIN = {
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"),
}
_PLAIN_PREFIXES = ("LC_", "PYTHON")
# Settings that `up` sets for its processes; the user's values could contradict them.
_DECIDED = {
    *("database_url", "broker_url", "secret_key", "mode", "tenant", "host", "port"),
    *("data_dir", "orchestrator_url", "api_token", "env_file"),
}
_SERVERS = {"database_url", "broker_url"}


def for_program(own: Mapping[str, str]) -> dict[str, str]:
    """For PipeWeave's processes: the plain variables, the user's other settings, and `own`."""
    settings = {name for setting in TABLE for name in setting.names} - _decided()
    passed = {
        name: value
        for name, value in environment().items()
        if name in _PLAIN or name in settings or name.startswith(_PLAIN_PREFIXES)
    }
    return {**passed, "PYTHONUNBUFFERED": "1", **own}


def for_worker(own: Mapping[str, str]) -> dict[str, str]:
    """For a worker: all of the user's variables, because tasks may read them, and `own`.

    PipeWeave's servers have their prefixed names, so that DATABASE_URL, BROKER_URL and DB_… are the user's.
    """
    servers = _names_of(_SERVERS) | _database_parts()
    theirs = {name for name in servers if not name.startswith(PREFIX)}
    decided = _decided() - theirs
    passed = {name: value for name, value in environment().items() if name not in decided}
    ours = {PREFIX + name if name in theirs else name: value for name, value in own.items()}
    return {**passed, "PYTHONUNBUFFERED": "1", **ours}


def settings_of(options: UpOptions) -> dict[str, str]:
    """The settings of the stack's processes by name, without defaults.

    Of the secret ones only what its processes must share beside the key: the credentials of STORAGE_BACKENDS.
    """
    decided = _names_of(_DECIDED)
    secret = {setting.name for setting in TABLE if setting.mask}
    passed = {
        row.name: row.value
        for row in explain()
        if row.value is not None and row.source != "default" and row.name not in decided | secret
    }
    common = {name: text for name, text in common_texts().items() if name not in decided}
    return {
        **networks(),
        **passed,
        **common,
        "MODE": options.mode,
        "MAX_CONCURRENCY": str(options.concurrency),
        "PIPEWEAVE_HOST": options.host,
        "PORT": str(options.port),
    }


def networks() -> dict[str, str]:
    """HTTP workers beside the stack are on this machine, or near it, unless the user says otherwise."""
    name = "DISPATCH_NETWORKS"
    is_given = any(environment().get(each, "").strip() for each in (name, PREFIX + name))
    return {} if is_given else {name: "loopback,private"}


def without_effect() -> list[str]:
    """List the set variables that name a database or broker; `up` ignores them and runs its own servers."""
    return sorted(environment().keys() & (_names_of(_SERVERS) | _database_parts()))


def _decided() -> set[str]:
    return _names_of(_DECIDED) | _database_parts()


def _names_of(fields: set[str]) -> set[str]:
    return {name for setting in TABLE if setting.field in fields for name in setting.names}


def _database_parts() -> set[str]:
    plain = {name for names in DATABASE_PARTS.values() for name in names}
    return plain | {PREFIX + name for name in plain}
