"""Write the timeline of a run into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeweave.errors import InvalidInput

if TYPE_CHECKING:
    from pipeweave.client import Client


def write_picture(client: Client, run_id: str, file: Path) -> None:
    """Write the timeline of a run as a picture (SVG).

    Raises:
        InvalidInput: the file cannot be written.
    """
    from pipeweave.orchestrator.timeline import svg

    timeline = client.timeline(run_id)
    picture = svg(timeline, title=f"Timeline of {timeline['pipelineId']}, {timeline['status']}")
    try:
        file.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from error
