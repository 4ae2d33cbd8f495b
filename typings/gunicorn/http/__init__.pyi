from typing import Any

from gunicorn.config import Config

class Unreader:
    def take_buffered(self) -> bytes: ...
    def unread(self, data: bytes) -> None: ...

class Parser:
    unreader: Unreader

class RequestParser(Parser):
    def __init__(self, cfg: Config, source: Any, source_addr: Any) -> None: ...
    def __next__(self) -> Any: ...
