"""One-machine mode: embedded PostgreSQL and Valkey, and supervised API, workers, beat and Flower.

The commands `up`, `down`, `ps` and `demo` call it. It imports the server's side only inside functions, and
starts the stack's processes by command line. It must never import `cli`.
"""
