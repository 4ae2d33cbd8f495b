from typing import Any

from gunicorn.config import Config

class HeaderPolicy:
    cfg: Config
    peer_addr: Any
    def _peer_trusted_for_forwarded(self) -> tuple[dict[str, str], list[str]]: ...
