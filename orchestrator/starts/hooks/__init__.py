"""Hooks of pipelines: each end of a run that has hooks starts runs or calls URLs. Called by the tick."""
