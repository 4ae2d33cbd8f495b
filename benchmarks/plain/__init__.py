"""The same work in plain Celery, twice: as users write it, and tuned."""
