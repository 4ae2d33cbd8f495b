"""Runs that wait, and runs inside of runs: what is asked of them during faults, and what must come of it."""
