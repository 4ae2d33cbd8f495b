"""What tasks print becomes lines of the log."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
import threading
from pathlib import Path

import pytest

from pipeweave.attempt import printed_lines
from pipeweave.attempt.printed_lines import LONGEST_LINE, PrintedLines
from pipeweave.masking import Masking, Masks


@pytest.fixture
def original() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def stream(original: io.StringIO, caplog: pytest.LogCaptureFixture) -> PrintedLines:
    caplog.set_level(logging.INFO)
    return PrintedLines(original, "printed", logging.INFO)


def test_a_line_is_logged_when_it_ends(stream: PrintedLines, caplog: pytest.LogCaptureFixture) -> None:
    print("a", "b", file=stream)
    print("c", end="", file=stream)
    assert caplog.messages == ["a b"]
    stream.end_line()
    stream.end_line()
    assert caplog.messages == ["a b", "c"]


def test_a_progress_bar_is_logged_in_its_last_state(
    stream: PrintedLines, caplog: pytest.LogCaptureFixture
) -> None:
    for done in range(3):
        print(f"\r{done}/2", end="", flush=True, file=stream)
    print(file=stream)
    assert caplog.messages == ["2/2"]


def test_a_long_line_is_logged_in_pieces(stream: PrintedLines, caplog: pytest.LogCaptureFixture) -> None:
    stream.write("x" * (2 * LONGEST_LINE + 1))
    stream.end_line()
    assert [len(each) for each in caplog.messages] == [LONGEST_LINE, LONGEST_LINE, 1]


@pytest.mark.parametrize("written_at_once", [1, 5, 7_000, 30_000])
def test_a_secret_is_hidden_wherever_pieces_of_a_line_end(
    written_at_once: int, stream: PrintedLines, caplog: pytest.LogCaptureFixture
) -> None:
    masks = Masks()
    masks.add("hunter2-hunter2")
    before = "x" * (LONGEST_LINE - 7)
    text = f"{before}hunter2-hunter2{before}hunter2-hunter2"
    with Masking(masks):
        for start in range(0, len(text), written_at_once):
            stream.write(text[start : start + written_at_once])
        stream.end_line()
    assert "".join(caplog.messages) == f"{before}***{before}***"


def test_threads_do_not_mix_their_lines(stream: PrintedLines, caplog: pytest.LogCaptureFixture) -> None:
    stream.write("mine ")
    other = threading.Thread(target=lambda: print("yours", file=stream))
    other.start()
    other.join()
    print("again", file=stream)
    assert caplog.messages == ["yours", "mine again"]


def test_an_error_of_the_logging_itself_goes_to_the_original(
    stream: PrintedLines, original: io.StringIO
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print("handler failed", file=stream)

    broken = Broken()
    logging.getLogger("printed").addHandler(broken)
    try:
        print("a", file=stream)
    finally:
        logging.getLogger("printed").removeHandler(broken)
    assert original.getvalue() == "handler failed\n"


def test_a_text_without_line_ends_is_cut_once(stream: PrintedLines, caplog: pytest.LogCaptureFixture) -> None:
    stream.write("x" * (1_000 * LONGEST_LINE))
    assert len(caplog.messages) == 1_000


def test_it_has_the_members_of_a_text_file_and_stays_open(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    with (tmp_path / "out").open("w") as original:
        stream = PrintedLines(original, "printed", logging.INFO)
        stream.reconfigure(line_buffering=True)
        assert stream.name == original.name
        stream.close()
        assert not stream.closed
        print("still here", file=stream)
    assert caplog.messages == ["still here"]


def test_lines_go_to_the_original_when_loggers_were_disabled(
    stream: PrintedLines, original: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("printed"), "disabled", True)
    print("hello", file=stream)
    assert original.getvalue() == "hello\n"


def test_the_end_of_a_call_puts_the_streams_back(
    original: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_lines, "_captured", [])
    monkeypatch.setattr("sys.stdout", original)
    monkeypatch.setattr("sys.stderr", original)
    printed_lines.capture()
    ours = sys.stdout
    sys.stdout = io.StringIO()
    printed_lines.end_lines()
    assert sys.stdout is ours


def test_the_end_of_a_call_enables_the_loggers_that_it_disabled(
    original: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_lines, "_captured", [])
    monkeypatch.setattr("sys.stdout", original)
    monkeypatch.setattr("sys.stderr", original)
    printed_lines.capture()
    other = logging.getLogger("pipeweave.workers.consumer.runner")
    monkeypatch.setattr(logging.getLogger("pipeweave.stdout"), "disabled", True)
    monkeypatch.setattr(other, "disabled", True)
    printed_lines.end_lines()
    assert not other.disabled


def test_what_was_captured_is_released(original: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_lines, "_captured", [])
    monkeypatch.setattr("sys.stdout", original)
    monkeypatch.setattr("sys.stderr", original)
    printed_lines.capture()
    printed_lines.release()
    assert sys.stdout is original and sys.stderr is original
    sys.stdout = later = io.StringIO()
    printed_lines.end_lines()
    assert sys.stdout is later


def test_calls_in_one_thread_keep_the_lines_apart_that_they_begin(
    stream: PrintedLines, caplog: pytest.LogCaptureFixture
) -> None:
    async def call(number: int) -> None:
        printed_lines.begin_own_lines()
        print(number, end="", file=stream)
        await asyncio.sleep(0)
        print(" ends", end="", file=stream)
        stream.end_line()

    async def both() -> None:
        await asyncio.gather(call(1), call(2))

    asyncio.run(both())
    assert caplog.messages == ["1 ends", "2 ends"]
