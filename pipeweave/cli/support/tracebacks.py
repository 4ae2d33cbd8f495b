"""Shorten tracebacks: frames of libraries are counted, frames of the user's own code are shown."""

from __future__ import annotations

import re

_FRAME = re.compile(r'  File "(?P<path>[^"]*)", line \d+')
_LIBRARY = re.compile(r"[/\\](site-packages|dist-packages|python3\.\d+)[/\\]|^<frozen ")


def shortened(traceback: str) -> list[str]:
    """The lines of a traceback; frames of installed packages and of Python itself are only counted.

    All frames are kept if none is the user's own.
    """
    blocks = _blocks(traceback.splitlines())
    if not any(_is_frame(block) and not _is_library(block) for block in blocks):
        return traceback.splitlines()
    lines: list[str] = []
    left_out = 0
    for block in blocks:
        if _is_library(block):
            left_out += 1
            continue
        lines += _counted(left_out)
        left_out = 0
        lines += block
    return lines + _counted(left_out)


def _blocks(lines: list[str]) -> list[list[str]]:
    """Each frame with the source below it, and each other line by itself."""
    blocks: list[list[str]] = []
    for line in lines:
        if line.startswith("    ") and blocks and _is_frame(blocks[-1]):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _is_frame(block: list[str]) -> bool:
    return bool(_FRAME.match(block[0]))


def _is_library(block: list[str]) -> bool:
    match = _FRAME.match(block[0])
    return bool(match and _LIBRARY.search(match["path"]))


def _counted(number: int) -> list[str]:
    if not number:
        return []
    frames = "1 frame" if number == 1 else f"{number} frames"
    return [f"  {frames} of libraries left out; --full shows all"]
