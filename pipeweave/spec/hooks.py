"""What follows the end of a run, or an approval that begins to wait: the hooks that a pipeline declares, and
the reading of them.

A hook is a pipeline that is started, or a URL that is called with a signature. The spec holds no secret: it
names one, which is computed from the deployment's own (`pipeweave.webhooks.hook_secret`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from pipeweave.errors import FieldError, InvalidId
from pipeweave.field_errors import MOST_ERRORS
from pipeweave.ids import check_name
from pipeweave.json_values import json_type

# The members of a pipeline that hold hooks for the end of a run -> the status in which it ended. A cancelled
# run has none.
HOOK_STATUSES: Final = {"onSuccess": "completed", "onPartial": "partial", "onFailure": "failed"}
# The member that holds the hooks for approvals that begin to wait.
ON_WAITING: Final = "onWaiting"
HOOK_NAMES: Final = (*HOOK_STATUSES, ON_WAITING)
MAX_HOOKS: Final = 5
DEFAULT_SECRET: Final = "default"

# No user:password, which would be a secret in a stored document, and no fragment.
URL_PATTERN: Final = (
    r"^https?://([A-Za-z0-9._~-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?([/?][!-\"$-~]{0,1400})?$"
)
_URL: Final = re.compile(URL_PATTERN)


@dataclass(frozen=True, slots=True)
class HookSpec:
    """One hook: a pipeline, or a URL.

    Args:
        pipeline: the id of the pipeline that is started.
        url: what is called by POST.
        secret: the name of the secret that signs the call.
    """

    pipeline: str | None = None
    url: str | None = None
    secret: str = DEFAULT_SECRET

    def to_json(self) -> dict[str, Any]:
        if self.pipeline is not None:
            return {"pipeline": self.pipeline}
        return {"url": self.url, "secret": self.secret}


Hooks = Mapping[str, tuple[HookSpec, ...]]


def hooks_to_json(hooks: Hooks) -> dict[str, Any]:
    """The members of a document: `onFailure` and so on."""
    return {name: [each.to_json() for each in hooks[name]] for name in HOOK_NAMES if hooks.get(name)}


def read_hooks(document: Mapping[str, Any], pipeline_id: str) -> tuple[Hooks, list[FieldError]]:
    """Read the hooks of a document: each a pipeline's id, an object, or a list of these.

    Args:
        document: of a pipeline.
        pipeline_id: its id: it does not start itself.
    """
    hooks: dict[str, tuple[HookSpec, ...]] = {}
    errors: list[FieldError] = []
    for name in HOOK_NAMES:
        entry = document.get(name)
        if entry is None or entry == []:
            continue
        several = entry if isinstance(entry, list) else [entry]
        if len(several) > MAX_HOOKS:
            errors.append(FieldError(name, f"has more than {MAX_HOOKS} hooks", "too_big"))
            continue
        places = [f"{name}[{index}]" if isinstance(entry, list) else name for index in range(len(several))]
        pairs = zip(several, places, strict=True)
        mistakes = [each for hook, place in pairs for each in _mistakes(hook, place, pipeline_id)]
        errors += mistakes
        if not mistakes:
            hooks[name] = tuple(map(_hook, several))
    return hooks, errors[:MOST_ERRORS]


def _hook(hook: Any) -> HookSpec:
    return HookSpec(pipeline=hook) if isinstance(hook, str) else HookSpec(**hook)


def _mistakes(hook: Any, place: str, pipeline_id: str) -> Iterator[FieldError]:
    members = {"pipeline": hook} if isinstance(hook, str) else hook
    if not isinstance(members, Mapping):
        expected = "the id of a pipeline, {pipeline} or {url, secret}"
        yield FieldError(place, f"must be {expected}, not {json_type(hook)}", "invalid_type", expected)
        return
    for name in members.keys() - {"pipeline", "url", "secret"}:
        yield FieldError(f"{place}.{name}"[:200], "is unknown", "unknown_field", "pipeline, url or secret")
    if ("pipeline" in members) == ("url" in members):
        yield FieldError(place, "must have one of pipeline and url", "one_of")
    if "secret" in members and "url" not in members:
        yield FieldError(f"{place}.secret", "belongs to a url", "conflict")
    for name in ("pipeline", "secret"):
        if name in members and not _is_name(members[name]):
            yield FieldError(f"{place}.{name}", f"must be the name of a {name}", "invalid_id")
    if members.get("pipeline") == pipeline_id:
        yield FieldError(place, "is the pipeline itself, which would start itself over and over", "loop")
    if "url" in members and not _is_url(members["url"]):
        expected = "a URL such as https://host/path, without user and password"
        yield FieldError(f"{place}.url", f"must be {expected}", "invalid_url", expected)


def _is_name(value: Any) -> bool:
    try:
        return isinstance(value, str) and check_name(value, "name") == value
    except InvalidId:
        return False


def _is_url(value: Any) -> bool:
    if not isinstance(value, str) or not _URL.match(value):
        return False
    try:
        return urlsplit(value).port != 0
    except ValueError:
        return False
