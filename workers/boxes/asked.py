"""Answers what a call in a box asks for, from the Context and the files of its attempt."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from pipeweave.attempt import Files
from pipeweave.authoring import Context
from pipeweave.box.box_logs import MAX_LINE, MAX_LINES, MAX_MEMBERS
from pipeweave.box.frames import PIECE
from pipeweave.errors import InvalidInput, NotFound, SandboxRefused
from pipeweave.json_values import json_faults
from pipeweave.safe_text import storable
from pipeweave.workers.boxes.conversation import Answered
from pipeweave.workers.boxes.relays import Relays

_PRINTED = {each: logging.getLogger(each) for each in ("pipeweave.stdout", "pipeweave.stderr")}


class Asked:
    """The questions of one call.

    Args:
        relays: connect to the addresses of the sandbox.
        secrets: the names that its sandbox allows.
    """

    def __init__(self, context: Context, files: Files, relays: Relays, secrets: Collection[str] = ()) -> None:
        self._context = context
        self._files = files
        self._relays = relays
        self._secrets = secrets
        self._lines_left = MAX_LINES
        self._answers: dict[str, Callable[[dict[str, Any], Iterator[bytes]], Answered]] = {
            "upstream": self._upstream,
            "upstream_names": lambda *_: Answered(list(context.upstream)),
            "callback_url": lambda *_: Answered(context.callback_url),
            "is_cancelled": lambda *_: Answered(context.is_cancelled),
            "secret": self._secret,
            "asset": self._asset,
            "upload": self._upload,
            "add_asset": self._add_asset,
            "connect": self._connect,
        }

    def hear(self, message: dict[str, Any]) -> None:
        """Take a line of the log, or a progress; anything else says nothing."""
        if "progress" in message:
            self._progress(message["progress"], message.get("message"))
        elif isinstance(message.get("log"), str):
            self._log(message)

    def answer(self, what: str, arguments: dict[str, Any], pieces: Iterator[bytes]) -> Answered:
        """Answer a question.

        Raises:
            PipeWeaveError: what was asked for is not done.
        """
        if (answer := self._answers.get(what)) is None:
            raise SandboxRefused(f"a sandbox cannot ask for {what!r:.100}")
        return answer(arguments, pieces)

    def _progress(self, percent: Any, message: Any) -> None:
        is_percent = isinstance(percent, (int, float)) and not isinstance(percent, bool)
        if is_percent and math.isfinite(percent) and 0 <= percent <= 100:
            self._context.progress(
                percent, storable(message)[:MAX_LINE] if isinstance(message, str) else None
            )

    def _log(self, message: dict[str, Any]) -> None:
        self._lines_left -= 1
        if self._lines_left < 0:
            return
        level = message.get("level")
        level = level if type(level) is int and 0 < level <= logging.CRITICAL else logging.INFO
        text = storable(message["log"])[:MAX_LINE]
        if (printed := _PRINTED.get(str(message.get("logger")))) is not None:
            printed.log(level, "%s", text)
        else:
            self._context.log.log(level, "%s", text, extra=_extra(message.get("extra")))

    def _upstream(self, arguments: dict[str, Any], _: Iterator[bytes]) -> Answered:
        step = _text(arguments, "step")
        try:
            return Answered(self._context.upstream[step])
        except KeyError:
            raise NotFound(f"no completed step before this one is {step!r:.200}") from None

    def _secret(self, arguments: dict[str, Any], _: Iterator[bytes]) -> Answered:
        name = _text(arguments, "name")
        if name not in self._secrets:
            raise SandboxRefused(
                f"the sandbox of this task does not allow the secret {name!r:.200}",
                hint="list it in the secrets of its Sandbox",
            )
        return Answered(self._context.secret(name))

    def _asset(self, arguments: dict[str, Any], _: Iterator[bytes]) -> Answered:
        path, type_ = self._files.stored(_text(arguments, "key"))
        return Answered({"type": type_}, _pieces_of(path))

    def _upload(self, arguments: dict[str, Any], _: Iterator[bytes]) -> Answered:
        path = self._files.upload(_text(arguments, "id"))
        return Answered({"name": path.name}, _pieces_of(path))

    def _add_asset(self, arguments: dict[str, Any], pieces: Iterator[bytes]) -> Answered:
        self._files.add_pieces(_text(arguments, "key"), _text(arguments, "type"), pieces)
        return Answered()

    def _connect(self, arguments: dict[str, Any], _: Iterator[bytes]) -> Answered:
        port = arguments.get("port")
        return Answered(
            descriptor=self._relays.connect(_text(arguments, "host"), port if type(port) is int else 0)
        )


def _text(arguments: dict[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or len(value) > 1_000:
        raise InvalidInput(f"{name} must be a text")
    return value


def _pieces_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(PIECE), b"")


def _extra(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MAX_MEMBERS or json_faults(value, budget=MAX_LINE):
        return {}
    return {key: each for key, each in value.items() if key.isidentifier() and not key.startswith("_")}
