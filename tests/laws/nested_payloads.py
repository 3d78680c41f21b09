"""Payloads whose dictionaries refer to dictionaries: few bytes that stand for many values.

``python -m laws.nested_payloads SEED COUNT`` decodes and writes so many drawn columns: two lines of JSON each.
"""

import contextlib
import dataclasses
import json
import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from helpers import forge
from helpers.forge import Table, batch, dictionary, encoding, field, schema, stream
from hostile import measure_bombs

import arrowipc as ipc

#: What the values of a dictionary are; their elements name values of the dictionary below.
KINDS = ("list", "fixed", "struct", "shared", "view", "wide", "union", "sparse", "runs", "mixed", "null")


@dataclass
class Shape:
    """A payload column: `depth` dictionaries, whose values have `fan` elements each, and how it is read."""

    kind: str
    depth: int = 3
    fan: int = 8
    words: int = 64  # values per dictionary
    rows: int = 64
    cells: int = 4
    seed: int = 0
    again: int = 0  # further times that the outermost dictionary comes in a cell
    deltas: bool = False  # ... and whether as a delta
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


def drawn(rng: random.Random, most: int = 1 << 20) -> Shape:
    """Any shape whose column has some 200 KB to `most` bytes."""
    while True:
        shape = Shape(
            rng.choice(KINDS),
            depth=rng.choice((1, 2, 2, 3, 3, 4, 5, 6)),
            fan=rng.choice((2, 4, 12, 12, 40, 200)),
            words=rng.choice((16, 100, 400, 3000)),
            rows=rng.choice((1, 50, 1000)),
            cells=rng.choice((1, 2, 10, 60)),
            seed=rng.randrange(1 << 30),
            again=rng.choice((0, 0, 0, 1, 20)),
            deltas=rng.random() < 0.5,
            options={
                "on_error": rng.choice(("raise", "skip", "skip", "null")),
                "parent_index": rng.random() < 0.5,
                "dictionaries": rng.choice(("unify", "unify", "decode")),
                "columns": rng.choice((None, None, ["x"])),
                "validate": rng.choice(("full", "full", "none")),
            },
        )
        size = len(payload(shape, 0)) if shape.words * shape.fan * shape.depth < 1 << 18 else most
        if 200_000 <= size * shape.cells < most:
            return shape


