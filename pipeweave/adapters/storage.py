"""The adapter `storage`: values under names, which runs of one tenant leave for runs to come."""

from __future__ import annotations

import re
from typing import Any

import orjson

from pipeweave.adapters.exchange import refusal
from pipeweave.authoring import Context
from pipeweave.authoring.adapter import action, adapter
from pipeweave.authoring.deployment_means import NamedValues
from pipeweave.errors import InvalidSetting, TaskError
from pipeweave.size_limits import MAX_NAMED_BYTES

MAX_NAME_CHARS = 200
MAX_LISTED = 1_000
NAME_EXPECTED = f"1 to {MAX_NAME_CHARS} letters, digits and . _ ~ : @ -, in folders separated by /"
_PART = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~:@-]+"
_NAME = re.compile(rf"{_PART}(?:/{_PART})*\Z")
_PREFIX = re.compile(rf"(?:{_PART}/)*(?:[A-Za-z0-9._~:@-]*)\Z")


@adapter("storage")
class StorageAdapter:
    """The tenant's named values. Two runs that write one name at the same time: the later one stays."""

    @action
    def put(self, ctx: Context, name: str, value: Any = None) -> dict[str, Any]:
        """Store a value under a name, or replace it; the output is {name, size}."""
        content = orjson.dumps(value)
        if len(content) > MAX_NAMED_BYTES:
            raise TaskError(
                f"the value has {len(content):,} bytes; a named value may have {MAX_NAMED_BYTES:,}",
                code="OBJECT_TOO_LARGE",
                retryable=False,
            )
        _values(ctx).put(_name(name), content)
        return {"name": name, "size": len(content)}

    @action
    def get(self, ctx: Context, name: str, default: Any = None) -> Any:
        """The value of a name; `default`, or null, if there is none."""
        content = _values(ctx).get(_name(name))
        return default if content is None else orjson.loads(content)

    @action
    def delete(self, ctx: Context, name: str) -> dict[str, Any]:
        """Delete a name; the output is {name, wasThere}."""
        return {"name": name, "wasThere": _values(ctx).delete(_name(name))}

    @action
    def list(self, ctx: Context, prefix: str = "", after: str = "", limit: int = 100) -> dict[str, Any]:
        """The names that begin with `prefix`: {values: [{name, size, modifiedAt}], next}.

        Args:
            after: only names behind this one: `next` of the page before, which is null at the end.
            limit: how many at most, up to 1,000.
        """
        if not _PREFIX.match(prefix) or len(prefix) > MAX_NAME_CHARS:
            raise refusal("prefix", f"must be the beginning of {NAME_EXPECTED}")
        if not 1 <= limit <= MAX_LISTED:
            raise refusal("limit", f"must be from 1 to {MAX_LISTED:,}")
        listed = _values(ctx).list(prefix, after and _name(after, "after"), limit)
        shown = [
            {"name": each.name, "size": each.size, "modifiedAt": each.modified_at.isoformat()}
            for each in listed
        ]
        return {"values": shown, "next": listed[-1].name if len(listed) == limit else None}


def _name(name: str, parameter: str = "name") -> str:
    if not _NAME.match(name) or len(name) > MAX_NAME_CHARS:
        raise refusal(parameter, f"must be {NAME_EXPECTED}")
    return name


def _values(ctx: Context) -> NamedValues:
    if ctx.deployment is None:
        raise InvalidSetting("only workers of Celery (`pipeweave worker`) reach the storage of the tenant")
    return ctx.deployment.named_values(ctx.tenant)
