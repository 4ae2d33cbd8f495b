SERVER: str
