"""Values in files of a folder, as Docker and Kubernetes mount secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pipeweave.errors import SecretDenied, Unavailable
from pipeweave.secrets.provider import MAX_SECRET_BYTES, readable


class SecretFiles:
    """A folder of files, one for each secret. A newline at the end of a file is not part of its value.

    Args:
        path: the folder; links in it that lead out of it are not followed.
    """

    def __init__(self, path: str) -> None:
        self._folder = Path(path)

    def get(self, place: str) -> str | None:
        try:
            folder = self._folder.resolve()
            path = (folder / place).resolve()
            if not path.is_relative_to(folder):
                raise SecretDenied(f"the file of the secret {place!r} lies outside of the folder")
            # Of a pipe, which would block, nothing is read.
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except PermissionError:
            raise SecretDenied(f"this process may not read the file of the secret {place!r}") from None
        except (OSError, RuntimeError) as error:
            raise Unavailable(f"the folder of secrets cannot be read: {type(error).__name__}") from None
        return self._value(file, place)

    def _value(self, file: int, place: str) -> str | None:
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            content = os.read(file, MAX_SECRET_BYTES + 2)
        finally:
            os.close(file)
        return readable(content.removesuffix(b"\n").removesuffix(b"\r"), place)
