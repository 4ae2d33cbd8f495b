"""Writes docs/sql/: every SQL statement of the orchestrator as it is sent, its sender, locks and indexes.

`python -m sql_pages` (or `make sql`) writes the pages. A test compares them with the code.
"""
