"""`celery -A benchmarks.plain.tuned worker`: late acknowledgement, prefetch 1, no results."""

from benchmarks.plain.apps import make_app

app = make_app("tuned")
