"""Telemetry: what the events of the feed say about runs and attempts, as sums and as spans.

Called by the tick, a thread of beat, `api` and the commands. This room must never be called by what runs a
step, read more than its own rows for an answer, or import OpenTelemetry.
"""
