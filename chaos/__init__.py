"""The fault test: a real stack, real faults, and an independent checker: `python -m chaos --help`."""
