"""What the pictures of the dashboard show: the day of a photo studio, the same each time it is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from pipeweave import ids
from pipeweave.orchestrator.deployment.reactions import reactions_to
from pipeweave.orchestrator.domain import queue_names
from pipeweave.orchestrator.domain.failure import Failure
from pipeweave.orchestrator.domain.triggered_by import SCHEDULE, TriggeredBy
from pipeweave.orchestrator.engine.advance import Advance
from pipeweave.orchestrator.registry import LoadedTask, WorkerLoad, WorkerStart, drains, worker_processes
from pipeweave.orchestrator.runs import standalone_tasks
from pipeweave.orchestrator.starts.schedules import storing
from pipeweave.orchestrator.state import claiming
from pipeweave.orchestrator.store.database import Database
from pipeweave.storage.local import LocalStorage
from support.counted_events import fold_all
from support.factories import a_task, register
from support.frozen import FROZEN, FrozenClock, same_ids
from support.inline_worker import InlineWorker
from support.last_tick import last_tick
from support.run_driver import RunDriver, header
from support.stored_values import values_in

TENANT = "default"
SERVICE = "studio"
TASKS = (
    a_task("list_photos"),
    a_task("resize", concurrency=8),
    a_task("tag"),
    a_task("upload", rate_limit="600/m"),
    a_task("report"),
    a_task("collect"),
    a_task("charge", retries=2),
    a_task("mail"),
    a_task("render", concurrency=2),
)
PHOTOS = {
    "list": [],
    "resize": ["list"],
    "tag": ["list"],
    "upload": ["resize", "tag"],
    "report": ["upload"],
}
PHOTO_TASKS = {
    "list": "list_photos",
    "resize": "resize",
    "tag": "tag",
    "upload": "upload",
    "report": "report",
}
INVOICES = {"collect": [], "charge": ["collect"], "mail": ["charge"]}
BY_CLOCK = TriggeredBy(SCHEDULE, "weekly-invoices")
INPUT = {
    "fields": [
        {"name": "folder", "label": "Folder", "type": "string", "required": True},
        {"name": "width", "label": "Width", "type": "integer", "default": 1200, "min": 64},
        {
            "name": "format",
            "label": "Format",
            "type": "select",
            "options": [{"value": "jpeg", "label": "JPEG"}, {"value": "webp", "label": "WebP"}],
        },
        {"name": "watermark", "label": "Watermark", "type": "boolean"},
    ]
}
_TRACEBACK = """Traceback (most recent call last):
  File "/srv/studio/tasks.py", line 41, in {0}
    return {0}_one(path)
  File "/srv/studio/images.py", line 88, in {0}_one
    raise {1}
{1}"""


def _failure(code: str, raised: str, task: str, *, is_final: bool = True) -> Failure:
    kind, _, message = raised.partition(": ")
    return Failure(code, message, kind, not is_final, _TRACEBACK.format(task, raised))


DISK_FULL = _failure("DISK_FULL", "OSError: no space left on device", "resize")
BUSY = _failure("BUSY", "ConnectionError: the tagger is busy", "tag", is_final=False)
DECLINED = _failure("CARD_DECLINED", "CardDeclined: the bank declined the card of customer 1042", "charge")


class _Driver(RunDriver):
    def __post_init__(self) -> None:
        self.database.sender = self.sent.extend


class Studio:
    """Tells the day; what the pages name of it is kept.

    Args:
        folder: where values and logs go.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.clock = FrozenClock(url)
        self.database = Database(url, react=reactions_to, now=self.clock, pool_size=4)
        self.storage = LocalStorage(folder)
        self.values = values_in(self.storage)
        self.driver = _Driver(self.database, TENANT, values=self.values)
        self.worker = InlineWorker(self.driver, name="studio-1@host:41:5e5e#44")
        # The runs that pages name: one with failed items, one that failed, one that goes on, one before.
        self.partial = self.failed = self.going = self.before = UUID(int=0)

    def tell(self) -> None:
        """Let the day happen."""
        with same_ids():
            self._morning()
            self._noon()
        self.clock.pace = None
        self.clock.at = FROZEN
        self._workers()
        fold_all(self.database)
        last_tick(self.database, "-1 s")
        with self.database.transaction() as tx:
            # The migration wrote it, by the true clock.
            tx.execute("UPDATE stats_place SET since = :at", {"at": FROZEN - timedelta(days=1)})

    def close(self) -> None:
        self.database.dispose()
        self.clock.close()

    # --- the story ----------------------------------------------------------------------------------------

    def _morning(self) -> None:
        self._go(minutes=600)
        with self.database.transaction() as tx:
            register(tx, TENANT, *TASKS, id=SERVICE, version="2026.6")
        steps = {step: needs for step, needs in PHOTOS.items() if step != "tag"} | {"upload": ["resize"]}
        self._store("photos", steps, PHOTO_TASKS, maps={"resize": "${input.photos}"})
        self._store(
            "photos",
            PHOTOS,
            PHOTO_TASKS,
            maps={"resize": "${input.photos}"},
            failureMode="partial-merge",
            inputSchema=INPUT,
        )
        self._store("invoices", INVOICES, {step: step for step in INVOICES})
        self._store("video", {"render": []}, {"render": "render"})
        with self.database.transaction() as tx:
            folder = {"folder": "/srv/nightly"}
            nightly = storing.ScheduleSpec(
                "photos", cron="30 2 * * *", time_zone="Europe/Berlin", input=folder
            )
            storing.put(tx, TENANT, "nightly-photos", nightly)
            weekly = storing.ScheduleSpec("invoices", cron="0 9 * * 1", input={"since": "Monday"})
            storing.put(tx, TENANT, "weekly-invoices", weekly)
            storing.put(tx, TENANT, "hourly-video", storing.ScheduleSpec("video", every_ms=3_600_000))
            storing.pause(tx, TENANT, "hourly-video")
        for number in range(22):
            self._go(minutes=350 - number * 15)
            self.before = self._photos(f"/srv/photos/{number}", 6)
            if number % 4 == 1:
                self.worker.fails = {"charge": DECLINED} if number > 12 else {}
                self.driver.trigger("invoices", {"since": f"{6 + number // 4} June"}, triggered_by=BY_CLOCK)
                self.worker.consume_all()
                self.worker.fails = {}

    def _noon(self) -> None:
        self._go(minutes=12, pace=(4, 40))
        self.worker.fails = {("resize", number): DISK_FULL for number in (31, 87, 140)} | {"tag": BUSY}
        self.partial = self._photos("/srv/photos/wedding", 160)
        self.worker.fails = {}
        self._release(self.partial)
        self.worker.consume_all()
        self._go(minutes=5)
        self.worker.fails = {"charge": DECLINED}
        self.failed = self.driver.trigger("invoices", {"since": "15 June"}, metadata={"customer": 1042})
        self.worker.consume_all()
        self.worker.fails = {}
        self._log()
        self._go(minutes=2, pace=(10, 60))
        self.going = self._photos("/srv/photos/harbour", 40, most=24)
        self._hold()
        with self.database.transaction() as tx:
            asked = [standalone_tasks.QueueRequest("mail", {"to": f"{name}@example.com"}) for name in "abc"]
            standalone_tasks.enqueue(tx, self.values, TENANT, asked)

    # --- how ----------------------------------------------------------------------------------------------

    def _go(self, *, minutes: float, pace: tuple[int, int] = (40, 400)) -> None:
        """Go to a time before noon."""
        self.clock.pace = pace
        self.clock.at = FROZEN - timedelta(minutes=minutes)

    def _store(self, id: str, steps: dict[str, list[str]], tasks: dict[str, str], **more: Any) -> None:
        self.driver.store(steps, id=id, tasks=tasks, **more)

    def _photos(self, folder: str, number: int, most: int = 100_000) -> UUID:
        photos = [f"{folder}/{each:04}.jpg" for each in range(number)]
        given = {"folder": folder, "width": 1200, "format": "webp", "photos": photos}
        run_id = self.driver.trigger("photos", given, metadata={"customer": "studio"})
        self.worker.consume_all(most)
        return run_id

    def _release(self, run_id: UUID) -> None:
        """Release the attempt that is to come."""
        with self.database.transaction() as tx:
            advance = Advance(tx, header(tx, run_id))
            advance.release_due([ids.task_run_id(run_id, header(tx, run_id).plan.ordinals["tag"])])
            advance.close()

    def _hold(self) -> None:
        """Two runs hold the slots of a task, and three wait for one."""
        made = [self.driver.trigger("video", {"film": number}) for number in range(5)]
        for run_id in made[:2]:
            with self.database.transaction() as tx:
                claiming.start(tx, run_id, [1], 1, worker="studio-2@host:42:5e5e#46")

    def _log(self) -> None:
        path = f"runs/{ids.show(ids.TASK_RUN, ids.task_run_id(self.failed, 2))}.1/logs.jsonl"
        said = [
            ("info", "charging 1 invoice of 84.00 EUR"),
            ("debug", "POST /charges, attempt 1"),
            ("warning", "the bank answers slowly: 2.1 s"),
            ("error", "CardDeclined: the bank declined the card of customer 1042"),
        ]
        at = FROZEN - timedelta(minutes=5)
        lines = [
            json.dumps({"time": f"{at:%Y-%m-%dT%H:%M}:0{number}.250Z", "level": level, "message": message})
            for number, (level, message) in enumerate(said)
        ]
        self.storage.put(path, "\n".join(lines).encode() + b"\n")

    def _workers(self) -> None:
        queue = queue_names.service_queue(TENANT, SERVICE)
        loaded = tuple(LoadedTask(each.id, each.code_hash) for each in TASKS)
        load = WorkerLoad(3, timedelta(seconds=2), 148 * 2**20, 62.5, 1_204)
        with self.database.transaction() as tx:
            for number in range(1, 5):
                start = WorkerStart(
                    SERVICE, f"studio-{number}@host", "host", 4, len(TASKS), 40 + number, loaded, (queue,)
                )
                began = FROZEN - timedelta(hours=9, minutes=number)
                id = f"studio-{number}@host:{40 + number}:5e5e"
                worker_processes.register(tx, TENANT, start, worker_id=id, now=began)
                # The last one was heard two minutes ago.
                heard = FROZEN - timedelta(minutes=2 * (number == 4))
                worker_processes.beat(tx, id, load=load, now=heard)
            drains.drain(tx, TENANT, "studio-3@host:43:5e5e", reason="a new disk")


