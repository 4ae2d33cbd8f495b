"""Hooks of pipelines: the end of a run, or an approval that begins to wait, starts runs or calls URLs. Called
by the tick.
"""
