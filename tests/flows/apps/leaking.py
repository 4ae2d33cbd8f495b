"""Tasks that show their secrets in every way that a task has."""

from __future__ import annotations

import base64
import json
import logging
import sys
from typing import Any
from urllib.parse import quote

from pipeweave import Context, Suspend, TaskError, task

log = logging.getLogger("shop.leaks")


def _show(ctx: Context, secret: str) -> dict[str, Any]:
    """Log, print and report a secret in many forms, and return them."""
    forms = {
        "plain": secret,
        "inside": f"postgresql://shop:{secret}@db/x",
        "json": json.dumps({"password": secret}),
        "base64": base64.b64encode(secret.encode()).decode(),
        "basic": base64.b64encode(f"shop:{secret}".encode()).decode(),
        "url": quote(secret, safe=""),
        secret: "as a key",
    }
    for name, each in forms.items():
        log.info("%s %s", name, each, extra={"secret": each, "nested": {"deep": [each]}})
        ctx.log.warning(f"{each}")
        print(each)
        print(each[:5], end="", file=sys.stderr)
        print(each[5:], file=sys.stderr)
    ctx.progress(50, f"with {secret}")
    return forms


@task(retries=0)
def returns(ctx: Context, one: str, two: str, three: str, four: str) -> Any:
    ctx.add_asset("account.json", {"password": one})
    ctx.add_asset("account.txt", f"{two} {ctx.secret('P04')}")
    return [_show(ctx, each) for each in (one, two, three, four)]


@task(retries=1, retry_delay_ms=1)
def fails(ctx: Context, one: str, two: str, three: str) -> None:
    shown = _show(ctx, one)
    try:
        raise KeyError(two)
    except KeyError:
        log.exception("caught %s", two)
        raise TaskError(f"no login with {three}", code="E_LOGIN", details={"tried": [one, shown]}) from None


@task(retries=0)
def crashes(ctx: Context, one: str) -> None:
    password = ctx.secret("P09")
    _show(ctx, password)
    raise RuntimeError(f"{password} and {one}")


@task(retries=0)
async def waits(ctx: Context, one: str, two: str) -> Any:
    return {"async": _show(ctx, one), "two": two}


@task(retries=0)
def polls(ctx: Context, one: str) -> Suspend:
    _show(ctx, one)
    return Suspend.poll(f"https://shop.example/jobs?token={one}", interval=3600, timeout=3600)


@task(retries=0, idempotency_key=lambda given: f"{given['one']}")
def keyed(ctx: Context, one: str, item: int) -> Any:
    return _show(ctx, one)


@task(retries=0)
def takes(ctx: Context, value: Any) -> Any:
    """Gets what a step before it has returned."""
    return value
