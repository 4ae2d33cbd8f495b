"""What `pipeweave demo` runs: a pipeline over something that every machine has, Python's own source files."""
