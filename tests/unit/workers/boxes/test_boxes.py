"""How a call in a box ends: by a result, an exception, a limit, or the end of the box."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.boxing import TMP, boxes_of, call, spec_of
from support.servers import WAIT_DEADLINE_S

from pipeweave.authoring import RaisedElsewhere
from pipeweave.errors import (
    AttemptTimedOut,
    InvalidResult,
    SandboxCpuExceeded,
    SandboxCrashed,
    SandboxMemoryExceeded,
    SandboxOutputTooLarge,
    SandboxUnavailable,
)
from pipeweave.sandbox import Sandbox
from pipeweave.secrets import AttemptSecrets
from pipeweave.workers.boxes import Boxes, why_none

pytestmark = pytest.mark.usefixtures("machine_with_boxes")

SMALL = Sandbox(memory="64M", cpu="300ms", files=["tmp"])


@pytest.fixture(scope="module")
def boxes() -> Iterator[Boxes]:
    before = logging.root.level
    logging.root.setLevel(logging.INFO)  # a box logs at the level of its parent
    with boxes_of() as made:
        yield made
    logging.root.setLevel(before)


def run(boxes: Boxes, source: str, **options: Any) -> Any:
    return call(boxes, spec_of("run", options.pop("sandbox", TMP)), {"source": source}, **options)


def pid_of(boxes: Boxes) -> int:
    return int(run(boxes, "outcome = os.getpid()"))


def test_a_call_returns_what_the_function_returns(boxes: Boxes) -> None:
    assert call(boxes, spec_of("plus"), {"a": 1, "b": 2}) == 3
    assert call(boxes, spec_of("waiting"), {"a": 5}) == 5


def test_parameters_are_checked_in_the_box(boxes: Boxes) -> None:
    with pytest.raises(RaisedElsewhere) as caught:
        call(boxes, spec_of("plus"), {"a": "x", "b": 2})
    assert caught.value.raised.code == "INVALID_PARAMS"
    assert not caught.value.raised.retryable


def test_an_exception_arrives_with_its_traceback_and_leaves_the_box_usable(boxes: Boxes) -> None:
    before = pid_of(boxes)
    source = (
        "from pipeweave import TaskError\nraise TaskError('no', code='NO', retryable=False, details={'a': 1})"
    )
    with pytest.raises(RaisedElsewhere) as caught:
        run(boxes, source)
    raised = caught.value.raised
    assert (raised.code, raised.message, raised.retryable, raised.details) == ("NO", "no", False, {"a": 1})
    assert raised.traceback is not None and "<hostile>" in raised.traceback
    assert "pipeweave/box" not in raised.traceback
    assert pid_of(boxes) == before


def test_what_a_call_logs_prints_and_reports_arrives(boxes: Boxes, caplog: pytest.LogCaptureFixture) -> None:
    reported: list[Any] = []
    source = """
print("printed"); ctx.log.warning("logged", extra={"rows": 3}); ctx.progress(50, "half")
outcome = [ctx.upstream["a"], sorted(ctx.upstream), "b" in ctx.upstream, ctx.is_cancelled, ctx.run_id]
"""
    with caplog.at_level(logging.INFO):
        seen = run(boxes, source, upstream={"a": [1]}, on_progress=lambda *each: reported.append(each))
    assert seen == [[1], ["a"], False, False, "prun_1"]
    assert reported == [(50.0, "half")]
    lines = {each.getMessage(): each for each in caplog.records}
    assert lines["printed"].name == "pipeweave.stdout"
    assert lines["logged"].levelno == logging.WARNING and vars(lines["logged"])["rows"] == 3


def test_a_call_gets_the_secrets_that_its_sandbox_lists_and_no_other(boxes: Boxes) -> None:
    listed = Sandbox(memory="256M", secrets=["API_KEY"])
    secrets = AttemptSecrets({"API_KEY": "the key", "OTHER": "another"}.__getitem__)
    source = "outcome = ctx.secret('API_KEY') == 'the key'"
    assert run(boxes, source, sandbox=listed, secrets=secrets) is True
    for sandbox, name in ((listed, "OTHER"), (TMP, "API_KEY")):
        with pytest.raises(RaisedElsewhere, match=f"does not allow the secret '{name}'") as caught:
            run(boxes, f"ctx.secret({name!r})", sandbox=sandbox, secrets=secrets)
        assert (caught.value.raised.code, caught.value.raised.retryable) == ("SANDBOX_REFUSED", False)


def test_assets_go_through_the_parent(boxes: Boxes) -> None:
    source = """
