"""Reads mutants without validation, in front of a page that nobody may read, and uses them in every way.

``python -m hostile.unvalidated KIND SEED COUNT FIRST`` is a process that may die: a JSON line before each input
names it, and one after it says how it went.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from helpers import drive, mutate
from peers import verdicts

import arrowipc as ipc
from arrowipc.columns.truncate import compact

KINDS = ("stream", "file", "tensor")
PROT_NONE = 0
#: Kinds of slots behind which nothing is proven at this level.
CONTENTS = ("body", "claim")


class Guarded:
    """Bytes whose last one lies right in front of a page without read permission."""

    def __init__(self, data: bytes) -> None:
        pages = -(-len(data) // mmap.PAGESIZE)
        self._map = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        end = pages * mmap.PAGESIZE
        self._map[end - len(data) : end] = data
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mprotect(ctypes.c_void_p(start + end), ctypes.c_size_t(mmap.PAGESIZE), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
        self.view = memoryview(self._map)[end - len(data) : end].toreadonly()


def mutants(kind: str, seed: int, count: int) -> Iterator[bytes]:
    """A third damaged anywhere, the others where the contents are, so that they get past the structure."""
    inputs = tensors() if kind == "tensor" else verdicts.goldens(kind)
    for number, data in enumerate(inputs):
        share = count // len(inputs) + (number < count % len(inputs))
        other = inputs[(number + 1) % len(inputs)]
        yield from mutate.mutants(data, seed, share // 3, other)
        inside = mutate.Mutator(data, random.Random(seed + number))
        inside.names = [name for name in sorted(inside.kinds) if name in CONTENTS] or inside.names
        for _ in range(share - share // 3):
            out = bytearray(data)
            for _ in range(inside.chance.choice((1, 3, 9))):
                inside._change(out)
            yield bytes(out)


def tensors() -> list[bytes]:
    """Dense and sparse tensors of some shapes."""
    dense = np.arange(24, dtype="<i4").reshape(2, 3, 4) % 5
    found = []
    for values in (dense, dense[::-1], dense[:, :, 0], np.zeros((3, 0)), np.arange(5.0)):
        sink = bytearray()
        ipc.write_tensor(values, sink)
        found.append(bytes(sink))
    flat = dense.reshape(6, 4)
    for layout, values in (
        (ipc.SparseCOOTensor, dense),
        (ipc.SparseCSRMatrix, flat),
        (ipc.SparseCSCMatrix, flat),
        (ipc.SparseCSFTensor, dense),
    ):
        sink = bytearray()
        ipc.write_sparse_tensor(layout.from_dense(values), sink)
        found.append(bytes(sink))
    return found


# -- reading -------------------------------------------------------------------------------------------------


def readings(kind: str, data: memoryview) -> Iterator[Callable[[], list[Any]]]:
    options: dict[str, Any] = {"validate": "none"}
    if kind == "file":
        yield lambda: drive.from_file(data, **options).batches
        yield lambda: list(ipc.recover(data, **options))
        return
    yield lambda: drive.from_bytes(data, **options).batches
    yield lambda: [in_a_payload(data, dictionaries="decode", **options)]
    yield lambda: [in_a_payload(data, parent_index=True, on_error="null", **options)]


def in_a_payload(data: memoryview, **options: Any) -> Any:
    return ipc.decode_payloads([data], **options).batch


# -- using ---------------------------------------------------------------------------------------------------


def written(open_: Callable[..., Any], *batches: Any, **options: Any) -> bytearray:
    sink = bytearray()
    with open_(sink, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink


def exported(batch: Any) -> None:
    """Over the C interface to a consumer that trusts it; what cannot be proven must not get there."""
    again = ipc.RecordBatch.from_arrow(batch)
    again.equals(batch)
    ipc.RecordBatch.from_arrow(batch, validate="full").to_pylist()


USES: dict[str, Callable[[Any], Any]] = {
    "everything of `drive.use`": lambda batch: drive.use(batch, export=False),
    "html": lambda batch: batch._repr_html_(),
    "pydict": lambda batch: batch.to_pydict(),
    "nbytes": lambda batch: (batch.nbytes, ipc.get_record_batch_size(batch)),
    "file": lambda batch: written(ipc.new_file, batch, batch.slice(1), statistics=True),
    "zstd": lambda batch: written(ipc.new_stream, batch, compression="zstd"),
    "message": lambda batch: batch.serialize(),
    "compacted": lambda batch: compact(batch).to_pylist(),
    "joined": lambda batch: ipc.concat_batches([batch, batch.slice(1), batch]).to_pylist(),
    "repeated": lambda batch: ipc.repeat(batch, [2] * batch.num_rows).to_pylist(),
    "payloads": lambda batch: ipc.encode_payloads(batch, rows_per_payload=3).to_pylist(),
    "groups": lambda batch: ipc.encode_payloads(batch, group_by=batch.schema.names[0], keep_keys=True),
    "statistics": lambda batch: ipc.compute_statistics(batch),
    "export": exported,
    "table": lambda batch: ipc.Table(batch.schema, [batch, batch]).equals(ipc.Table(batch.schema, [batch] * 2)),
}


def use_array(array: Any, depth: int = 0) -> None:
    """What numbers and views are made of, at every level of nesting."""
    array._repr_html_(), array.is_valid(), list(array[:50])
    for copy in (False, True):
        with contextlib.suppress(ipc.ArrowIpcError):
            array.to_numpy(copy=copy).tobytes()
    for index in (0, len(array) // 2, -1):
        with contextlib.suppress(ipc.ArrowIpcError, IndexError):
            array[index]
    for below in [*array.children, *filter(None, [array.dictionary])]:
        if depth < 6:
            with contextlib.suppress(ipc.ArrowIpcError):
                use_array(below.slice(0, drive.ROWS_TO_LOOK_AT), depth + 1)


def use_batch(batch: Any) -> None:
    for start in (0, 3):
        small = batch.slice(start, min(batch.num_rows, drive.ROWS_TO_LOOK_AT // 10))
        for use in USES.values():
            with contextlib.suppress(ipc.ArrowIpcError, KeyError):
                use(small)
        for array in small.columns:
            with contextlib.suppress(ipc.ArrowIpcError):
                use_array(array)


def use_tensor(data: memoryview) -> None:
    for read in (ipc.read_tensor, ipc.read_sparse_tensor):
        with contextlib.suppress(ipc.ArrowIpcError):
            options = {"validate": "none"} if read is ipc.read_sparse_tensor else {}
            found = read(data, **options)
            repr(found), found.equals(found)
            for name in ("to_numpy", "to_dense", "to_coo", "to_csr", "to_csf", "canonical", "serialize"):
                with contextlib.suppress(ipc.ArrowIpcError, ValueError):
                    getattr(found, name, lambda: None)()


def use_unvalidated(kind: str, data: bytes) -> int:
    """Use whatever can be read; how many readers gave something."""
    guarded, good = Guarded(data), 0
    if kind == "tensor":
        use_tensor(guarded.view)
        return 1
    for read in readings(kind, guarded.view):
        with contextlib.suppress(ipc.ArrowIpcError):
            batches = read()
            good += 1
            for batch in batches[:2]:
                use_batch(batch)
    return good


def main(kind: str, seed: str, count: str, first: str) -> None:
    verdicts.limit_memory()
    for number, data in enumerate(mutants(kind, int(seed), int(count))):
        if number < int(first):
            continue
        print(json.dumps({"input": number}), flush=True)
        start = time.process_time()
        try:
            good, outcome = use_unvalidated(kind, data), "survived"
        except BaseException as error:
            import traceback

            good, outcome = 0, "".join(traceback.format_exception(error)[-4:])
        seconds = round(time.process_time() - start, 2)
        print(json.dumps({"outcome": outcome, "read": good, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