class Level:
    """The values of one dictionary: their field, without its name, and their buffers."""

    def __init__(self, shape: Shape, level: int, rng: np.random.Generator) -> None:
        self.shape, self.level, self.rng = shape, level, rng
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[bytes] = []

    def add(self, count: int, *buffers: Any) -> None:
        """A node and its buffers, of which arrays are of int32."""
        self.nodes.append((count, 0))
        self.buffers += [each if isinstance(each, bytes) else each.astype("<i4").tobytes() for each in buffers]

    def leaf(self, name: str, count: int, below: list[Table]) -> Table:
        """Indices into the dictionary below; numbers where there is none."""
        self.add(count, b"", self.rng.integers(0, self.shape.words if below else 1 << 30, count))
        if not below:
            return field(name, forge.INT32)
        return field(name, below[0], *below[1:], dictionary=encoding(self.level - 1))

    def lists(self, name: str, count: int, below: list[Table]) -> Table:
        fan = self.shape.fan
        self.add(count, b"", np.arange(count + 1) * fan)
        return field(name, forge.LIST, self.leaf("item", count * fan, below))

    def fixed(self, name: str, count: int, below: list[Table]) -> Table:
        self.add(count, b"")
        kind = Table("FixedSizeList", listSize=self.shape.fan)
        return field(name, kind, self.leaf("item", count * self.shape.fan, below))

    def view(self, name: str, count: int, below: list[Table], wide: bool = False) -> Table:
        """List views of shared elements; wide ones take most of them."""
        elements = max(count, 2)
        size = max(elements - 64, 1) if wide else min(self.shape.fan, elements)
        self.add(count, b"", self.rng.integers(0, elements - size + 1, count), np.full(count, size))
        return field(name, forge.LIST_VIEW, self.leaf("item", elements, below))

    def struct(self, name: str, count: int, below: list[Table]) -> Table:
        self.add(count, b"")
        return field(name, forge.STRUCT, *(self.leaf(f"m{n}", count, below) for n in range(2)))

    def union(self, name: str, count: int, below: list[Table], dense: bool) -> Table:
        self.add(count, bytes(count), *([self.rng.integers(0, count, count)] if dense else []))
        return field(name, Table("Union", mode=int(dense), typeIds=[0]), self.lists("a", count, below))

    def runs(self, name: str, count: int, below: list[Table]) -> Table:
        runs = max(count // 4, 1)
        self.add(count)
        self.add(runs, b"", np.append(np.arange(1, runs) * 4, count))
        return field(name, forge.REE, field("run_ends", forge.INT32, nullable=False), self.lists("values", runs, below))

    def build(self, name: str, count: int, below: list[Table]) -> Table:
        kind = self.shape.kind
        if kind == "mixed":
            kind = KINDS[(self.level + self.shape.seed) % (len(KINDS) - 2)]
        if kind == "null" and self.level == 0:
            self.add(count)
            return field(name, forge.NULL)
        if self.level == 0 and kind not in ("view", "wide"):
            return self.leaf(name, count, below)
        match kind:
            case "view" | "wide":
                return self.view(name, count, below, kind == "wide")
            case "struct" | "shared":
                return self.struct(name, count, below)
            case "union" | "sparse":
                return self.union(name, count, below, kind == "union")
            case "fixed" | "runs":
                return getattr(self, kind)(name, count, below)
        return self.lists(name, count, below)


def payload(shape: Shape, number: int) -> bytes:
    """One cell of the column, valid in every respect."""
    rng = np.random.default_rng([shape.seed, number])
    parts: list[Any] = []
    below: list[Table] = []
    for n in range(shape.depth):
        level = Level(shape, n, rng)
        count = 1 << 20 if shape.kind == "null" and n == 0 else shape.words
        outer = below
        made = level.build("x", count, below)
        below = [made.slots["type"], *made.slots["children"]]
        parts.append(dictionary(n, batch(count, level.nodes, level.buffers)))
    for turn in range(shape.again + 1):
        if turn:
            # Few values behind those so far, or, as many others, in their place.
            level = Level(shape, shape.depth - 1, rng)
            count = 2 if shape.deltas else shape.words
            level.build("x", count, outer)
            data = batch(count, level.nodes, level.buffers)
            parts.append(dictionary(shape.depth - 1, data, isDelta=shape.deltas))
        top = Level(shape, shape.depth, rng)
        columns = [top.leaf("x", shape.rows, below)]
        if shape.kind == "shared":
            columns.append(top.leaf("y", shape.rows, below))
        parts.append(batch(shape.rows, top.nodes, top.buffers))
    return stream(schema(*columns), *parts)


def column(shape: Shape) -> list[bytes]:
    return [payload(shape, number) for number in range(shape.cells)]


def written(cells: list[bytes]) -> None:
    """The batches of all cells in one file."""
    batches = [batch for cell in cells for batch in ipc.open_stream(cell)]
    with ipc.new_file(bytearray(), batches[0].schema, unify_dictionaries=True) as writer:
        for batch in batches:
            with contextlib.suppress(ipc.LimitError):
                writer.write_batch(batch)


def measured(shape: Shape) -> Iterator[dict[str, Any]]:
    """What decoding and writing a column takes: outcome, seconds of the processor, MiB."""
    cells = column(shape)
    lines: list[dict[str, Any]] = []
    meter = measure_bombs.Meter(lines.append)
    meter.run("decode", lambda: ipc.decode_payloads(cells, **shape.options) and None)
    meter.run("unify", lambda: written(cells))
    for line in measure_bombs.paired(lines):
        yield {"shape": asdict(shape), "bytes": sum(map(len, cells)), **line}


def main(arguments: Iterable[str]) -> None:
    seed, count = map(int, arguments)
    rng = random.Random(seed)
    measure_bombs.warm_up()
    list(measured(Shape("list")))
    for _ in range(count):
        for line in measured(drawn(rng)):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
