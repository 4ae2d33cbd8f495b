"""Verbs and reads of the maintenance mode in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeweave.orchestrator.reading import maintenance
from pipeweave.orchestrator.state import deployment_mode
from pipeweave.orchestrator.store.keyset import Document
from support.run_driver import RunDriver


def do(driver: RunDriver, verb: Callable[..., object], **options: Any) -> None:
    """Call a verb of the maintenance mode, with its options, in a transaction of its own."""
    with driver.database.transaction() as tx:
        verb(tx, **options)


def state(driver: RunDriver) -> Document:
    """The state of the deployment with what blocks maintenance."""
    with driver.database.reading() as tx:
        return maintenance.detailed_state(tx)


def mode(driver: RunDriver) -> str:
    """The mode of the deployment."""
    with driver.database.transaction() as tx:
        return deployment_mode.mode(tx)


def put(driver: RunDriver, wanted: str) -> None:
    """Write a mode, whatever it was before."""
    with driver.database.transaction() as tx:
        tx.execute("UPDATE orchestrator_state SET mode = :mode", {"mode": wanted})
