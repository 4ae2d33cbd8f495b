"""What keeps a worker process alive and known: launch, liveness, children, signals.

Called by the command line and Celery's signals. It must never call a task's function."""
