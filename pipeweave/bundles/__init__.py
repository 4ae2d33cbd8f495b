"""Signed bundles: tasks and pipelines in one file that is built, signed and verified without a server.

Called by `orchestrator/bundles`, the workers and the commands. It must never read a row, or run what a bundle
holds.
"""
