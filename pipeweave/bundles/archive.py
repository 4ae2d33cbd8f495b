"""Writes the files of a bundle as a ZIP archive, and reads such an archive back.

There is one way to write an archive: the files in the order of their names, stored as they are, one date, no
extra field and no comment. The reader walks from file to file, writes what it has read again, and compares.
So every other archive is refused, whatever its trick is: compressed or encrypted files, two headers that
differ, files that overlap or are there twice, bytes before, between or after.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping

from pipeweave.bundles.file_names import name_fault
from pipeweave.errors import FieldError, InvalidBundle

MAX_BUNDLE_BYTES = 50 * 1024 * 1024
"""The size of a bundle, at most (50 MiB)."""

MAX_FILES = 5_000
"""The files of a bundle, at most; the manifest and the signature are two of them."""

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_LOCAL_MARK, _CENTRAL_MARK, _END_MARK = b"PK\3\4", b"PK\1\2", b"PK\5\6"

_VERSION = 20
# Made by Unix, so that the mode of a file counts: an ordinary one, which its owner may write.
_MADE_BY = 3 << 8 | _VERSION
_MODE = 0o100644 << 16
# Names are UTF-8.
_FLAGS = 0x800
_STORED = 0
# 1980-01-01, the first day of ZIP.
_TIME, _DATE = 0, 0x21


def pack(files: Mapping[str, bytes]) -> bytes:
    """Write an archive. The same files give the same bytes, on every machine."""
    body, directory = bytearray(), bytearray()
    for name in sorted(files):
        content, written = files[name], name.encode()
        crc, size, at = zlib.crc32(content), len(content), len(body)
        said = (_FLAGS, _STORED, _TIME, _DATE, crc, size, size, len(written), 0)
        body += _LOCAL.pack(_LOCAL_MARK, _VERSION, *said) + written + content
        place = (0, 0, 0, _MODE, at)
        directory += _CENTRAL.pack(_CENTRAL_MARK, _MADE_BY, _VERSION, *said, *place) + written
    number = len(files)
    end = _END.pack(_END_MARK, 0, 0, number, number, len(directory), len(body), 0)
    return bytes(body + directory + end)


def unpack(archive: bytes) -> dict[str, bytes]:
    """Read an archive that `pack` has written.

    Raises:
        InvalidBundle: it is too large, or is not such an archive.
    """
    if len(archive) > MAX_BUNDLE_BYTES:
        raise _refused(f"is larger than {MAX_BUNDLE_BYTES} bytes", "too_large")
    files: dict[str, bytes] = {}
    for name, content in _files(archive):
        if (fault := name_fault(name)) is not None:
            raise _refused(f"has a file whose name {fault}: {name[:100]!r}", "invalid_name")
        if name in files:
            raise _refused(f"has {name!r} twice", "duplicate")
        if len(files) == MAX_FILES:
            raise _refused(f"has more than {MAX_FILES} files", "limit_exceeded")
        files[name] = content
    if not files or pack(files) != archive:
        raise _refused("is not an archive as `pipeweave bundle build` writes it", "not_canonical")
    return files


def _files(archive: bytes) -> Iterator[tuple[str, bytes]]:
    at = 0
    while archive[at : at + 4] == _LOCAL_MARK:
        begin = at + _LOCAL.size
        if begin > len(archive):
            raise _refused("ends within a file", "cut_off")
        _, _, flags, method, _, _, _, size, _, name_length, extra = _LOCAL.unpack_from(archive, at)
        if method != _STORED or flags != _FLAGS or extra:
            raise _refused("has a file that is compressed, encrypted or has an extra field", "unsupported")
        content, at = begin + name_length, begin + name_length + size
        if at > len(archive):
            raise _refused("ends within a file", "cut_off")
        yield _name(archive[begin:content]), archive[content:at]


def _name(written: bytes) -> str:
    try:
        return written.decode()
    except UnicodeDecodeError:
        raise _refused("has a file whose name is not UTF-8", "invalid_name") from None


def _refused(problem: str, code: str) -> InvalidBundle:
    return InvalidBundle(f"the bundle {problem}", errors=[FieldError("bundle", problem, code)])
