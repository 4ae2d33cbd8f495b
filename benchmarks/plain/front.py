"""The HTTP front a user would put before Celery: Flask under gunicorn, no database.

gunicorn -k gthread --threads 8 'benchmarks.plain.front:written()'
"""

from __future__ import annotations

from typing import Any

from flask import Flask, request

from benchmarks.plain.apps import Variant, make_app
from benchmarks.plain.canvases import Canvases
from benchmarks.plain.quiet import SCHEME
from pipeweave.settings import environment


def written() -> Flask:
    """The front that stores results; its answer names the result to read."""
    return _front("written")


def tuned() -> Flask:
    """Results are ignored; the last step tells the client."""
    return _front("tuned")


def _front(variant: Variant) -> Flask:
    variables = environment()
    backend = variables["CELERY_RESULT_BACKEND"]
    is_tuned = variant == "tuned"
    app = make_app(variant, variables["CELERY_BROKER_URL"], f"{SCHEME}+{backend}" if is_tuned else backend)
    canvases = Canvases(app, is_tuned=is_tuned)
    front = Flask(__name__)

    @front.get("/")
    def ready() -> Any:
        return {}

    @front.post("/trigger/<shape>")
    def trigger(shape: str) -> Any:
        key = str(request.get_json()["key"])
        canvas = canvases.fan(2, key) if shape == "diamond" else canvases.single(key)
        return {"id": canvas.apply_async().id}

    return front
