"""An orchestrator inside a program of one's own: the API as a WSGI application, and the tick in a thread.

Users import it from `pipeweave`. It is a composition root, like `up`: it imports the server's side, only
inside functions. No other room may import it.
"""

from __future__ import annotations

from pipeweave.embedding.orchestrator import Orchestrator

__all__ = ["Orchestrator"]