ctx.add_asset("a.json", {"x": 1}); ctx.add_asset("big", b"z" * 1_000_000)
open("own.txt", "w").write("own"); ctx.add_asset_from_path("own", "own.txt")
outcome = [ctx.get_asset("a.json"), len(ctx.get_asset("big")), ctx.get_asset_path("own").read_text()]
"""
    assert run(boxes, source) == [{"x": 1}, 1_000_000, "own"]


def test_a_link_is_no_asset(boxes: Boxes, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    with pytest.raises(RaisedElsewhere, match="Permission denied"):
        run(boxes, f"ctx.add_asset_from_path('a', {str(secret)!r})")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("os._exit(0)", "exited with code 0"),
        ("os._exit(3)", "exited with code 3"),
        ("os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("os.abort()", "killed by signal 6"),
        ("ctypes.string_at(0)", "killed by signal 11"),
        ("os.kill(os.getpid(), 31)", "killed by signal 31"),
        ("connection().sendall(b'x' * 100)", "no frame"),
        ("connection().sendall(frame(b'{')); os._exit(0)", "not JSON"),
        ("connection().sendall(frame(b'[1]'))", "no object"),
        ("connection().sendall(frame(b'x', b'R'))", "bytes came"),
        ("connection().sendall(frame(b'x' * 50)[:20]); os._exit(0)", "exited with code 0"),
        ("""connection().sendall(frame(b'{"returned": "other"}') + frame(b'1', b'R'))""", "another call"),
        ("""connection().sendall(frame(b'{"failed": "other"}'))""", "another call"),
        ("""connection().sendall(frame(b'{"ask": 1}'))""", "no subject"),
        ("""connection().sendall(frame(b'{"ask": "x", "what": "asset", "arguments": {}}'))""", "no subject"),
        ("connection().shutdown(2); import time; time.sleep(60)", "closed its connection"),
    ],
)
def test_a_box_that_ends_or_says_nonsense_has_crashed(boxes: Boxes, source: str, error: str) -> None:
    with pytest.raises(SandboxCrashed, match=error):
        run(boxes, source)
    assert spec_of() not in boxes._boxes, "it is used no more"


@pytest.mark.parametrize(
    "source",
    [
        "connection().sendall(b'\\xff\\xff\\xff\\xffJ')",
        "connection().sendall(b'\\x09\\0\\0\\0J')",
    ],
)
def test_a_frame_that_would_be_too_long_is_not_read(boxes: Boxes, source: str) -> None:
    with pytest.raises(SandboxOutputTooLarge):
        run(boxes, source)


@pytest.mark.parametrize(
    "source",
    [
        "while True: pass",
        "import threading\n"
        "for _ in range(4): threading.Thread(target=lambda: [0 for _ in iter(int, 1)]).start()\n"
        "while True: pass",
        "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    ],
)
def test_processor_time_ends_a_call(boxes: Boxes, source: str) -> None:
    with pytest.raises(SandboxCpuExceeded, match=r"more than 0\.3 s"):
        run(boxes, source, sandbox=SMALL)


def test_the_processor_time_of_calls_does_not_add_up(boxes: Boxes) -> None:
    source = (
        "import time\nend = time.process_time() + 0.15\n"
        "while time.process_time() < end: pass\noutcome = os.getpid()"
    )
    assert len({run(boxes, source, sandbox=SMALL) for _ in range(4)}) == 1


@pytest.mark.parametrize(
    "source",
    [
        "bytearray(1 << 40)",
        "'x' * (1 << 33)",
        "import mmap\nkept = [mmap.mmap(-1, 1 << 24) for _ in range(100)]",
        "import threading, time\n"
        "for _ in range(10_000): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    ],
)
def test_memory_ends_a_call(boxes: Boxes, source: str) -> None:
    with pytest.raises((SandboxMemoryExceeded, SandboxCrashed, RaisedElsewhere)) as caught:
        run(boxes, source, sandbox=SMALL)
    assert not isinstance(caught.value, RaisedElsewhere) or _NO_MORE.search(str(caught.value))


_NO_MORE = re.compile("cannot allocate memory|start new thread", re.IGNORECASE)


def test_memory_that_is_full_is_told_as_such(boxes: Boxes) -> None:
    with pytest.raises(SandboxMemoryExceeded):
        run(boxes, "kept = []\nwhile True: kept.append(bytearray(1 << 20))", sandbox=SMALL)


@pytest.mark.parametrize(
    "source",
    [
        "import time; time.sleep(60)",
        "import signal; signal.pause()",
        "connection().recv(1)",
        "import signal\n"
        "for each in range(1, 32): each in (9, 19) or signal.signal(each, signal.SIG_IGN)\n"
        "import time; time.sleep(60)",
    ],
)
def test_time_ends_a_call(boxes: Boxes, source: str) -> None:
    pid_of(boxes)
    with pytest.raises(AttemptTimedOut, match="timed out after 200ms"):
        run(boxes, source, seconds=0.2)


def test_a_box_that_does_not_listen_is_not_waited_for(boxes: Boxes) -> None:
    source = """
