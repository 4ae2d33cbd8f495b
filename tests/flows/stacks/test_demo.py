"""`pipeweave demo` on the real stack: it shows its report, and leaves nothing behind however it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import psutil
import pytest
import urllib3
from support.cli_stack import StackFolder
from support.installed_wheel import python_with_wheel

from pipeweave.settings import environment

END_DEADLINE_S = 180


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """Where the demo makes its temporary folder."""
    folder = tmp_path / "temporary"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def here(tmp_path: Path, temporary: Path) -> StackFolder:
    return StackFolder(tmp_path, variables={**environment(), "TMPDIR": str(temporary)})


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that speak of the folder."""
    lines = []
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line:
            lines.append(line)
    return lines


def test_the_demo_shows_its_report_and_removes_everything(here: StackFolder, temporary: Path) -> None:
    done = here.call("demo", "--limit", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "count  completed  60/60" in done.stdout
    assert "all of Python" in done.stdout
    assert "Next steps:" in done.stdout
    assert done.stdout.endswith("Everything is stopped and removed.\n")
    # What people are meant to look at afterwards.
    (pictures,) = temporary.iterdir()
    assert {each.name for each in pictures.iterdir()} == {"stdlib-report.svg", "stdlib-report-timeline.svg"}
    assert str(pictures / "stdlib-report.svg") in done.stdout
    assert left_behind(temporary) == []


@pytest.mark.parametrize(
    ("after", "number", "code"),
    [("Starting", signal.SIGINT, 130), ("count", signal.SIGTERM, 143)],
)
def test_an_interrupted_demo_leaves_nothing_behind(
    here: StackFolder, temporary: Path, after: str, number: signal.Signals, code: int
) -> None:
    process = here.begin("demo")
    assert process.stdout
    for line in process.stdout:
        if line.startswith(after):
            break
    os.kill(process.pid, number)
    rest = process.stdout.read()
    process.stdout.close()
    assert process.wait(END_DEADLINE_S) == code, rest
    assert "Traceback" not in rest
    assert list(temporary.iterdir()) == []
    assert left_behind(temporary) == []


def test_a_kept_demo_of_the_installed_wheel_ends_with_a_link_to_its_dashboard(tmp_path: Path) -> None:
    """It goes on until it is stopped; the pages and what they are made of come out of the wheel."""
    there = StackFolder(tmp_path, (str(python_with_wheel(tmp_path / "wheel")),))
    done = there.call("demo", "--limit", "5", "--data-dir", "kept", "--keep")
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"pipeweave down --data-dir {there.folder / 'kept'}" in done.stdout
        shown = json.loads(there.call("runs", "--data-dir", "kept", "--json").stdout)["runs"]
        assert shown[0]["status"] == "completed"
        last = done.stdout.splitlines()[-1]
        assert last.startswith("Dashboard: http://127.0.0.1:")
        page, linked = logged_in(last.split()[1])
        assert str(shown[0]["id"]) in page
        assert {Path(address).suffix for address in linked} >= {".css", ".js"}
    finally:
        stopped: subprocess.CompletedProcess[str] = there.call("down", "--data-dir", "kept")
    assert stopped.returncode == 0
    assert left_behind(there.folder / "kept") == []


def logged_in(link: str) -> tuple[str, dict[str, bytes]]:
    """The page that a login link leads to, and the files that the page links, each of them there."""
    address, _, code = link.partition("#")
    asked = urlsplit(address)
    base = f"{asked.scheme}://{asked.netloc}"
    form = {"secret": code, "next": parse_qs(asked.query)["next"][0]}
    with urllib3.PoolManager(retries=False) as http:

        def get(path: str, **headers: str) -> urllib3.BaseHTTPResponse:
            answer = http.request("GET", urljoin(base, path), headers=headers, redirect=False)
            if answer.status in (302, 303):
                return get(answer.headers["Location"], **headers)
            assert answer.status == 200, (path, answer.status, answer.data)
            return answer

        begun = http.request_encode_body(
            "POST",
            f"{base}/ui/login",
            fields=form,
            encode_multipart=False,
            headers={"Origin": base},
            redirect=False,
        )
        assert begun.status == 303, begun.data
        cookie = begun.headers["Set-Cookie"].partition(";")[0]
        page = get(begun.headers["Location"], Cookie=cookie).data.decode()
        linked = sorted(set(re.findall(r'(?:href|src)="([^"]*/ui/static/[^"#]+)', page)))
        return page, {each: get(each).data for each in linked}
