"""Makes a located body readable: decompressed, proven large enough, in native byte order, aligned."""

from typing import final

#: What was found of the codecs so far.
pools: list[CodecPool | None]

@final
class CodecContext: ...

@final
class CodecPool:
    def __new__(cls, codec: int, level: int, addresses: dict[str, int]) -> CodecPool: ...

@final
class DecompressJobs:
    def __new__(cls, room: int) -> DecompressJobs: ...

@final
class Inflater: ...
