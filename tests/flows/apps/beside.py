"""Tasks whose code has a Celery app of its own, with its own broker."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery, current_app, shared_task
from celery.worker.control import control_command

from pipeweave import task

legacy = Celery("legacy", broker=os.environ["PIPEWEAVE_TEST_LEGACY_BROKER"])
legacy.conf.result_backend = os.environ["PIPEWEAVE_TEST_LEGACY_BROKER"]


@legacy.task(name="legacy.add")
def add(one: int, two: int) -> int:
    return one + two


@shared_task(name="legacy.mail")
def mail(to: str) -> str:
    return f"mail to {to} from {mail.app.main}"


@control_command()
def legacy_command(_: object) -> dict[str, str]:
    return {"ok": "done"}


@task
def noop() -> None:
    pass


@task
def same(number: int) -> int:
    return number


@task
def publishes() -> dict[str, Any]:
    """Publish from the main thread and from another one; whose apps they were."""
    seen = {"app": current_app.main, "shared": mail.app.main, "broker": add.app.connection().as_uri()}
    add.delay(1, 2)
    mail.delay("ann")

    def beside() -> None:
        seen["thread"] = current_app.main
        mail.delay("bob")

    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
    return seen


@task(retries=0)
def waits_for_results() -> list[Any]:
    """Publish tasks and wait for their results."""
    return [add.delay(1, 2).get(timeout=60), mail.delay("ann").get(timeout=60)]
