"""Descriptors: none is open after close, whatever was read and is kept, and none of what was refused or interrupted."""

import gc
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.arrays import FORMS, ipc_bytes
from helpers.memory import descriptors, interrupted
from helpers.processes import rounds

import arrowipc as ipc
from arrowipc import opening
from arrowipc.multifile import fragments
from arrowipc.sources import source as sources

COUNT = rounds(3, 300)
ROWS = {"x": list(range(20_000)), "word": [f"word {i}" for i in range(20_000)]}


def part(reader: Any) -> list[Any]:
    """All batches of a reader, some of its rows, and a column of each batch."""
    kept = [reader.schema, *reader]
    if isinstance(reader, ipc.RecordBatchFileReader):
        kept += [reader.take([3, 1], columns=["word"]), reader[-1]["word"]]
    return [*kept, reader.slice(5, 100)] if hasattr(reader, "slice") else kept


def closed(reader: Any) -> list[Any]:
    with reader:
        return part(reader)


#: Reads a path and closes what it opened; returns what may be kept.
READ: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: closed(ipc.open(path)),
    "open, index": lambda path: closed(ipc.open(str(path), index=True)),
    "open_file": lambda path: closed(ipc.open_file(path)),
    "open_stream": lambda path: closed(ipc.open_stream(path)),
    "open, not mapped": lambda path: closed(ipc.open(path, memory_map=False)),
    "open_file, not mapped": lambda path: closed(ipc.open_file(path, memory_map=False)),
    "open_stream, not mapped": lambda path: closed(ipc.open_stream(path, memory_map=False)),
    "open, a URL": lambda path: closed(ipc.open(path.as_uri())),
    "open, some columns": lambda path: closed(ipc.open(path, columns=["word"], index=True)),
    "open_dataset": lambda path: part(ipc.open_dataset(path, workers=0)),
    "RowDataset": lambda path: ipc.RowDataset(path)[[2, 0]],
    "recover": lambda path: closed(ipc.recover(path)),
    "recover, resync": lambda path: closed(ipc.recover(path, resync=True)),
    "recover, resync, not mapped": lambda path: closed(ipc.recover(path, resync=True, memory_map=False)),
    "recover into itself": lambda path: ipc.recover(path, into=path, durable=False),
    "messages": lambda path: list(ipc.MessageReader(path)),
    "read_message": ipc.read_message,
    "read_schema": ipc.read_schema,
    "read_tensor": ipc.read_tensor,
    "validate": ipc.validate,
}


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for kind in FORMS:
        whole = ipc_bytes([ROWS, ROWS], kind)
        zeros = whole[:30] + bytes(200) + whole[230:]
        for how, data in (("whole", whole), ("cut", whole[: len(whole) // 2]), ("zeros", zeros)):
            found[f"{kind}, {how}"] = path = tmp_path / f"{kind}-{how}"
            path.write_bytes(data)
    return found


@pytest.fixture(autouse=True)
def collected():
    """What tests before this one left in cycles is closed now."""
    gc.collect()


@pytest.mark.campaign
@pytest.mark.parametrize("way", READ)
def test_what_was_read_holds_no_descriptor_nor_does_what_was_refused(paths, way):
    with suppress(ipc.ArrowIpcError):
        READ[way](paths["file, whole"])  # whatever is loaded, and kept for ever, the first time
    before, kept, chance = descriptors(), [], random.Random(way)
    for _ in range(COUNT):
        for name in chance.sample(list(paths), len(paths)):
            try:
                kept.append(READ[way](paths[name]))
            except ipc.ArrowIpcError as error:
                kept.append(error)  # and with its traceback all that the frames had
            assert descriptors() <= before, name
    assert any(not isinstance(each, Exception) for each in kept) or way in ("read_tensor", "read_message")


class Failing:
    """Takes a few bytes; then nothing."""

    def write(self, data: Any) -> int:
        raise OSError("full")


def left(path: Any, **options: Any) -> None:
    with ipc.new_file(path, **options) as writer:
        writer.write(ROWS)
        raise ZeroDivisionError


def written(path: Any, rows: Any = ROWS, **options: Any) -> Any:
    with ipc.new_file(path, **options) as writer:
        writer.write(rows)
    return writer


WRITE: dict[str, Callable[[Path], Any]] = {
    "new_file": written,
    "new_file, not durable": lambda path: written(path, durable=False),
    "append": lambda path: written(path, append=True),
    "a folder": lambda path: written(path.parent),
    "a folder that is not there": lambda path: written(path.parent / "no" / "x"),
    "a device": lambda path: written("/dev/null"),
    "a file object": lambda path: written(Failing()),
    "an option": lambda path: written(path, compression="no"),
    "append, an option": lambda path: written(path, append=True, compression="no"),
    "append, other columns": lambda path: written(path, {"y": [1]}, append=True),
    "append, damaged": lambda path: written(path.with_name("damaged"), append=True),
    "an error": left,
    "append, an error": lambda path: left(path, append=True),
}


@pytest.mark.parametrize("way", WRITE)
def test_writers_that_ended_hold_no_descriptor(tmp_path, way):
    path = tmp_path / "x.arrow"
    written(path)
    path.with_name("damaged").write_bytes(path.read_bytes()[:-20])
    before, kept = descriptors(), []
    for _ in range(3):
        try:
            kept.append(WRITE[way](path))
        except (ipc.ArrowIpcError, OSError, ZeroDivisionError) as error:
            kept.append(error)
        assert descriptors() <= before
    assert sorted(os.listdir(tmp_path)) == ["damaged", "x.arrow"]


OPEN: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: ipc.open(path).close(),
    "open_file, not mapped": lambda path: ipc.open_file(path, memory_map=False).close(),
    "open_dataset": lambda path: ipc.open_dataset(path, workers=0),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("way", OPEN)
def test_an_interrupt_while_a_file_is_opened_leaves_nothing_open(tmp_path, way):
    written(path := tmp_path / "x.arrow", durable=False)
    OPEN[way](path)
    before = descriptors()
    for count in interrupted(lambda: OPEN[way](path), sources, opening, fragments):
        assert descriptors() <= before, count
