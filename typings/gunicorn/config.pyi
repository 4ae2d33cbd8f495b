from typing import Any

class Config:
    def set(self, name: str, value: Any) -> None: ...
