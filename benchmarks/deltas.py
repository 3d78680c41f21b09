"""What does a dictionary delta cost, and does its cost grow with the dictionary?

Measured, per delta: reading a stream in which a batch of 100 rows follows each delta of 100 words, all
batches kept until the end, so that the dictionary of every batch stays what it was.

* pyarrow: ``list(pa.ipc.open_stream(data))``: puts the whole dictionary together again for each delta.
* arrowipc: ``list(open_stream(data, validate="none"))``, and with the default full validation.
* arro3: ``list(read_ipc_stream(BytesIO(data)))``.
* copied alone: the bodies of the deltas put one behind the other in fresh memory that doubles, as NumPy does
  it: how memory alone grows dearer.
* polars and nanoarrow do not read deltas.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc
from benchmarks import data, peers
from benchmarks.harness import FLAT, Case, Curve, Run, Scale

TITLE = "dictionary deltas of 100 words"


def cases(scale: Scale) -> Iterator[Case]:
    """The goal's 400 deltas, and the growth curve."""
    words = scale.size(100, 3)
    for count in (200, 400, 800, 1600, 3200) if scale.thorough else (200, 400, 800):
        deltas = scale.size(count, count // 100)
        source = data.delta_stream(deltas, words)
        yield Case(
            f"{deltas} deltas of {words} words",
            "delta",
            deltas,
            contenders(source),
            goal=20 if count == 400 else None,
            curve=Curve("cost per delta", deltas, FLAT, "deltas flat"),
            row="deltas",
            named=count == 400,
        )


def kept(read: Callable[[], Any]) -> Run:
    """Return a run that keeps all batches and counts their rows."""
    return lambda: sum(batch.num_rows for batch in list(read()))


def contenders(source: bytes) -> dict[str, Run]:
    """Return everyone, including those who will refuse."""
    found: dict[str, Run] = {
        "pyarrow": kept(lambda: pa.ipc.open_stream(source)),
        "arrowipc": kept(lambda: arrowipc.open_stream(source, validate="none")),
        "arrowipc full": kept(lambda: arrowipc.open_stream(source)),
        **peers.others(source, without=("arro3",)),
    }
    if peers.arro3_io is not None:
        found["arro3"] = kept(lambda: peers.arro3_io.read_ipc_stream(io.BytesIO(source)))
    found["copied alone"] = copying(source)
    return found


def copying(source: bytes) -> Run:
    """Return a run that puts the deltas together and does nothing else."""
    messages = list(arrowipc.MessageReader(source))
    bodies = [np.frombuffer(each.body, np.uint8) for each in messages if each.kind == "DictionaryBatch"]
    rows = sum(batch.num_rows for batch in arrowipc.open_stream(source))

    def run() -> int:
        room, used = np.empty(1 << 12, np.uint8), 0
        for body in bodies:
            end = used + len(body)
            if end > len(room):
                larger = np.empty(2 * end, np.uint8)
                larger[:used] = room[:used]
                room = larger
            room[used:end] = body
            used = end
        return rows

    return run
