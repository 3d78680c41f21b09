"""Reads every bomb through every entry point, uses what comes out, and measures each step of that.

``python -m hostile.measure_bombs LEVELS all|quick [NAME...]`` prints lines of JSON, one before and behind each step.
"""

import collections
import contextlib
import ctypes
import io
import itertools
import json
import pickle
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any

from helpers import memory
from helpers.arrays import ipc_bytes
from hostile import bombs

import arrowipc as ipc
from arrowipc.filters.statistics import mark_of, statistics_in

LEVELS = ("none", "full", "strict")
#: Batches of a reader that are held on to, as a loop over it does.
HELD = 3
#: Cells of a payload column, and bytes of it: a bomb is what small input asks for.
PAYLOADS, COLUMN = 1000, 16 << 20
COLUMNS = 3
MILLIONS = 10**7

# The default lets a batch be 1 GiB, however small it was: constant columns compress 20,000 times. Who reads
# what strangers send sets less, as SECURITY.md says; everything else here is read with the defaults.
LIMITS = {
    "honest frames": {"decompressed_slack": 96 << 20},
    "honest batches": {"decompressed_slack": 32 << 20},
    "payloads of which one expands": {"decompressed_slack": 8 << 20, "decompressed_ratio": 30},
    "payloads of long words": {"decompressed_slack": 32 << 20},
}


def last(batches: Iterable[Any]) -> list[Any]:
    """The last batches, each let go of as a loop would."""
    held: list[Any] = []
    for batch in batches:
        held = [*held[1 - HELD :], batch]
    return held


def opened(open: Callable[..., Any], wrap: Callable[[bytes], Any] = bytes) -> Callable[..., list[Any]]:
    def read(data: bytes, **options: Any) -> list[Any]:
        with open(wrap(data), **options) as reader:
            return last(reader)

    return read


def pushed(data: bytes, **options: Any) -> list[Any]:
    decoder = ipc.StreamDecoder(**options)

    def batches() -> Iterator[Any]:
        for at in range(0, len(data), 1 << 16):
            decoder.feed(data[at : at + (1 << 16)])
            for event in decoder:
                if hasattr(event, "batch"):
                    yield event.batch
        decoder.finish()

    return last(batches())


#: Of the columns that statistics of bombs are about.
MARK = mark_of(ipc.Schema([ipc.types.field("x", ipc.types.int8())]))


def messages(data: bytes, validate: str, limits: Any) -> list[Any]:
    for message in ipc.MessageReader(data, limits=limits):
        repr(message), statistics_in(message.custom_metadata, MARK, 1), message.kind
    return []


def described(data: bytes, **options: Any) -> list[Any]:
    with ipc.open_file(data, **options) as reader:
        ipc.file_statistics(reader)
    return []


