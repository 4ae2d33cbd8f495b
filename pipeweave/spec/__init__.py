"""Pipelines as documents: steps, edges, references, rules. Pure.

Imports the base modules and `schema`. It must never call a task."""
