"""Boxes: processes of a child, each confined, which call the functions of tasks with a sandbox.

Called by `consumer`, through `Boxes.call`, and by `process`, which asks whether this machine can confine at
all. It must never run code of users in this process, nor believe what a box says: each frame is checked.
"""

from __future__ import annotations

from pipeweave.workers.boxes.box_spec import BoxSpec
from pipeweave.workers.boxes.boxes import Boxes
from pipeweave.workers.boxes.readiness import why_none

__all__ = ["BoxSpec", "Boxes", "why_none"]
