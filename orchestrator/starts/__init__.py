"""Starts: what begins runs besides a request. Schedules, webhooks, ends of runs and of task runs, and rows
that callers have enqueued; it also calls the URLs of hooks. What the tick starts is a `Source` of loop.py.

Called by registrations, the tick, a thread of beat, and `api`. This room must never be called by what runs a
step: the engine does not know that anything follows the end of a run. It must never read an HTTP request or
build its answer, and never ask any clock but that of PostgreSQL.
"""
