"""Keeps the boxes of one child warm, and calls the functions of tasks in them."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

from pipeweave.attempt import Files
from pipeweave.authoring import Context
from pipeweave.sending import Networks
from pipeweave.workers.boxes.box import BoxProcess
from pipeweave.workers.boxes.box_spec import BoxSpec

log = logging.getLogger(__name__)

KEPT = 4
"""Boxes that a child keeps warm, each about as large as an interpreter; the one longest unused ends first."""


class Boxes:
    """The boxes of one child.

    Args:
        networks: the networks that requests of the deployment may reach.
        kept: how many boxes are kept.
    """

    def __init__(self, networks: Networks, kept: int = KEPT) -> None:
        self._networks = networks
        self._kept = kept
        self._boxes: OrderedDict[BoxSpec, BoxProcess] = OrderedDict()
        self._at_work: BoxProcess | None = None

    def call(
        self, spec: BoxSpec, context: Context, files: Files, seconds: float, *, takes_pending: bool = False
    ) -> Any:
        """Call a function in its box; see `BoxProcess.call`.

        Raises:
            SandboxUnavailable: no box could be made; the function was not called.
        """
        self._put_away()
        self._at_work = self._boxes.pop(spec, None) or BoxProcess(spec, self._networks)
        try:
            return self._at_work.call(context, files, seconds, takes_pending=takes_pending)
        finally:
            self._put_away()

    def _put_away(self) -> None:
        """Keep the box of the last call, or end it. An alarm may have kept the call itself from doing so."""
        box = self._at_work
        if box is None:
            return
        if box.is_usable:
            self._boxes[box.spec] = box
        else:
            box.close()
        self._at_work = None
        while len(self._boxes) > self._kept:
            self._boxes.popitem(last=False)[1].close()

    def close(self) -> None:
        """End all boxes."""
        self._put_away()
        while self._boxes:
            self._boxes.popitem()[1].close()
