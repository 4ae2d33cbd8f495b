"""The way from the outbox to Redis: the Celery application, messages and chords.

Called after a commit, by whoever holds the deployment. It must never read or write PostgreSQL."""
