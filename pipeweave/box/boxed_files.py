"""The files of a call in a box: what it keeps and what it reads goes through its parent, piece by piece.

The process itself writes into its folder; the parent opens no file that the box could have put there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeweave.attempt.asset_values import BINARY, asset_bytes, asset_value, checked_key
from pipeweave.box.channel import Channel
from pipeweave.box.frames import PIECE
from pipeweave.errors import FieldError, InvalidInput, SandboxRefused


class BoxedFiles:
    """The `AttemptFiles` of a call in a box.

    Args:
        tmp: its folder; None if it has none.
    """

    def __init__(self, channel: Channel, tmp: Path | None) -> None:
        self._channel = channel
        self._tmp = tmp

    @property
    def temp_dir(self) -> Path:
        return self._place("work")

    def add(self, key: str, value: Any) -> None:
        content, type_ = asset_bytes(value)
        self._send(checked_key(key), type_, _pieces_of(content))

    def add_path(self, key: str, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._send(checked_key(key), BINARY, iter(lambda: file.read(PIECE), b""))
        except OSError as error:
            wrong = FieldError("path", f"cannot be read: {error.strerror}")
            raise InvalidInput(f"{str(path)!r} {wrong.message}", errors=[wrong]) from error

    def get(self, key: str) -> Any:
        content = bytearray()
        answer = self._channel.ask_for_pieces("asset", content.extend, key=checked_key(key))
        return asset_value(bytes(content), answer["type"])

    def get_path(self, key: str) -> Path:
        path = self._place("upstream") / checked_key(key)
        with path.open("wb") as file:
            self._channel.ask_for_pieces("asset", file.write, key=key)
        return path

    def upload(self, upload_id: str) -> Path:
        folder = self._place("uploads") / checked_key(upload_id)
        folder.mkdir(exist_ok=True)
        part = folder / ".part"
        with part.open("wb") as file:
            answer = self._channel.ask_for_pieces("upload", file.write, id=upload_id)
        return part.rename(folder / (Path(str(answer["name"])).name or "file"))

    def _send(self, key: str, type_: str, pieces: Iterator[bytes]) -> None:
        def all_of_them() -> Iterator[bytes]:
            yield from pieces
            yield b""

        self._channel.ask_with("add_asset", all_of_them(), key=key, type=type_)

    def _place(self, name: str) -> Path:
        if self._tmp is None:
            raise SandboxRefused(
                "this call has no folder: its sandbox has no files",
                hint='write files=["tmp"] in its Sandbox',
            )
        place = self._tmp / name
        place.mkdir(exist_ok=True)
        return place


def _pieces_of(content: bytes) -> Iterator[bytes]:
    return (content[start : start + PIECE] for start in range(0, len(content), PIECE))
