"""Starts a worker or beat process and keeps it alive and known: launch, heartbeats, child processes, signals.

Called by the command line and by Celery's signals. It runs in the parent process of a worker, so it must
never call a task's function and never wait for one.
"""
