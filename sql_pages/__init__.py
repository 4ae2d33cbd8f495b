"""Writes docs/sql/: every SQL statement of the orchestrator as it is sent, its sender, locks and indexes.

`python -m sql_pages` (or `make sql`) writes a list, which the repository keeps and a test compares with the
code, and a page for each room.
"""
