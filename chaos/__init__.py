"""The fault test: a real stack, real faults, and a checker of its own: `python -m chaos --help`."""
