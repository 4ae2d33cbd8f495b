"""What happens to one message in a worker's child: claim, call, store, go on.

Called by Celery. It must never hold a statement: the orchestrator's verbs do."""
