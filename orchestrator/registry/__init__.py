"""Stores and reads tenants, services, worker processes, tasks and pipeline versions.

Called by `runs`, workers, the command line and `api`; every later room reads from it. This room must never
change the status of a run or a task run."""