def _run(which: str, rest: str = "") -> Callable[[Studio], str]:
    def path(studio: Studio) -> str:
        run_id: UUID = getattr(studio, which)
        return f"/runs/{ids.show(ids.RUN, run_id)}{rest}"

    return path


def _at(path: str) -> Callable[[Studio], str]:
    return lambda studio: path


# Name of a screen -> its address; of each there is a picture in either theme. Those of PHONES have one of a
# phone, too.
SCREENS: dict[str, Callable[[Studio], str]] = {
    "overview": _at("/"),
    "runs": _at("/runs"),
    "run": _run("failed"),
    "graph": _run("going", "?tab=graph"),
    "timeline": _run("partial", "?tab=timeline"),
    "items": _run("partial", "/steps/resize/items"),
    "log": _run("failed", "?tab=log&step=charge"),
    "pipelines": _at("/pipelines"),
    "grid": _at("/pipelines/photos?tab=grid"),
    "trigger": _at("/do/pipelines.trigger?id=photos"),
    "tasks": _at("/tasks"),
    "queues": _at("/queues"),
    "dead-letters": _at("/dead-letters"),
    "workers": _at("/workers"),
    "schedules": _at("/schedules"),
    "storage": _at("/storage"),
    "parts": _at("/parts"),
}
PHONES = ("overview", "runs", "run", "log", "dead-letters")
PICTURES = {f"{name}-{theme}.png" for name in SCREENS for theme in ("light", "dark")} | {
    f"{name}-phone.png" for name in PHONES
}
