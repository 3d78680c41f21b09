PAIR: tuple[bytes, bytes]
CLOSING_PAIR: tuple[bytes, bytes]
UNCLOSED: str
