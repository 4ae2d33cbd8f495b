"""Sets up one process: its connections, the database schema, logs and memory.

Called by `api`, `workers`, the command line, the tick and diagnosis. This room must never decide how a run
goes on."""