import time
connection().sendall(frame(b'{"ask": 1, "what": "upstream", "arguments": {"step": "a"}}'))
time.sleep(60)
"""
    with pytest.raises(AttemptTimedOut):
        run(boxes, source, seconds=0.5, upstream={"a": "x" * 50_000_000})


@pytest.mark.parametrize(
    "value", ["float('nan')", "float('inf')", "{1, 2, object()}", "'\\ud800'", "'\\0'", "2 ** 70"]
)
def test_what_is_no_json_is_refused_as_ever(boxes: Boxes, value: str) -> None:
    with pytest.raises((RaisedElsewhere, InvalidResult)):
        run(boxes, f"outcome = {value}")


@pytest.mark.parametrize("content", ["NaN", "[" * 5000 + "]" * 5000, '{"a":'])
def test_an_output_that_is_forged_is_read_with_care(content: str) -> None:
    """The box says by itself that its call has returned; the number of the call lies in its memory."""
    source = f"""
import gc
calls = [each for each in gc.get_objects() if isinstance(each, dict) and "takes_pending" in each]
forged = '{{"returned": "%s"}}' % next(each["call"] for each in calls if "call" in each)
connection().sendall(frame(forged.encode()) + frame({content!r}.encode(), b"R"))
import time; time.sleep(60)
"""
    with boxes_of() as own, pytest.raises(InvalidResult, match="not JSON"):
        run(own, source)


def test_floods_of_lines_and_progress_are_bounded(boxes: Boxes, caplog: pytest.LogCaptureFixture) -> None:
    source = """
for each in range(12_000): print("line", each)
for each in range(5_000): ctx.progress(each % 100)
outcome = "done"
"""
    with caplog.at_level(logging.INFO):
        assert run(boxes, source) == "done"
    printed = [each for each in caplog.records if each.name == "pipeweave.stdout"]
    assert len(printed) <= 10_000
    assert any("the rest is left out" in each.getMessage() for each in caplog.records)


def test_lines_that_are_forged_are_bounded_by_the_parent(
    boxes: Boxes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeweave.workers.boxes.asked.MAX_LINES", 1_000)
    source = """
