"""Ways out of a box, each of which must be refused. They share one box, which lives through all of them."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.boxing import boxes_of, call, spec_of

from pipeweave.workers.boxes import Boxes

pytestmark = [
    pytest.mark.usefixtures("machine_with_boxes"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64"),
]

# Each source would leave something in `outcome`, or end without an error, if it came through.
WAYS_OUT = {
    # files
    "reads the accounts": "open('/etc/passwd').read()",
    "reads the home of the account": "os.listdir(os.path.expanduser('~root'))",
    "lists the root folder": "os.listdir('/')",
    "lists the temp folders of others": "os.listdir(os.path.dirname(os.path.dirname(os.getcwd())))",
    "reads by a path with dots": "open('../../../../../../etc/hostname').read()",
    "reads by /proc/self/root": "open('/proc/self/' + 'root/etc/hostname').read()",
    "reads by /proc/self/cwd": "os.listdir('/proc/self/cwd/..')",
    "follows a symbolic link": "os.symlink('/etc/passwd', 'link'); open('link').read()",
    "makes a hard link": "os.link('/etc/hostname', 'hard')",
    "renames a library": "import json; os.rename(json.__file__, json.__file__ + 'x')",
    "writes beside its folder": "open('../beside', 'w')",
    "writes a library": "import json; open(json.__file__, 'a')",
    "writes bytecode": "import json; open(json.__cached__, 'wb')",
    "truncates a library by reading": "import json; os.open(json.__file__, os.O_RDONLY | os.O_TRUNC)",
    "truncates with a strange mode": "import json; os.open(json.__file__, 3 | os.O_TRUNC)",
    "truncates by its path": "import json; os.truncate(json.__file__, 0)",
    "changes the owner of a file": "import json; os.chown(json.__file__, 0, 0)",
    "sets an attribute of a file": "import json; os.setxattr(json.__file__, 'user.a', b'b')",
    "deletes a library": "import json; os.unlink(json.__file__)",
    "makes a device": "os.mknod('device', 0o020666, os.makedev(1, 1))",
    "makes a pipe with a name": "os.mkfifo('fifo')",
    "writes shared memory": "open('/dev/shm/x', 'w')",
    "makes shared memory": "import _posixshmem; _posixshmem.shm_open('/x', 0o102, mode=0o600)",
    "opens by a handle": "system_call(304, -100, b'x', 0)",
    "opens with a structure": "system_call(437, -100, b'/etc/passwd', b'\\0' * 24, 24)",
    "writes a file without a name outside": "os.open('/tmp', os.O_TMPFILE | os.O_RDWR)",
    "watches a folder": "system_call(254, checked(system_call(294, 0)), b'/tmp', 0xFFF)",
    "changes the root folder": "os.chroot('.')",
    "mounts": "system_call(165, b'none', b'/tmp', b'tmpfs', 0, 0)",
    "opens a new mount tree": "system_call(428, -100, b'/', 0)",
    # /proc
    "reads its environment": "open('/proc/self/environ').read()",
    "reads its memory": "open('/proc/self/mem', 'rb').read(1)",
    "reads its maps": "open('/proc/self/maps').read()",
    "reads the memory of its parent": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "reads the environment of its parent": "open(f'/proc/{os.getppid()}/environ').read()",
    "reads the command of its parent": "open(f'/proc/{os.getppid()}/cmdline').read()",
    "lists the descriptors of its parent": "os.listdir(f'/proc/{os.getppid()}/fd')",
    "opens a descriptor of its parent": "open(f'/proc/{os.getppid()}/fd/0')",
    "reads the links of its parent": "os.readlink(f'/proc/{os.getppid()}/cwd')",
    "reads the environment of init": "open('/proc/1/environ').read()",
    "changes its own score": "open('/proc/self/oom_score_adj', 'w')",
    # processes
    "forks": "os.fork()",
    "forks by vfork": "system_call(58)",
    "forks by clone": "system_call(56, 17, 0, 0, 0, 0)",
    "forks by clone3": "system_call(435, b'\\0' * 64, 64)",
    "starts a program": "os.execv('/bin/true', ['true'])",
    "starts a program by a descriptor": "system_call(322, 0, b'', 0, 0, 0x1000)",
    "starts a program as a process": "import subprocess; subprocess.run(['/bin/true'])",
    "starts a process of Python": "import multiprocessing as m; m.get_context('fork').Process().start()",
    "starts memory as a program": "os.memfd_create('x')",
    "makes secret memory": "system_call(447, 0)",
    "begins a session": "os.setsid()",
    "kills its parent": "os.kill(os.getppid(), 9)",
    "looks whether its parent lives": "os.kill(os.getppid(), 0)",
    "kills its group": "os.killpg(0, 9)",
    "kills everybody": "os.kill(-1, 9)",
    "kills init": "os.kill(1, 9)",
    "kills a thread of its parent": "system_call(200, os.getppid(), 9)",
    "kills a thread of its parent by its group": "system_call(234, os.getppid(), os.getppid(), 9)",
    "queues a signal": "system_call(129, os.getppid(), 9, b'\\0' * 128)",
    "opens its parent": "os.pidfd_open(os.getppid())",
    "takes a descriptor of its parent": "system_call(438, 3, 0, 0)",
    "has the kernel signal its parent": "import fcntl; fcntl.fcntl(0, 8, os.getppid())",
    "chooses the signal that the kernel sends": "import fcntl; fcntl.fcntl(0, 10, 9)",
    "traces its parent": "system_call(101, 16, os.getppid(), 0, 0)",
    "lets itself be traced": "system_call(101, 0, 0, 0, 0)",
    "reads memory of its parent": "system_call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "writes memory of its parent": "system_call(311, os.getppid(), 0, 0, 0, 0, 0)",
    "compares itself with its parent": "system_call(312, os.getpid(), os.getppid(), 0, 0, 0)",
    "slows its parent down": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "moves its parent to a processor": "os.sched_setaffinity(os.getppid(), [0])",
    "makes its parent idle": "os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "limits its parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_AS, (1, 1))",
    "lifts its own limit": "import resource; resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
    "lifts its own limit of old": "system_call(160, 9, b'\\xff' * 16)",
    "changes its death": "checked(libc.prctl(1, 0, 0, 0, 0))",
    "allows dumps": "checked(libc.prctl(4, 1, 0, 0, 0))",
    "takes a capability": "system_call(126, b'\\x22\\x05\\x08\\x20' + b'\\0' * 4, b'\\xff' * 24)",
    "changes its account": "os.setuid(1)",
    "changes its groups": "os.setgroups([1])",
    "changes its personality": "system_call(135, 0x0040000)",
    "makes a namespace": "checked(libc.unshare(0x10000000))",
    "enters a namespace": "checked(libc.setns(0, 0))",
    # the network
    "makes a socket": "import socket; socket.socket()",
    "makes a socket of IPv6": "import socket; socket.socket(socket.AF_INET6)",
    "makes a raw socket": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "makes a socket of the kernel": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "makes a local socket": "import socket; socket.socket(socket.AF_UNIX)",
    "makes a pair of datagrams": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)",
    "resolves a name": "import socket; socket.getaddrinfo('example.com', 80)",
    "resolves a name by libc": "if libc.gethostbyname(b'example.com') == 0: raise OSError(1, 'unknown')",
    "connects a socket that it has": "import socket; connection().connect('\\0abstract')",
    "binds a socket that it has": "connection().bind('\\0abstract')",
    "sends elsewhere": "connection().sendto(b'x', '\\0abstract')",
    "waits for connections": "connection().listen()",
    "runs code in the kernel": "system_call(321, 0, b'\\0' * 64, 64)",
    "filters packets": "import socket; connection().setsockopt(1, 26, b'\\0' * 16)",
    # what the kernel shares
    "makes shared memory of System V": "system_call(29, 0, 4096, 0o1666)",
    "makes semaphores of System V": "system_call(64, 0, 1, 0o1666)",
    "makes a queue of System V": "system_call(68, 0, 0o1666)",
    "makes a queue of POSIX": "system_call(240, b'x', 0o102, 0o600, 0)",
    "makes a ring": "system_call(425, 8, b'\\0' * 120)",
    "catches page faults": "system_call(323, 0)",
    "counts in the kernel": "system_call(298, b'\\0' * 128, 0, -1, -1, 0)",
    "adds a key": "system_call(248, b'user', b'a', b'b', 1, -3)",
    "asks for keys": "system_call(250, 0, -3, 0)",
    "loads a kernel": "system_call(246, 0, 0, 0, 0)",
    "loads a module": "system_call(175, b'', 0, b'')",
    "restarts the machine": "system_call(169, 0xFEE1DEAD, 672274793, 0, 0)",
    "sets the clock": "import time; time.clock_settime(time.CLOCK_REALTIME, 0)",
    "reads the log of the kernel": "system_call(103, 3, ctypes.create_string_buffer(99), 99)",
    "changes the name of the host": "import socket; socket.sethostname('x')",
    "changes the local table": "system_call(154, 1, b'\\0' * 16, 16)",
    "types into the terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "becomes an owner by ioctl": "import fcntl; fcntl.ioctl(0, 0x8901, b'\\0' * 4)",
    "loosens Landlock": "system_call(444, b'\\0' * 8, 8, 0)",
    "adds a filter": "system_call(317, 1, 0, b'\\0' * 16)",
}


@pytest.fixture(scope="module")
def boxes() -> Iterator[Boxes]:
    with boxes_of() as made:
        yield made


def tried(boxes: Boxes, source: str) -> Any:
    return call(boxes, spec_of("attempt"), {"source": source})


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_way_out_is_refused(boxes: Boxes, way: str) -> None:
    answer = tried(boxes, WAYS_OUT[way])
    assert "refused" in answer, answer
    assert answer["errno"] in (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EXDEV, -2, -3, None), answer
    assert answer["refused"] in ("PermissionError", "OSError", "gaierror", "ValueError"), answer


def test_nothing_of_the_worker_can_be_read(
    boxes: Boxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "canary-" + "7f3a9c"
    monkeypatch.setenv("PIPEWEAVE_CANARY", canary)
    place = tmp_path / "canary"
    place.write_text(canary)
    with place.open() as file, boxes_of() as own:
        os.set_inheritable(file.fileno(), True)
        seen = call(own, spec_of(), {"source": _LOOK_EVERYWHERE.replace("PLACE", str(place))})
    assert seen["descriptors"] == 4, "stdin, stdout, stderr and the connection"
    assert canary not in str(seen)
    assert "PIPEWEAVE_CANARY" not in str(seen)


_LOOK_EVERYWHERE = """
import gc, sys
outcome = {"environ": dict(os.environ), "arguments": sys.orig_argv, "read": [], "descriptors": 0}
for number in range(256):
    try:
        os.fstat(number)
    except OSError:
        continue
    outcome["descriptors"] += 1
    try:
        outcome["read"].append(os.pread(number, 100, 0).decode("latin-1"))
    except OSError as error:
        pass
