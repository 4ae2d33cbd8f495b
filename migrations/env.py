"""Alembic's entry: runs the migrations on the connection that `orchestrator/deployment/migrate.py` gives."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=None, version_table="schema_migrations")
with context.begin_transaction():
    context.run_migrations()
