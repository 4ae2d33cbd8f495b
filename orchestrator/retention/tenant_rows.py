"""Lists the tables with rows of a tenant, in the order in which they may be deleted.

A test compares the list with the schema: a new table stands here, or among those that belong to no tenant.
"""

from __future__ import annotations

# Rows of runs, which have no tenant of their own or are very many: by their run. Runs come last: while the
# row of a run is there, a process that goes on finds what is left of it.
OF_RUNS = (
    "events",
    "attempts",
    "signals",
    "waits",
    "run_pauses",
    "upload_claims",
    "asset_claims",
    "bulk_change_runs",
    "task_runs",
)
# Rows with a tenant. What refers to another table stands before it.
OF_TENANT = (
    "dead_letters",
    "redrives",
    "bulk_changes",
    "enqueued_runs",
    "run_tokens",
    "idempotency_claims",
    "temp_uploads",
    "event_fires",
    "hook_fires",
    "trigger_fires",
    "triggers",
    "schedule_fires",
    "schedules",
    "views",
    "pauses",
    "worker_tasks",
    "workers",
    "service_instances",
    "task_code_history",
    "tasks",
    "bundle_pipelines",
    "bundles",
    "bundle_keys",
    "pipeline_versions",
    "pipelines",
    "services",
    "run_stats",
    "task_stats",
    "tenant_use",
)
# Of no tenant, or of several: the audit stays, and so does the note of the deletion. Tokens are dealt with
# apart, because one may be valid for several tenants; links and sessions go with their token.
OF_NONE = (
    "access_tokens",
    "audit",
    "dropped_months",
    "event_reader",
    "feed_consumers",
    "leases",
    "orchestrator_state",
    "schema_migrations",
    "stats_place",
    "storage_sweeps",
    "tenant_deletions",
    "tick_chores",
    "trace_place",
    "ui_links",
    "ui_sessions",
)
