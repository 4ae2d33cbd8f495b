"""PipeWeave next to plain Celery, on one machine, in one run: `python -m benchmarks --help`."""
