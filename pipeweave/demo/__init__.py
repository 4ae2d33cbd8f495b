"""The pipeline that `pipeweave demo` runs: it measures the source files of Python's standard library.

Workers load it as an app. It imports only `pipeweave`, as users' tasks do, and must never import the server's
side.
"""
