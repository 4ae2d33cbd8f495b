"""Texts that try to be more than text, in every field that pages show, on every screen: they stay text, and
what is long does not push the page apart, nor a table out of a window of 1024 pixels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page
from support.browser import PHONE, WIDE, Visit, visiting
from support.factories import a_task, a_worker, register
from support.inline_worker import InlineWorker
from support.run_driver import claim

from pipeweave import ids
from pipeweave.api.ui import SCREENS
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.registry import drains
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.security import ADMIN, READ, WRITE, access_tokens
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.storage.local import LocalStorage

MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&{{7*7}}${7*7}"
# It would turn round what follows it, and has what terminals take for commands.
TURNED = "\u202edesrever\u2066\x1b[31m\x07\x08\ufeff"
LONG = "w" * 10_000
HOSTILE = f"{MARKUP}{TURNED}{LONG}"
SHORT = f"{MARKUP}{TURNED}{'w' * 60}"
# Of a stored object.
KEY = f"{MARKUP.replace('/', '')}{TURNED[1:8]}{'w' * 100}.txt"
# As far as names may go.
NAME = ":@~." + "x" * 190
TRACEBACK = f'Traceback (most recent call last):\n  File "{SHORT}", line 1, in {LONG}\n    {SHORT}\n{HOSTILE}'
FAILURE = Failure(MARKUP[:60], HOSTILE, SHORT, False, TRACEBACK, {SHORT: HOSTILE})

TABS = {
    "/runs/<id>": ("graph", "timeline", "steps", "events", "data", "log&step=b", "attempts", "why"),
    "/task-runs/<id>": ("events", "data", "log", "attempts", "why"),
    "/pipelines/<id>": ("graph", "grid", "runs", "versions", "statistics", "trigger"),
}
# Screens that show nothing without a parameter.
QUERIES = {"/runs": f"cols=status,pipeline,run,error,metadata&text={MARKUP[:30]}", "/task-runs": "of=all"}


@dataclass
class Seeded:
    """Where hostile texts are: kind of screen -> id."""

    known: dict[str, str]
    failed: str
    open: str
    asset: str

    def paths(self) -> list[str]:
        """All screens with all of their tabs."""
        found = []
        for screen in SCREENS:
            path = screen.path.replace("<left>", self.failed).replace("<right>", self.open)
            path = path.replace("<step>", f"m{NAME}").replace(
                "<id>", self.known.get(path.split("/")[1], "nothing")
            )
            found += [f"{path}?tab={tab}" for tab in TABS.get(screen.path, ())]
            found.append(f"{path}?{QUERIES.get(screen.path, '')}")
        return [*found, self.object]

    @property
    def object(self) -> str:
        """The screen of a stored object."""
        return f"/storage/object?path={quote(self.asset)}"


@pytest.fixture
def seeded(worker: InlineWorker, server_folder: Path) -> Seeded:
    """A tenant all of whose texts are hostile."""
    driver = worker.driver
    task = a_task(NAME, allowed_next=(), concurrency=1)
    with driver.database.transaction() as tx:
        register(tx, driver.tenant, task, id="s" + NAME, version=SHORT[:200])
        name = access_tokens.make_token(tx, name=SHORT[:200], tenants=[driver.tenant], scopes=[READ])
        assert name
    worker.fails = {"b": FAILURE, (f"m{NAME}", 1): FAILURE}
    driver.store(
        {f"a{NAME}": [], "b": [f"a{NAME}"], f"m{NAME}": [f"a{NAME}"]},
        id=NAME,
        maps={f"m{NAME}": "${input.list}"},
        tasks={"b": NAME},
        failureMode="continue",
        description=SHORT[:1000],
    )
    given = {"list": [1, SHORT], SHORT: HOSTILE, "deep": {SHORT: [HOSTILE]}}
    failed = driver.trigger(NAME, given, metadata={SHORT[:60]: SHORT})
    worker.consume_all()
    waiting = driver.trigger(NAME, given, metadata={"k": SHORT})
    with driver.database.transaction() as tx:
        claim(tx, waiting, 1)
        request = standalone_tasks.QueueRequest(NAME, given, metadata={SHORT[:60]: SHORT})
        [queued] = standalone_tasks.enqueue(tx, driver.values, driver.tenant, [request])
        a_worker(tx, driver.tenant, task, service="s" + NAME, name=SHORT[:150])
        stopped = a_worker(tx, driver.tenant, task, service="s" + NAME, name=NAME[:150])
        drains.drain(tx, driver.tenant, stopped, reason=SHORT[:500])
        spec = storing.ScheduleSpec(NAME, cron="30 2 * * *", input={**given, "list": [HOSTILE]})
        storing.put(tx, driver.tenant, NAME, spec)
    asset = _files(failed, server_folder)
    [letter] = driver.rows(
        "SELECT id FROM dead_letters WHERE tenant_id = :t AND task_id = :task", t=driver.tenant, task=NAME
    )
    known = {
        "runs": ids.show(ids.RUN, failed),
        "task-runs": ids.show(ids.TASK_RUN, queued.task_run_id),
        "pipelines": NAME,
        "tasks": NAME,
        "dead-letters": ids.show(ids.DEAD_LETTER, letter.id),
        "schedules": NAME,
        "workers": stopped,
    }
    return Seeded(known, ids.show(ids.RUN, failed), ids.show(ids.RUN, waiting), asset)


def _files(run_id: UUID, folder: Path) -> str:
    """Store a log, and an asset; the asset's path."""
    lines: list[Any] = [
        {"time": "2026-01-01T00:00:00Z", "level": "error", "message": HOSTILE, SHORT: HOSTILE},
        {"time": MARKUP, "level": MARKUP, "message": {MARKUP: [MARKUP]}},
    ]
    text = "\n".join([*map(json.dumps, lines), MARKUP, LONG, '{"message": '])
    place = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(run_id, 2))}.1"
    storage = LocalStorage(folder / "storage")
    storage.put(f"{place}/logs.jsonl", text.encode())
    asset = f"{place}/assets/{KEY}"
    storage.put(asset, HOSTILE.encode())
    return asset


