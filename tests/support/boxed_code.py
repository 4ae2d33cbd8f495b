"""What tests run inside of a box: any source, with a few words for those who try to get out."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
from typing import Any

from pipeweave import Context, Suspend

libc = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: Any) -> int:
    """Call the kernel itself, without any library.

    Raises:
        OSError: it was refused.
    """
    returned = libc.syscall(number, *arguments)
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(returned)


def checked(returned: int) -> int:
    """The value that a function of the C library has returned.

    Raises:
        OSError: it is negative.
    """
    if returned < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return returned


def connection() -> socket.socket:
    """The box's own connection to its parent."""
    # It has the number that it had in its parent, which may have many open files.
    for number in range(3, 20_000):
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                return socket.socket(fileno=os.dup(number))
        except OSError:
            continue
    raise AssertionError("there is no connection")


def frame(content: bytes, kind: bytes = b"J") -> bytes:
    """Bytes as a frame."""
    return struct.pack("!I", len(content)) + kind + content


def run(source: str, ctx: Context) -> Any:
    """Execute a source; its `outcome` is the output."""
    names = {
        "ctx": ctx,
        "libc": libc,
        "system_call": system_call,
        "checked": checked,
        "ctypes": ctypes,
        "connection": connection,
        "frame": frame,
        "os": os,
        "outcome": None,
    }
    exec(compile(source, "<hostile>", "exec"), names)
    return names["outcome"]


def attempt(source: str, ctx: Context) -> dict[str, Any]:
    """Execute a source that is to be refused, and say by what; or that nothing did."""
    try:
        return {"allowed": repr(run(source, ctx))[:500]}
    except Exception as error:
        return {"refused": type(error).__name__, "errno": getattr(error, "errno", None), "text": str(error)}


def plus(a: int, b: int) -> int:
    """A function as tasks have them."""
    return a + b


def suspends(kind: str, ctx: Context) -> Suspend:
    """Hand the work on."""
    if kind == "poll":
        return Suspend.poll("https://shop.example/jobs/1", interval="1m", tries=3)
    ctx.add_asset("url.txt", ctx.callback_url)
    return Suspend.callback(timeout="1h")


async def waiting(a: int) -> int:
    """An `async def` function."""
    import asyncio

    await asyncio.sleep(0.001)
    return a
