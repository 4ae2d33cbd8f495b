"""Tasks with assets, uploads, a folder of their own and a log."""

from __future__ import annotations

import logging
import os
import signal
import time
from pathlib import Path

from pipeweave import Context, task


@task
def pack(ctx: Context, rows: list[int]) -> str:
    ctx.log.info("packing", extra={"rows": len(rows)})
    print("printed")
    (ctx.temp_dir / "rows.bin").write_bytes(bytes(rows) * 100_000)
    ctx.add_asset_from_path("rows.bin", ctx.temp_dir / "rows.bin")
    ctx.add_asset("rows.json", rows)
    ctx.add_asset("note", "of pack")
    return str(ctx.temp_dir)


@task
def note(ctx: Context, item: int) -> int:
    ctx.add_asset("note", f"of item {item}")
    return item


@task
def unpack(ctx: Context, before: str) -> dict[str, object]:
    return {
        "size": ctx.get_asset_path("rows.bin").stat().st_size,
        "rows": ctx.get_asset("rows.json"),
        "note": ctx.get_asset("note"),
        "is_gone": not Path(before).exists(),
    }


@task
def open_upload(ctx: Context, file: str) -> list[str]:
    path = ctx.upload(file)
    return [path.name, path.read_text()]


@task(retries=1, retry_delay_ms=1)
def break_off(ctx: Context) -> None:
    ctx.add_asset("half", 1)
    ctx.log.error("breaking off", extra={"attempt_seen": ctx.attempt})
    raise ValueError("broken")


@task(retries=0)
def linger(gate: str) -> None:
    logging.getLogger("shop").info("lingering")
    while not Path(gate).exists():
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGKILL)


@task
def chatter() -> None:
    for _ in range(2_000):
        logging.getLogger("shop").info("x" * 1_000)


@task
def count_lines(ctx: Context, file: str) -> int:
    found = len(ctx.upload(file).read_text().splitlines())
    ctx.log.info("counted", extra={"lines": found})
    return found


@task
def held(ctx: Context, gate: str, filling: str) -> int:
    ctx.log.info("held")
    while not Path(gate).exists():
        time.sleep(0.01)
    return len(filling)