places = ["PLACE", *(f"/proc/{pid}/{name}" for pid in (os.getppid(), 1, "self", "thread-self")
    for name in ("environ", "cmdline", "mem", "maps", "fd/3", "status", "stack", "root" + "PLACE"))]
for place in places:
    try:
        outcome["read"].append(open(place, "rb").read(10_000).decode("latin-1"))
    except OSError:
        pass
outcome["read"] += [repr(each)[:200] for each in gc.get_objects() if isinstance(each, dict)][:2000]
"""


def test_rights_and_times_of_files_stay_as_they_are(boxes: Boxes) -> None:
    seen = call(
        boxes,
        spec_of(),
        {
            "source": "import json; before = os.stat(json.__file__)\n"
            "os.chmod(json.__file__, 0o666); os.utime(json.__file__, (1, 1))\n"
            "after = os.stat(json.__file__)\n"
            "outcome = [before.st_mode, after.st_mode, before.st_mtime, after.st_mtime]"
        },
    )
    assert seen[0] == seen[1] and seen[2] == seen[3]


def test_a_call_of_another_architecture_ends_the_process(boxes: Boxes) -> None:
    with boxes_of() as own, pytest.raises(Exception, match="killed by signal 31"):
        call(own, spec_of("attempt"), {"source": "system_call(0x40000000 | 39)"})


def test_what_tasks_need_works(boxes: Boxes) -> None:
    seen = call(
        boxes,
        spec_of(),
        {
            "source": """
