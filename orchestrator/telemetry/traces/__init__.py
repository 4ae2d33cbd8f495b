"""Traces: makes spans of the runs and attempts that have ended, and hands them to whoever sends them.

A thread of beat calls `run_once`. What runs a step knows nothing of spans: they are made of rows and events,
so that a worker that was killed misses none. This room must never import OpenTelemetry.
"""

from pipeweave.orchestrator.telemetry.traces.sending import begin, run_once
from pipeweave.orchestrator.telemetry.traces.spans import TraceSpan

__all__ = ["TraceSpan", "begin", "run_once"]
