"""Doctor's checks of the broker, the storage and the API."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeweave.client import Client
from pipeweave.errors import Forbidden, TenantRequired, Unauthenticated
from pipeweave.orchestrator.diagnosis.doctor import Check, Verdict, error, fine, warning
from pipeweave.orchestrator.messaging.celery_app import make_celery
from pipeweave.orchestrator.messaging.redis_pipeline import RedisPipeline
from pipeweave.settings import Settings
from pipeweave.storage import Backends, Storage

# The oldest Redis version that works; every Valkey is newer.
MIN_BROKER = (6, 2)
API_TIMEOUT_S = 5.0


def _info(settings: Settings, section: str) -> dict[str, str]:
    """One section of the broker's INFO."""
    redis = RedisPipeline(make_celery(settings))
    try:
        (answer,) = redis.execute([("INFO", section)])
    finally:
        redis.close()
    text = answer.decode() if isinstance(answer, bytes) else str(answer)
    pairs = (line.partition(":") for line in text.splitlines() if not line.startswith("#"))
    return {name: value.strip() for name, _, value in pairs}


def broker(settings: Settings) -> Verdict:
    """Redis or Valkey answers, and is new enough."""
    section = _info(settings, "server")
    if "valkey_version" in section:
        return fine(f"Valkey {section['valkey_version']}")
    version = section.get("redis_version", "")
    numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
    if numbers < MIN_BROKER:
        oldest = ".".join(map(str, MIN_BROKER))
        return warning(
            f"Redis {version or 'of unknown version'}", f"Redis {oldest} is the oldest that is known to work"
        )
    return fine(f"Redis {version}")


def memory(settings: Settings) -> Verdict:
    """The broker never evicts keys to make room."""
    section = _info(settings, "memory")
    policy, most = section.get("maxmemory_policy", "noeviction"), section.get("maxmemory", "0")
    if policy == "noeviction":
        return fine("maxmemory-policy is noeviction")
    hint = "set maxmemory-policy noeviction: an evicted message is sent again only after seconds"
    if most == "0":
        return warning(f"maxmemory-policy is {policy}, but maxmemory is not set", hint)
    return error(f"maxmemory-policy is {policy}: messages may be evicted", hint)


def persistence(settings: Settings) -> Verdict:
    """Whether the broker's messages survive a restart. Always fine: the tick sends lost messages again."""
    section = _info(settings, "persistence")
    if section.get("aof_enabled") == "1":
        return fine("the broker keeps an append-only file")
    return fine("the broker keeps no append-only file: after a restart, the tick sends queued messages again")


def storage(settings: Settings) -> Verdict:
    """An object can be written, read and deleted in every storage backend."""
    if not settings.storage_backends and not Path(settings.data_dir).exists():
        return fine(f"files below {settings.data_dir}; the folder does not exist yet")
    backends = Backends.of(settings)
    wrong = [each for each in backends.ids if not _keeps_objects(backends.get(each))]
    if wrong:
        return error(
            f"backend {', '.join(wrong)}: the object read is not the object written",
            "another program writes to the same storage",
        )
    shown = ", ".join(_shown(settings, backends.entry(each)) for each in backends.ids)
    return fine(f"{shown}: written, read and deleted")


def _keeps_objects(storage: Storage) -> bool:
    path, content = f"probes/doctor-{secrets.token_hex(8)}", secrets.token_bytes(16)
    storage.put(path, content)
    try:
        return storage.get(path) == content
    finally:
        storage.delete(path)


def _shown(settings: Settings, entry: Mapping[str, Any]) -> str:
    if not settings.storage_backends:
        return f"files below {settings.data_dir}"
    return f"backend {entry['id']} ({entry['provider']})"


def api(settings: Settings) -> Verdict:
    """The API answers, and accepts the token."""
    if not settings.orchestrator_url:
        return fine("not checked: PIPEWEAVE_ORCHESTRATOR_URL is not set")
    with Client(
        settings.orchestrator_url, settings.api_token, settings.tenant, timeout=API_TIMEOUT_S
    ) as client:
        health = client.health()
        try:
            client.runs(limit=1)
        except (Unauthenticated, Forbidden, TenantRequired) as problem:
            hint = "`pipeweave token create NAME` makes one; set PIPEWEAVE_API_TOKEN"
            return error(f"{settings.orchestrator_url} refuses the token: {problem.detail}", hint)
    if health["status"] != "ok":
        return warning(
            f"{settings.orchestrator_url} is {health['status']}", str(health.get("degraded") or "see its log")
        )
    return fine(f"{settings.orchestrator_url} answers")


CHECKS = (
    Check("broker", broker),
    Check("broker memory", memory, needs=("broker",)),
    Check("broker persistence", persistence, needs=("broker",)),
    Check("storage", storage),
    Check("api", api),
)
