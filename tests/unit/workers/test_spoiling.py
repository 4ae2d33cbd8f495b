"""What a task leaves behind in its process is found, and put right as far as that goes."""

from __future__ import annotations

import subprocess
import sys

import orjson
import pytest

from pipeweave.workers.consumer.spoiling import Belongings

# Each lowers a limit or uses up descriptors: that is done in a process of its own.
PROGRAM = """
import os, resource
from pipeweave.workers.consumer.spoiling import Belongings
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
belongings = Belongings(ask_every_s=0)
assert belongings.put_right() is None
{spoil}
print(belongings.put_right())
print(belongings.put_right())
"""


def said_after(spoil: str) -> list[str]:
    """What is found after these lines, and what is found then."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(spoil=spoil)], capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")[:2]


def test_what_nobody_changed_is_in_order() -> None:
    belongings = Belongings(ask_every_s=0)
    assert [belongings.put_right() for _ in range(2)] == [None, None]


def test_functions_of_the_json_library_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    belongings = Belongings()
    dumps = orjson.dumps
    monkeypatch.setattr(orjson, "dumps", lambda *_, **__: b"null")
    assert belongings.put_right() == "functions of orjson were replaced"
    assert orjson.dumps is dumps
    assert belongings.put_right() is None


def test_a_limit_that_was_lowered_is_raised_again() -> None:
    lower = "resource.setrlimit(resource.RLIMIT_AS, (2**32, resource.getrlimit(resource.RLIMIT_AS)[1]))"
    assert said_after(lower) == ["the limit of memory was lowered", "None"]


def test_a_limit_that_was_raised_is_no_harm() -> None:
    raised = (
        "resource.setrlimit(resource.RLIMIT_NOFILE, (250, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))"
    )
    assert said_after(raised) == ["None", "None"]


@pytest.mark.parametrize(
    ("most", "found"), [(90, "None"), (150, "about"), (200, "there are no descriptors left")]
)
def test_descriptors_that_are_never_closed_are_noticed(most: int, found: str) -> None:
    open_ = f"""
try:
    while os.dup(0) < {most}: pass
except OSError: pass
"""
    assert [each.split(" 1")[0] for each in said_after(open_)] == [found, found]