forged = b'{"log": "%s", "level": 99999, "logger": "root.evil", "extra": {"name": 1, "__class__": 2}}'
out = connection()
for _ in range(1_100): out.sendall(frame(forged % b"x"))
out.sendall(frame(forged % (b"y" * 100_000)))
out.sendall(frame(b'{"progress": 1e99}') + frame(b'{"progress": "x"}') + frame(b'{}'))
"""
    with caplog.at_level(logging.INFO):
        run(boxes, source)
    forged = [each for each in caplog.records if set(each.getMessage()) <= {"x", "y"}]
    assert len(forged) == 1_000
    assert {each.name for each in forged} == {"pipeweave.task.run"}
    assert "root.evil" not in logging.root.manager.loggerDict


def test_a_thread_that_stays_costs_the_box_its_place(boxes: Boxes) -> None:
    before = pid_of(boxes)
    run(boxes, "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()")
    assert pid_of(boxes) != before
    assert not Path(f"/proc/{before}").exists()


def _state(pid: int) -> str:
    deadline = time.monotonic() + WAIT_DEADLINE_S
    while (state := Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) not in "Tt":
        assert time.monotonic() < deadline, state
    return state


def test_a_time_bomb_does_not_go_off_after_its_call(boxes: Boxes) -> None:
    source = """
import signal
signal.signal(signal.SIGALRM, lambda *_: os._exit(9)); signal.setitimer(signal.ITIMER_REAL, 0.3)
outcome = os.getpid()
"""
    pid = run(boxes, source)
    _wait_until_it_rests(pid)
    assert run(boxes, "import time; time.sleep(0.4); outcome = os.getpid()") == pid


def _wait_until_it_rests(pid: int) -> None:
    deadline = time.monotonic() + WAIT_DEADLINE_S
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "Tt":
        assert time.monotonic() < deadline


def test_an_exit_that_was_arranged_does_not_happen(boxes: Boxes) -> None:
    run(boxes, "import atexit; atexit.register(lambda: open('late', 'w'))")
    assert call(boxes, spec_of("plus"), {"a": 1, "b": 1}) == 2


def test_files_do_not_stay_for_the_next_call(boxes: Boxes) -> None:
    make = """
os.makedirs("a/b/c"); open("x", "w").write("secret"); os.mkdir("locked", 0)
for _ in range(300):
    os.mkdir("d" * 200, 0o700); os.chdir("d" * 200)
os.umask(0o777); outcome = os.getpid()
"""
    pid = run(boxes, make)
    seen = run(boxes, "outcome = [os.getpid(), os.listdir('.'), os.getcwd()]")
    assert seen[0] == pid and seen[1] == []
    assert seen[2].endswith("/box")


def test_another_tenant_task_or_sandbox_has_another_box(boxes: Boxes) -> None:
    run(boxes, "import json; json.stolen = 'secret'; open('mine', 'w').write('secret')")
    for other in (spec_of(tenant="other"), spec_of(task_id="other"), spec_of("run", SMALL)):
        source = "import json; outcome = [hasattr(json, 'stolen'), os.listdir('.')]"
        assert call(boxes, other, {"source": source}) == [False, []]


def test_the_folders_of_two_boxes_are_closed_to_each_other(boxes: Boxes) -> None:
    mine = run(boxes, "open('mine', 'w').write('secret'); outcome = os.getcwd()")
    with pytest.raises(RaisedElsewhere, match="Permission denied"):
        call(boxes, spec_of(tenant="other"), {"source": f"os.listdir({mine!r})"})


def test_a_box_without_files_has_no_folder(boxes: Boxes) -> None:
    bare = Sandbox(memory="128M")
    assert "refused" in call(boxes, spec_of("attempt", bare), {"source": "open('x', 'w')"})
    seen = call(boxes, spec_of("attempt", bare), {"source": "ctx.temp_dir"})
    assert seen["refused"] == "SandboxRefused"


def test_a_box_is_replaced_after_many_calls(boxes: Boxes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeweave.workers.boxes.box.MAX_CALLS", 2)
    with boxes_of() as own:
        pids = [run(own, "outcome = os.getpid()") for _ in range(4)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_few_boxes_are_kept_and_none_is_left() -> None:
    with boxes_of(kept=2) as own:
        pids = [
            call(own, spec_of(task_id=str(number)), {"source": "outcome = os.getpid()"})
            for number in range(3)
        ]
        alive = [os.path.exists(f"/proc/{pid}") for pid in pids]
        assert alive == [False, True, True]
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def test_a_box_dies_with_its_parent() -> None:
    """The thread that has started it is its parent, for the kernel."""
    pids: list[int] = []
    with boxes_of() as own:
        thread = threading.Thread(target=lambda: pids.append(pid_of(own)))
        thread.start()
        thread.join()
        deadline = time.monotonic() + WAIT_DEADLINE_S
        while Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline


STEPS = {
    "landlock.restrict": "Landlock refused",
    "seccomp.apply": "the filter was refused",
    "_drop_capabilities": "capset",
    "_limit": "limits",
}
# Each case has a process of its own; they share the imports of the one that they are forked from.
_FORKED = """
import os
from pipeweave.box import confine

