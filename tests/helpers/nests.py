"""Payloads whose dictionaries refer to dictionaries: few bytes that stand for many values.

``python -m helpers.nests SEED COUNT`` decodes and writes so many drawn columns, and prints one line of JSON each.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import arrowipc as ipc
from helpers import defuse, memory
from helpers.forge import INT32, LIST, LIST_VIEW, REE, STRUCT, Table, batch, dictionary, encoding, field, schema
from helpers.forge import EOS, stream

#: What a level's values are: all of them name values of the level below, some many times.
KINDS = ("list", "struct", "shared", "view", "wide", "union", "sparse", "runs", "mixed")
TYPE_IDS = {"mode": 1, "typeIds": [0]}


@dataclass
class Shape:
    """A payload column: `depth` dictionaries, whose values have `fan` elements each."""

    kind: str
    depth: int = 3
    fan: int = 8
    words: int = 64  # values per dictionary
    rows: int = 64
    cells: int = 4
    seed: int = 0


class Level:
    """The values of one dictionary: their field, without its name, and their buffers."""

    def __init__(self, shape: Shape, level: int, rng: np.random.Generator) -> None:
        self.shape, self.level, self.rng = shape, level, rng
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[bytes] = []

    def leaf(self, name: str, count: int, below: list[Table], kind: Table = INT32) -> Table:
        """Indices into the dictionary below; numbers where there is none."""
        self.nodes.append((count, 0))
        if below:
            indices = self.rng.integers(0, self.shape.words, count)
            self.buffers += [b"", indices.astype("<i4").tobytes()]
            return field(name, below[0], *below[1:], dictionary=encoding(self.level - 1))
        self.buffers += [b"", self.rng.integers(0, 1 << 30, count).astype("<i4").tobytes()]
        return field(name, kind)

    def list(self, name: str, count: int, below: list[Table]) -> Table:
        fan = self.shape.fan
        self.nodes.append((count, 0))
        self.buffers += [b"", (np.arange(count + 1) * fan).astype("<i4").tobytes()]
        return field(name, LIST, self.leaf("item", count * fan, below))

    def view(self, name: str, count: int, below: list[Table], wide: bool = False) -> Table:
        """List views of shared elements; wide ones take most of them."""
        elements = max(count, 2)
        size = max(elements - 64, 1) if wide else min(self.shape.fan, elements)
        sizes = np.full(count, size)
        offsets = self.rng.integers(0, elements - size + 1, count)
        self.nodes.append((count, 0))
        self.buffers += [b"", offsets.astype("<i4").tobytes(), sizes.astype("<i4").tobytes()]
        return field(name, LIST_VIEW, self.leaf("item", elements, below))

    def struct(self, name: str, count: int, below: list[Table], members: int) -> Table:
        self.nodes.append((count, 0))
        self.buffers.append(b"")
        return field(name, STRUCT, *(self.leaf(f"m{n}", count, below) for n in range(members)))

    def union(self, name: str, count: int, below: list[Table], dense: bool) -> Table:
        self.nodes.append((count, 0))
        self.buffers.append(bytes(count))
        if dense:
            self.buffers.append(self.rng.integers(0, count, count).astype("<i4").tobytes())
        kind = Table("Union", mode=int(dense), typeIds=[0])
        return field(name, kind, self.list("a", count, below))

    def runs(self, name: str, count: int, below: list[Table]) -> Table:
        runs = max(count // 4, 1)
        ends = np.append(np.arange(1, runs) * 4, count)
        self.nodes += [(count, 0), (runs, 0)]
        self.buffers += [b"", ends.astype("<i4").tobytes()]
        return field(
            name, REE, field("run_ends", INT32, nullable=False), self.list("values", runs, below)
        )

    def build(self, name: str, count: int, below: list[Table]) -> Table:
        kind = self.shape.kind
        if kind == "mixed":
            kind = KINDS[(self.level + self.shape.seed) % (len(KINDS) - 1)]
        if self.level == 0 and kind != "wide":
            return self.leaf(name, count, below)
        if kind in ("view", "wide"):
            return self.view(name, count, below, kind == "wide")
        if kind in ("struct", "shared"):
            return self.struct(name, count, below, min(self.shape.fan, 16))
        if kind in ("union", "sparse"):
            return self.union(name, count, below, kind == "union")
        return self.runs(name, count, below) if kind == "runs" else self.list(name, count, below)


def payload(shape: Shape, number: int) -> bytes:
    """One cell of the column, valid in every respect."""
    rng = np.random.default_rng([shape.seed, number])
    parts, below = [], []
    for n in range(shape.depth):
        level = Level(shape, n, rng)
        made = level.build("x", shape.words, below)
        below = [made.slots["type"], *made.slots["children"]]
        parts.append(dictionary(n, batch(shape.words, level.nodes, level.buffers)))
    top = Level(shape, shape.depth, rng)
    columns = [top.leaf("x", shape.rows, below)]
    if shape.kind == "shared":
        columns.append(top.leaf("y", shape.rows, below))
    return stream(schema(*columns), *parts, batch(shape.rows, top.nodes, top.buffers))


def column(shape: Shape) -> list[bytes]:
    return [payload(shape, number) for number in range(shape.cells)]
