"""What do checksums cost: writing with them, and reading that verifies them, beside the same without?

No other library has checksums of messages. "zlib.crc32 of the file" is what people do instead: one for all bytes.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from measuring import data
from measuring.race import Runs, question, size

import arrowipc

SHAPES = [*data.SHAPES, "everyday"]


def source_of(shape: str, rows: int, checksum: bool) -> bytes:
    with arrowipc.new_file(sink := bytearray(), checksum=checksum) as writer:
        for _ in range(4):
            writer.write(data.shaped(shape, rows))
    return bytes(sink)


def read(path: Path, **options: Any) -> int:
    """Open, read all batches into memory, close."""
    with arrowipc.open_file(path, memory_map=False, **options) as reader:
        return sum(batch.num_rows for batch in reader)


@question("read a file of 4 batches, verified", "validated, verified, zlib.crc32 of the file", unit="file")
@pytest.mark.parametrize("rows", [size(1_000, 20), size(20_000, 50), size(500_000, 60)])
@pytest.mark.parametrize("shape", SHAPES)
def test_verify(folder: Path, shape: str, rows: int) -> Runs:
    plain, summed = folder / "plain.arrow", folder / "summed.arrow"
    plain.write_bytes(source_of(shape, rows, False))
    summed.write_bytes(source_of(shape, rows, True))
    return {
        "validated": lambda: read(plain),
        "verified": lambda: read(summed, verify=True),
        "zlib.crc32 of the file": lambda: zlib.crc32(plain.read_bytes()),
    }


@question("write a file of 4 batches with checksums", "without, with checksums", unit="file")
@pytest.mark.parametrize("rows", [size(1_000, 20), size(20_000, 50), size(500_000, 60)])
@pytest.mark.parametrize("shape", SHAPES)
def test_write(folder: Path, shape: str, rows: int) -> Runs:
    batch = arrowipc.RecordBatch.from_arrow(data.shaped(shape, rows))

    def write(checksum: bool) -> int:
        path = folder / f"{checksum}.arrow"
        with arrowipc.new_file(path, durable=False, checksum=checksum) as writer:
            for _ in range(4):
                writer.write(batch)
        return path.stat().st_size

    return {"without": lambda: write(False), "with checksums": lambda: write(True)}
