"""The tasks of a training with a person's review; train-model.yaml says in which order they run."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pipeweave import Context, Suspend, task

# Where the training service looks for work. A real one has an address: send the same to it by HTTP.
QUEUE = Path(os.environ.get("TRAINING_QUEUE", "/tmp/training"))


@task(timeout="1m")
def submit_training(ctx: Context, data: str, hint: str | None = None) -> Suspend:
    """Hand the training over, and go; the service reports to the URL when it is done, hours later."""
    QUEUE.mkdir(parents=True, exist_ok=True)
    order = {"data": data, "hint": hint, "report_to": ctx.callback_url}
    (QUEUE / f"{ctx.task_run_id}.json").write_text(json.dumps(order))
    return Suspend.callback(timeout="12h")


@task
def publish_model(model: str, accuracy: float) -> str:
    """Publish a model that a person has found good."""
    return f"{model} is published with an accuracy of {accuracy}"
