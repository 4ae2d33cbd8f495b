import socket
from typing import Any

from gunicorn.glogging import Logger

class ThreadWorker:
    log: Logger
    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None: ...
