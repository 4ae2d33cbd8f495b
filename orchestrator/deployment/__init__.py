"""The composition root: the connections of one process, its schema, its logs, its memory.

Called by `api`, `workers`, the command line and the tick. It must never hold a rule of the engine."""
