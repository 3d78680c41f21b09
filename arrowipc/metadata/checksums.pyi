from arrowipc._core import ReadableBuffer

PAIR: tuple[bytes, bytes]
CLOSING_PAIR: tuple[bytes, bytes]
UNCLOSED: str

def crc32c(data: ReadableBuffer, portable: bool = False) -> int: ...