def tried(name, change):
    if os.fork() != 0:
        os.wait()
        return
    change()
    try:
        confine.confine(confine.Confinement(1 << 28, None, (), (), os.getppid()))
        os.write(1, f"{name} was confined\\n".encode())
    except confine.ConfinementFailed as error:
        os.write(1, f"{name} refused: {error}\\n".encode())
    finally:
        os._exit(0)

def failing(step, reason):
    def refuse(*_): raise OSError(1, reason)
    def change():
        owner = confine
        *path, name = step.split(".")
        for each in path: owner = getattr(owner, each)
        setattr(owner, name, refuse)
    return change

def without_effect():
    confine.seccomp.apply = lambda *_: None

for step, reason in STEPS.items():
    tried(step, failing(step, reason))
tried("no filter", without_effect)
"""


def test_a_step_that_fails_or_has_no_effect_ends_the_box_before_any_code() -> None:
    source = f"STEPS = {STEPS!r}\n{_FORKED}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    said = done.stdout.splitlines()
    assert len(said) == len(STEPS) + 1, done
    for (step, reason), line in zip(STEPS.items(), said, strict=False):
        assert line.startswith(f"{step} refused: ") and reason in line
    assert said[-1] == "no filter refused: the process is not confined: it can make sockets"


def test_a_machine_without_landlock_says_why() -> None:
    assert why_none(lambda: "Landlock is missing") == "Landlock is missing"


def test_a_code_root_that_does_not_exist_makes_no_box() -> None:
    with boxes_of() as own, pytest.raises(SandboxUnavailable, match=r"No such file"):
        call(own, spec_of(code_roots=(Path("/nowhere"),)), {})


def test_of_a_code_root_only_modules_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(
        "def look(name: str):\n    try:\n        return open(name).read()\n    except OSError as error:\n"
        "        return type(error).__name__\n"
    )
    (tmp_path / ".env").write_text("SECRET=1")
    (tmp_path / "prices.csv").write_text("1")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "__init__.py").write_text("")
    (tmp_path / "inside" / "data.txt").write_text("data")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "key").write_text("secret")
    spec = spec_of(code_roots=(tmp_path,), module="code_", function="look", file=tmp_path / "code.py")
    names = (".env", "prices.csv", "inside/data.txt", "secrets/key")
    with boxes_of() as own:
        seen = [call(own, spec, {"name": str(tmp_path / each)}) for each in names]
        assert seen == ["PermissionError", "PermissionError", "data", "PermissionError"]
        whole = spec_of(
            code_roots=(tmp_path,),
            readable=(tmp_path,),
            module="code_",
            function="look",
            file=tmp_path / "code.py",
        )
        assert call(own, whole, {"name": str(tmp_path / "prices.csv")}) == "1"