def copies(data: bytes) -> int:
    """How often a payload stands in its column."""
    return max(1, min(PAYLOADS, COLUMN // max(1, len(data))))


def payload(data: bytes, repeated: bool = False, **options: Any) -> list[Any]:
    return [ipc.decode_payloads([data] * (copies(data) if repeated else 1), **options).batch]


def numbered(data: bytes, **options: Any) -> list[Any]:
    found = ipc.decode_payloads(
        [data] * copies(data), parent_index=True, on_error="null", max_bytes=64 << 20, **options
    )
    repr(found), found.parent_index, found.counts
    return [found.batch]


READERS: dict[str, dict[str, Callable[..., list[Any]]]] = {
    "stream": {
        "open_stream": opened(ipc.open_stream),
        "open_stream of an object": opened(ipc.open_stream, io.BytesIO),
        "StreamDecoder": pushed,
        "MessageReader": messages,
        "recover": opened(ipc.recover),
        "decode_payloads": payload,
        "decode_payloads, decoded": partial(payload, dictionaries="decode"),
    },
    "file": {
        "open_file": opened(ipc.open_file),
        "open_file of an object": opened(ipc.open_file, io.BytesIO),
        "file_statistics": described,
        "recover": opened(ipc.recover),
    },
    "cells": {
        "decode_payloads": partial(payload, repeated=True),
        "decode_payloads, decoded": partial(payload, repeated=True, dictionaries="decode"),
        "decode_payloads, numbered": numbered,
    },
}
#: Those whose batches are used; the others hand out the same ones.
USED = {"open_stream", "open_file", "decode_payloads", "decode_payloads, decoded", "decode_payloads, numbered"}


def write(batch: Any, open: Callable[..., Any], **options: Any) -> None:
    with open(bytearray(), batch.schema, **options) as writer:
        writer.write_batch(batch)


def export(batch: Any) -> Any:
    import pyarrow as pa

    with contextlib.suppress(pa.ArrowInvalid):  # what it knows about extension types
        pa.record_batch(batch)


def touch(array: Any) -> None:
    """What costs next to nothing, whatever the array claims."""
    repr(array), array.null_count, array.type, array.children, array.dictionary
    for index in {0, len(array) // 2, len(array) - 1} if len(array) else ():
        array[index]
    array.slice(len(array) // 2, 3).to_pylist()


USES: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda batch, other: repr(batch),
    "html": lambda batch, other: batch._repr_html_(),
    "schema": lambda batch, other: (repr(batch.schema), batch.schema.serialize(), batch.nbytes),
    "equality": lambda batch, other: batch.equals(other),
    "to_pylist": lambda batch, other: batch.to_pylist(),
    "to_pydict": lambda batch, other: batch.to_pydict(),
    "stream": lambda batch, other: write(batch, ipc.new_stream),
    "slice written": lambda batch, other: write(batch.slice(1), ipc.new_stream),
    "compressed": lambda batch, other: write(batch, ipc.new_file, compression="lz4"),
    "unified": lambda batch, other: write(batch, ipc.new_file, unify_dictionaries=True, statistics=True),
    "message": lambda batch, other: batch.serialize(),
    "size": lambda batch, other: ipc.get_record_batch_size(batch),
    "payloads": lambda batch, other: ipc.encode_payloads(batch, rows_per_payload=batch.num_rows // 4 or 1),
    "payload of a row": lambda batch, other: ipc.encode_payloads(batch.slice(0, 20), rows_per_payload=1),
    "payloads of all rows": lambda batch, other: (
        batch.num_rows > MILLIONS and ipc.encode_payloads(batch, rows_per_payload=1)
    ),
    "concat": lambda batch, other: ipc.concat_batches([batch, other.slice(1)]),
    "repeat": lambda batch, other: ipc.repeat(batch.slice(0, 20), [3] * min(batch.num_rows, 20)),
    "statistics": lambda batch, other: ipc.compute_statistics(batch),
    "export": lambda batch, other: export(batch),
    "pickle": lambda batch, other: pickle.dumps(batch),
}
ARRAY_USES: dict[str, Callable[[Any], Any]] = {
    "touch": touch,
    "iteration": lambda array: collections.deque(itertools.islice(array, 1000), 0),
    "array to_pylist": lambda array: array.to_pylist(),
    "to_numpy": lambda array: array.to_numpy(copy=True),
    "is_valid": lambda array: array.is_valid(),
    "dictionary": lambda array: array.dictionary and array.dictionary.to_numpy(copy=True),
}

EVERY = frozenset({*USES, *ARRAY_USES})
QUICK_READERS = {"open_stream", "open_file"}
QUICK_USES = {"repr", "equality", "to_pylist", "to_numpy", "touch", "stream", "unified", "concat", "statistics"}


class Meter:
    """Runs steps one by one; `report` gets a line before and a line after each."""

    def __init__(self, report: Callable[[dict[str, Any]], None]) -> None:
        self.report = report
        self.trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)

    def run(self, where: str, step: Callable[[], Any]) -> Any:
        ipc.release_unused()
        self.trim(0)
        memory.forget_peak()
        before, start, found = memory.resident(), time.process_time(), None
        self.report({"start": where})
        try:
            found = step()
            outcome = "values"
        except ipc.ArrowIpcError as error:
            outcome = type(error).__name__
        except MemoryError as error:
            # What a sparse shape asks for as a dense array; refused by the allocator, as documented.
            outcome = "MemoryError" if "sparse" in where else f"broken: MemoryError: {error}"
        except BaseException as error:
            outcome = f"broken: {type(error).__name__}: {error}"[:300]
        seconds = time.process_time() - start
        mib = (memory.peak() - before) / (1 << 20)
        self.report({"outcome": outcome, "seconds": round(seconds, 2), "mib": round(mib)})
        return found


def use_tensor(meter: Meter, where: str, read: Callable[..., Any], data: bytes) -> None:
    found = meter.run(f"{where}: read", lambda: read(data))
    if found is None:
        return
    meter.run(f"{where}: repr", lambda: repr(found))
    meter.run(f"{where}: to_numpy", getattr(found, "to_numpy", None) or found.to_dense)
    meter.run(f"{where}: equality", lambda: found.equals(read(data)))
    for name in ("to_coo", "to_csr", "to_csc", "to_csf", "canonical", "serialize", "to_scipy"):
        if hasattr(found, name):
            meter.run(f"{where}: {name}", getattr(found, name))


def use_batch(meter: Meter, where: str, batch: Any, other: Any, level: str, chosen: Container[str] = EVERY) -> None:
    for name, use in USES.items():
        if name not in chosen or (name == "export" and level == "none"):
            continue
        meter.run(f"{where}: {name}", lambda use=use: use(batch, other))
    for index in range(min(COLUMNS, batch.num_columns)):
        array = batch.column(index)
        for name, step in ARRAY_USES.items():
            if name not in chosen:
                continue
            meter.run(f"{where}: {name}", lambda step=step, array=array: step(array))


def measure_bomb(meter: Meter, name: str, levels: Iterable[str] = LEVELS, quick: bool = False) -> None:
    """Every step of one bomb; `quick`: the steps that found most, on what the first entry point gives."""
    forms = bombs.BOMBS[name]()
    limits = ipc.Limits(**LIMITS.get(name, {}))
    for form, data in forms.items():
        kind = form.split()[0]
        if kind in ("tensor", "sparse"):
            read = ipc.read_tensor if kind == "tensor" else ipc.read_sparse_tensor
            use_tensor(meter, f"{name}: {form} by {read.__name__}", read, data)
            continue
        for level in levels:
            for reader, read_batches in READERS[kind].items():
                where = f"{name}: {form} by {reader} at {level}"
                options = {"validate": level, "limits": limits}
                found = meter.run(where, partial(read_batches, data, **options))
                if found and reader in (QUICK_READERS if quick else USED):
                    with contextlib.suppress(ipc.ArrowIpcError):
                        other = read_batches(data, **options)[-1]
                        use_batch(meter, where, found[-1], other, level, QUICK_USES if quick else EVERY)
                        del other
                del found


def warm_up() -> None:
    """Loads what the first bomb would load."""
    import numpy  # noqa: F401
    import pyarrow as pa

    rows = pa.record_batch({"a": [1, 2], "b": ["x", "y"], "c": pa.array(["x", "x"]).dictionary_encode()})
    quiet = Meter(lambda line: None)
    for codec in ("zstd", "lz4"):
        batch = last(ipc.open_stream(ipc_bytes(rows, compression=codec)))[-1]
        use_batch(quiet, "", batch, batch, "full")


def main(levels: str, extent: str, *names: str) -> None:
    warm_up()
    meter = Meter(lambda line: print(json.dumps(line), flush=True))
    for name in names or bombs.BOMBS:
        measure_bomb(meter, name, levels.split(","), extent == "quick")


def paired(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was said before and after each step, as one."""
    return [{**start, **end} for start, end in zip(lines[::2], lines[1::2], strict=True)]


if __name__ == "__main__":
    main(*sys.argv[1:])
