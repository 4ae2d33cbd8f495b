"""Code that the commands share: connections, options, rendering, progress.

Only the commands call it. It must never define a command.
"""
