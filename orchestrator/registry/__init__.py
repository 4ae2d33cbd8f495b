"""What is registered: tenants, services, worker processes, tasks, pipeline versions.

Every later room may read it. It must never move a run or a task run."""