import concurrent.futures, hashlib, shutil, sqlite3, ssl, tempfile, uuid, zipfile, zoneinfo
open("a.txt", "w").write("hello")
shutil.copy("a.txt", "b.txt"); os.rename("b.txt", "c.txt"); os.makedirs("d/e")
with zipfile.ZipFile("z.zip", "w") as file: file.write("a.txt")
with zipfile.ZipFile("z.zip") as file: file.extractall("out")
with tempfile.TemporaryFile(dir=".") as file: file.write(b"x")
with concurrent.futures.ThreadPoolExecutor(2) as pool: threads = list(pool.map(len, ["a", "bc"]))
base = sqlite3.connect("x.db"); base.execute("create table t (a)"); base.close()
ssl.create_default_context()
outcome = [open("c.txt").read(), open("out/a.txt").read(), threads, str(zoneinfo.ZoneInfo("Europe/Berlin")),
    hashlib.sha256(b"x").hexdigest()[:4], len(str(uuid.uuid4())), sorted(os.listdir("."))]
"""
        },
    )
    assert seen[:6] == ["hello", "hello", [1, 2], "Europe/Berlin", "2d71", 36]
    assert seen[6] == ["a.txt", "c.txt", "d", "out", "x.db", "z.zip"]


def test_the_box_has_lived_through_all_of_them(boxes: Boxes) -> None:
    pids = {call(boxes, spec_of("attempt"), {"source": "outcome = os.getpid()"})["allowed"] for _ in range(3)}
    assert len(pids) == 1
