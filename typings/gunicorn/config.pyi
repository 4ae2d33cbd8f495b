from typing import Any

class Config:
    is_ssl: bool
    def set(self, name: str, value: Any) -> None: ...
