"""What do checksums cost: writing with them, and reading that verifies them, beside the same without?

No other library has checksums of messages. "pyarrow and zlib.crc32" is what people do instead: one for the whole file.
The files are in memory (page cache); reading copies them, as from a disk.
"""

import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from measuring import data, peers
from measuring.race import Runs, question, size

import arrowipc

SHAPES = [*data.SHAPES, "everyday"]
ROWS = [size(1_000, 20), size(20_000, 50), size(500_000, 60)]


def by_pyarrow(path: Path, check: bool = False) -> int:
    content = path.read_bytes()
    if check:
        zlib.crc32(content)
    return peers.rows_of(map(pa.ipc.open_file(content).get_batch, range(4)))


def by_arrowipc(path: Path, **options: Any) -> int:
    with arrowipc.open_file(path, memory_map=False, **options) as reader:
        return peers.rows_of(reader)


READERS = "pyarrow, arrowipc, arrowipc unvalidated, arrowipc verified, pyarrow and zlib.crc32"


@question("read a file of 4 batches", READERS, unit="file")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_verify(folder: Path, shape: str, rows: int) -> Runs:
    for checksum in (False, True):
        with arrowipc.new_file(folder / f"{checksum}.arrow", checksum=checksum) as writer:
            writer.write([data.shaped(shape, rows)] * 4)
    return {
        "pyarrow": lambda: by_pyarrow(folder / "False.arrow"),
        "arrowipc": lambda: by_arrowipc(folder / "False.arrow"),
        "arrowipc unvalidated": lambda: by_arrowipc(folder / "False.arrow", validate="none"),
        "arrowipc verified": lambda: by_arrowipc(folder / "True.arrow", verify=True),
        "pyarrow and zlib.crc32": lambda: by_pyarrow(folder / "False.arrow", True),
    }


@question("write a file of 4 batches", "pyarrow, arrowipc, arrowipc with checksums", unit="file")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_write(folder: Path, shape: str, rows: int) -> Runs:
    batches, path = [data.shaped(shape, rows)] * 4, folder / "file.arrow"

    def ours(checksum: bool) -> None:
        with arrowipc.new_file(path, durable=False, checksum=checksum) as writer:
            writer.write(batches)

    return {
        "pyarrow": lambda: data.write(str(path), batches, pa.ipc.new_file),
        "arrowipc": lambda: ours(False),
        "arrowipc with checksums": lambda: ours(True),
    }