# What is wider than the window, except inside of boxes that scroll.
_WIDE = """() => {
  if (document.documentElement.scrollWidth <= innerWidth) return "";
  const scrolls = (box) => box &&
    (getComputedStyle(box).overflowX !== "visible" || scrolls(box.parentElement));
  const wide = [...document.querySelectorAll("body *")].filter((each) =>
    each.getBoundingClientRect().right > innerWidth + 1 && !scrolls(each.parentElement));
  const names = wide.map((each) => `${each.tagName}.${each.getAttribute("class") ?? ""}`);
  return names.slice(0, 6).join(" ") || "?";
}"""


# Tables of which something is cut, until somebody scrolls them.
_CUT = """() => [...document.querySelectorAll(".table-scroll:has(> .table)")]
  .filter((box) => box.scrollWidth > box.clientWidth + 1)
  .map((box) => `${box.getAttribute("aria-label") ?? box.innerText.slice(0, 60)} ${box.scrollWidth}`)"""


def cut_tables(page: Page, path: str) -> list[str]:
    """The tables that a window of 1024 pixels has no room for."""
    page.set_viewport_size({"width": 1024, "height": 768})
    return [f"{path}: a table is cut: {each}" for each in page.evaluate(_CUT)]


def check(page: Page, path: str) -> list[str]:
    """What is wrong with a page."""
    found = []
    if page.evaluate("document.querySelectorAll('main img, script:not([src]), [onerror]').length"):
        found.append(f"{path}: a text has become markup")
    wide = page.evaluate(_WIDE)
    return found + ([f"{path}: wider than the window: {wide}"] if wide else [])


def test_no_screen_is_more_than_text_or_wider_than_its_window(
    browser: Browser, server: str, worker: InlineWorker, seeded: Seeded
) -> None:
    with worker.driver.database.transaction() as tx:
        token = access_tokens.create_token(
            tx, name=SHORT[:200], tenants=(worker.driver.tenant,), scopes=(READ, WRITE, ADMIN)
        )
    wrong: list[str] = []
    with visiting(browser, server, worker.driver.tenant, token, viewport=PHONE) as visit:
        visit.context.on("dialog", lambda dialog: wrong.append(f"a dialog: {dialog.message}"))
        _change(visit, seeded)
        visit.expected += ["status of 404", "status of 400", "status of 403"]
        for path in seeded.paths():
            answer = visit.page.goto(f"{visit.root}{path}")
            assert answer is not None
            assert answer.status == 200 or (answer.status < 500 and _is_empty(path, seeded)), path
            wrong += check(visit.page, path)
            visit.page.set_viewport_size(WIDE)
            wrong += check(visit.page, f"{path} (wide)")
            wrong += cut_tables(visit.page, path)
            visit.page.set_viewport_size(PHONE)
    assert not wrong, "\n".join(wrong)


def _is_empty(path: str, seeded: Seeded) -> bool:
    """Whether there is nothing to see: no redrive, no object, no second run."""
    starts = ("/storage/object", "/storage/file", "/compare?")
    return path != seeded.object and ("/nothing" in path or path.startswith(starts))


def _change(visit: Visit, seeded: Seeded) -> None:
    """Verbs, with reasons that pages show."""
    asked = visit.context.request
    headers = {"X-Tenant": visit.tenant}
    for path, body in (
        (f"runs/{seeded.open}/pause", {"reason": SHORT[:500]}),
        (f"tasks/{NAME}/pause", {"reason": SHORT[:500]}),
        ("queue/pause", {"reason": SHORT[:500]}),
        ("uploads", {"name": SHORT[:200], "size": 3}),
        ("views", {"screen": "runs", "name": MARKUP[:60], "query": f"text={quote(MARKUP)}"}),
        ("views", {"screen": "audit", "name": f"{MARKUP[:40]}{'w' * 20}", "query": "actor=%3Cscript%3E"}),
    ):
        answer = asked.post(f"{visit.server}/api/{path}", headers=headers, data=body)
        assert answer.status < 500, f"{path}: {answer.text()}"
