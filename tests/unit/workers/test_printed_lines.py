"""What tasks print becomes lines of the log."""

from __future__ import annotations

import io
import logging
import threading

import pytest

from pipeweave.workers.consumer.printed_lines import LONGEST_LINE, PrintedLines


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
