"""`celery -A benchmarks.plain.written worker`: Celery's defaults."""

from benchmarks.plain.apps import make_app

app = make_app("written")
