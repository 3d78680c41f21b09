"""Small inputs that ask for much: every bomb that we know of, built by `forge`, under its name."""

import base64
import struct
import zlib
from collections.abc import Callable
from typing import Any

from helpers import forge, optional
from helpers.forge import Table, batch, dictionary, encoding, field, i8, i16, i32, i64, schema
from tensors import sparse_forge

import arrowipc as ipc
from arrowipc.filters.statistics import STATISTICS_KEY

zstandard = optional("zstandard")

MIB = 1 << 20
ZSTD = 1
MOST_ROWS = 2**31 - 1

Bomb = dict[str, bytes]  # by form: "stream", "file", "tensor", "sparse", "cells" (a stream per payload)

BOMBS: dict[str, Callable[[], Bomb]] = {}


def bomb(build: Callable[[], Bomb]) -> Callable[[], Bomb]:
    BOMBS[build.__name__.replace("_", " ")] = build
    return build


def both(described: Table, *parts: forge.Part, **framing: Any) -> Bomb:
    """The same messages as a stream and as a file."""
    return {"stream": forge.stream(described, *parts, **framing), "file": forge.file(described, *parts, **framing)}


def one(kind: Table, rows: int, buffers: list[Any], *children: Table, nodes: Any = (), **more: Any) -> Bomb:
    """One batch of one column; `nodes` are those of the children."""
    described = schema(field("x", kind, *children))
    return both(described, batch(rows, [(rows, 0), *((n, 0) for n in nodes)], buffers, **more))


def several(made: dict[Any, Bomb]) -> Bomb:
    """Bombs of one kind under names of their own."""
    return {f"{form} {name}": data for name, forms in made.items() for form, data in forms.items()}


def packed(data: bytes, codec: str = "zstd") -> bytes:
    """A compressed buffer; long ones in one frame that states its size."""
    import lz4.frame

    if codec == "lz4":
        return i64(len(data)) + lz4.frame.compress(data, store_size=False)
    return i64(len(data)) + zstandard.ZstdCompressor(1).compress(data)


#: A schema of one column, and a batch of one row of it.
BYTE, ONE_ROW = schema(field("x", forge.INT8)), batch(1, [(1, 0)], [b"", i8(1)])


# -- metadata ------------------------------------------------------------------------------------------------


#: 10 GB of names: one Field, named 10,000 times.
BOMBS["one name for ten thousand fields"] = lambda: {
    "stream": forge.stream(schema(*[field("n" * MIB, forge.INT8)] * 10_000))
}


@bomb
def shared_metadata_values() -> Bomb:
    """Pairs of 1 MiB, the same one named 100,000 times, wherever metadata may stand."""
    pair = Table("KeyValue", key="k", value="v" * MIB)
    pairs = [pair] * 100_000
    plain = schema(field("x", forge.NULL))
    rows = batch(1, [(1, 0)], [])
    message = Table("Message", version=forge.V5, header=rows, bodyLength=0, custom_metadata=pairs)
    return {
        "stream": forge.stream(plain.but(custom_metadata=pairs), rows),
        "stream 2": forge.stream(schema(field("x", forge.NULL).but(custom_metadata=pairs)), rows),
        "stream 3": forge.stream(plain, forge.encapsulate(forge.flatbuffer(message))),
        "file": forge.file(
            plain, rows, footer=Table("Footer", version=forge.V5, schema=plain, recordBatches=[], custom_metadata=pairs)
        ),
    }


def nested(levels: int, kind: Table, width: int = 1) -> Table:
    """A field of so many levels above an int8; each names the one below `width` times."""
    level = field("x", forge.INT8)
    for _ in range(levels):
        level = field("x", kind, *[level] * width)
    return level


BOMBS |= {
    # 2**40 fields: each level names the one below twice.
    "shared structs": lambda: both(schema(nested(40, forge.STRUCT, 2)), batch(1, [(1, 0)], [b""])),
    "nesting": lambda: both(schema(nested(5_000, forge.LIST)), batch(1, [(1, 0)], [b""])),
    # As deep as allowed, a row that is one element at every level.
    "sixty levels of lists": lambda: both(
        schema(nested(60, forge.LIST)), batch(1, [(1, 0)] * 61, [b"", i32(0, 1)] * 60 + [b"", i8(1)])
    ),
}


@bomb
def schema_of_many_fields() -> Bomb:
    """Honest: 100,000 columns, of nulls and of integers, and 10,000 to look into."""
    forms = {}
    for kind, buffers, count in (
        ("null", [], 100_000),
        ("int8", [b"", i8(1)], 100_000),
        ("int8", [b"", i8(1)], 10_000),
    ):
        described = ipc.Schema([ipc.field("f", kind)] * count).serialize()
        rows = batch(1, [(1, 0)] * count, buffers * count)
        forms[f"stream of {kind} {count}"] = forge.stream(described, rows)
    return forms


@bomb
def unions_with_many_children() -> Bomb:
    """127 children for each of 60 unions, all on one buffer of type codes."""
    rows, unions = 10_000, 60
    children = [field(f"c{k}", forge.NULL) for k in range(127)]
    kind = Table("Union", mode=0, typeIds=list(range(127)))
    described = schema(*(field(f"u{k}", kind, *children) for k in range(unions)))
    nodes = ([(rows, 0)] + [(rows, 0)] * 127) * unions
    codes = bytes(k % 127 for k in range(rows))
    message = batch(rows, nodes, [(0, rows)] * unions)
    message.body = codes + bytes(-rows % 8)
    return both(described, message)


@bomb
def claims_of_vectors() -> Bomb:
    """Counts of 2**29 and more for every vector of a batch."""
    whole = forge.message(batch(1, [(1, 0)], [b"", i8(1)], variadic=[1]))
    return {
        f"stream {path} {claim}": forge.stream(BYTE, forge.patch(whole, f"header.{path}.#", claim))
        for path in ("nodes", "buffers", "variadicBufferCounts")
        for claim in (2**28, 2**31 - 1, 2**32 - 1)
    }


@bomb
def variadic_counts() -> Bomb:
    """Views that claim 2**40 buffers, and 100,000 that are empty."""
    counts, text = (2**31 - 1, 2**40, 2**63 - 1), [b"", forge.view(b"a")]
    many = one(forge.UTF8_VIEW, 1, [*text, *[(0, 0)] * 100_000], variadic=[100_000])
    return many | several({count: one(forge.UTF8_VIEW, 1, text, variadic=[count]) for count in counts})


@bomb
def lengths_of_messages() -> Bomb:
    """Streams whose prefix or bodyLength announces much more than arrives."""
    rows = forge.message(ONE_ROW)
    claims = {f"body {claim}": forge.patch(rows, "bodyLength", claim) for claim in (2**31, 2**40, 2**62, 2**63 - 8)}
    claims |= {f"metadata {claim}": forge.CONTINUATION + i32(claim) + rows[8:] for claim in (2**24, 2**31 - 8)}
    return {f"stream {name}": forge.stream(BYTE, data, eos=b"") for name, data in claims.items()}


@bomb
def time_zones() -> Bomb:
    """A zone of 1 MiB, and names that lead out of the data base."""
    names = ["Z" * MIB, "../" * 1000 + "etc/passwd", "+" + "9" * 10_000 + ":00", "\0", "/dev/zero"]
    kinds = [Table("Timestamp", unit=2, timezone=name) for name in names]
    return several({n: one(kind, 1000, [b"", i64(*range(1000))]) for n, kind in enumerate(kinds)})


@bomb
def tensor_columns() -> Bomb:
    """Parameters of tensor columns: nested JSON, long numbers, shapes whose product is huge."""
    texts = {
        "nested": "[" * 500_000,
        "nested shape": '{"shape":' + "[" * 500_000 + "]" * 500_000 + "}",
        "digits": '{"shape":[' + "9" * 1_000_000 + "]}",
        "product": '{"shape":[' + ",".join(["4294967296"] * 3) + "]}",
        "dimensions": '{"shape":[' + ",".join(["1"] * 300_000) + "]}",
        "permuted": '{"shape":[1,1],"permutation":[' + ",".join(["0"] * 300_000) + "]}",
        "empty": '{"shape":[0,9223372036854775807]}',
        "float": '{"shape":[1e308]}',
    }
    forms = {}
    for name, text in texts.items():
        pairs = [("ARROW:extension:name", "arrow.fixed_shape_tensor"), ("ARROW:extension:metadata", text)]
        for size in (0, 1):
            described = schema(field("x", fixed_lists(size), field("item", forge.INT8), metadata=pairs))
            rows = batch(1, [(1, 0), (size, 0)], [b"", b"", bytes(size)])
            forms[f"stream {name} {size}"] = forge.stream(described, rows)
    return forms


@bomb
def statistics_as_JSON() -> Bomb:
    """What batches say about themselves, which `file_statistics` reads."""
    column = f'{{"v":1,"rows":1,"names":{zlib.crc32(b"x")},"columns":{{"x":%s}}}}'
    texts = {
        "nested": "[" * 500_000,
        "members": '{"columns":' * 300_000,
        "digits": column % ('{"min":' + "9" * 1_000_000 + "}"),
        "text digits": column % ('{"min":"' + "9" * 1_000_000 + '"}'),
    }
    return {
        f"stream {name}": forge.stream(BYTE, forge.message(ONE_ROW, metadata=[(STATISTICS_KEY, text)]))
        for name, text in texts.items()
    }


def _in_a_footer(text: str) -> bytes:
    """A file of one batch whose footer has a JSON text as its statistics, in which ``BLOCK`` is that of the batch."""
    rows = forge.message(ONE_ROW)
    block = struct.pack("<qi4xq", 8 + len(forge.message(BYTE)), rows.meta_length, rows.body_length)
    entry = base64.b64encode(zlib.compress(text.replace("BLOCK", block.hex()).encode(), 1))
    return forge.file(BYTE, rows, metadata=[(STATISTICS_KEY, entry)])


@bomb
def statistics_in_a_footer() -> Bomb:
    """What a footer says about batches, which `file_statistics` reads: more than there are batches and columns."""
    whole = f'{{"v":1,"last_block":"BLOCK","names":{zlib.crc32(b"x")},"rows":[1],"columns":{{%s}}}}'
    return {
        "file": _in_a_footer(whole % ""),
        "file of lists": _in_a_footer(whole % ('"x":{"min":[' + "[]," * (5 * MIB) + "[]]}")),
        "file of numbers": _in_a_footer(whole % ('"x":{"min":[' + "1," * (7 * MIB) + "1]}")),
        "file of columns": _in_a_footer(whole % (",".join([f'"{i}":{{}}' for i in range(MIB)]))),
        "file of levels": _in_a_footer("[" * (16 * MIB)),
    }


# -- rows ----------------------------------------------------------------------------------------------------


NULLS = field("item", forge.NULL)
BOMBS |= {
    "null rows": lambda: one(forge.NULL, MOST_ROWS, []),
    "rows of empty structs": lambda: one(forge.STRUCT, MOST_ROWS, [b""]),
    "rows of lists of no elements": lambda: one(fixed_lists(0), MOST_ROWS, [b""], NULLS, nodes=[0]),
    "rows of lists of nulls": lambda: one(fixed_lists(2**20), 2**20, [b""], NULLS, nodes=[2**40]),
    "rows of one list of nulls": lambda: one(fixed_lists(MOST_ROWS), 1, [b""], NULLS, nodes=[MOST_ROWS]),
    "rows of large lists of nulls": lambda: one(forge.LARGE_LIST, 1, [b"", i64(0, 2**62)], NULLS, nodes=[2**62]),
    "rows of no bytes": lambda: one(Table("FixedSizeBinary", byteWidth=0), MOST_ROWS, [b"", b""]),
    "rows without columns": lambda: both(schema(), batch(MOST_ROWS, [], [])),
    "rows beyond the limit": lambda: several({n: one(forge.NULL, n, []) for n in (2**31, 2**60, 2**63 - 1)}),
}


def fixed_lists(size: int) -> Table:
    return Table("FixedSizeList", listSize=size)


@bomb
def products_of_list_sizes() -> Bomb:
    """(2**31 - 1)**k elements, by nesting lists of fixed size."""
    made = {}
    for levels in (2, 3, 5):
        kind, inner = fixed_lists(MOST_ROWS), NULLS
        for _ in range(levels - 1):
            inner = field("item", kind, inner)
        nodes = [(MOST_ROWS**k % 2**63, 0) for k in range(1, levels + 2)]
        made[levels] = both(schema(field("x", kind, inner)), batch(MOST_ROWS, nodes, [b""] * levels))
    return several(made)


#: Rows times widths beyond 2**63.
BOMBS["products of widths"] = lambda: several(
    {n: one(Table("FixedSizeBinary", byteWidth=n), MOST_ROWS, [b"", b"12345678"]) for n in (2**31 - 1, 2**30)}
)


# -- compression ---------------------------------------------------------------------------------------------


@bomb
def compressed_claims() -> Bomb:
    """A few bytes that claim to be 2**31 ... 2**62."""
    made = {}
    for codec, number in (("zstd", 1), ("lz4", 0)):
        for claim in (2**30, 2**31, 2**40, 2**62, 2**63 - 1):
            buffers = [b"", packed(i32(0, 3), codec), i64(claim) + packed(b"abc", codec)[8:]]
            made[f"{codec} {claim}"] = one(forge.BINARY, 1, buffers, codec=number)
    return several(made)


@bomb
def frames_of_no_stated_size() -> Bomb:
    """Frames of runs that do not say what they hold: 2 MiB in 60 bytes, a thousand times."""
    run = b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(
        struct.pack("<I", 1 << 17 << 3 | 1 << 1)[:3] + b"\0" for _ in range(512)
    )
    run += struct.pack("<I", 1 << 17 << 3 | 1 << 1 | 1)[:3] + b"\0"
    claim = i64(513 << 17)
    described = schema(*(field(f"f{n}", forge.BINARY) for n in range(40)))
    many, some = (
        both(described, batch(1, [(1, 0)] * 40, [b"", packed(i32(0, end)), claim + run] * 40, codec=ZSTD))
        for end in (0, 8)
    )
    return many | several({"strictly limited": some})


def zeros(size: int) -> Table:
    """A batch of one value of so many zeros, in a few KiB."""
    return batch(1, [(1, 0)], [b"", packed(i32(0, size)), packed(bytes(size))], codec=ZSTD)


BYTES = schema(field("x", forge.BINARY))
BOMBS |= {
    # 64 and 200 MiB; what a reader of strangers' bytes sets is in `measure_bombs.LIMITS`.
    "honest frames": lambda: several({size: both(BYTES, zeros(size)) for size in (64 * MIB, 200 * MIB)}),
    # 2 GiB in all.
    "honest batches": lambda: {"stream": forge.stream(BYTES, *[zeros(16 * MIB)] * 128)},
}


@bomb
def one_compressed_buffer_for_many() -> Bomb:
    """1000 columns on one frame of 16 MiB."""
    frame = packed(bytes(16 * MIB))
    offsets = packed(i32(0, 16 * MIB))
    start = len(offsets) + -len(offsets) % 8
    spans = [(0, 0), (0, len(offsets)), (start, len(frame))]
    message = batch(1, [(1, 0)] * 1000, spans * 1000, codec=ZSTD)
    message.body = offsets + bytes(-len(offsets) % 8) + frame + bytes(-len(frame) % 8)
    return both(schema(*(field(f"f{n}", forge.BINARY) for n in range(1000))), message)


# -- bytes that are shared -----------------------------------------------------------------------------------


@bomb
def columns_on_one_buffer() -> Bomb:
    """10,000 columns on one body of 1 MiB."""
    message = batch(1, [(1, 0)] * 10_000, [(0, 0), (0, 8), (8, MIB - 8)] * 10_000)
    message.body = i32(0, MIB - 8) + b"x" * (MIB - 8)
    return both(schema(*(field(f"f{n}", forge.UTF8) for n in range(10_000))), message)


def long_views(text: bytes, step: int, end: int) -> Bomb:
    """20,000 views of nearly all of a text: 20 GB."""
    views = b"".join(forge.view(text[:13], 0, step * n, length=MIB - step * n - end) for n in range(20_000))
    return one(forge.UTF8_VIEW, 20_000, [b"", views, text], variadic=[1])


BOMBS |= {
    "views on one buffer": lambda: long_views(b"x" * MIB, 1, 0),
    # The buffer as a whole is no UTF-8, so that each view must be looked at.
    "views of other bytes": lambda: long_views("é".encode() * (MIB // 2) + b"\xff", 2, 2),
}


@bomb
def list_views() -> Bomb:
    """100,000 lists that are all of 100,000 integers."""
    rows = 100_000
    buffers = [b"", i32(*[0] * rows), i32(*[rows] * rows), b"", bytes(8 * rows)]
    return one(forge.LIST_VIEW, rows, buffers, field("item", forge.INT64), nodes=[rows])


@bomb
def list_views_of_list_views() -> Bomb:
    rows = 3_000
    spans = [b"", i32(*[0] * rows), i32(*[rows] * rows)]
    item = field("item", forge.LIST_VIEW, field("item", forge.LIST_VIEW, field("item", forge.INT8)))
    return one(forge.LIST_VIEW, rows, [*spans * 3, b"", bytes(rows)], item, nodes=[rows] * 3)


@bomb
def dense_unions_on_one_value() -> Bomb:
    """100,000 rows that are the same text of 1 MiB."""
    rows = 100_000
    kind = Table("Union", mode=1, typeIds=[0])
    buffers = [bytes(rows), i32(*[0] * rows), b"", i32(0, MIB), b"x" * MIB]
    return one(kind, rows, buffers, field("s", forge.UTF8), nodes=[1])


def one_run(kind: Table, values: list[bytes], *children: Table, nodes: Any = ()) -> Bomb:
    """One run of as many rows as there may be."""
    runs = [field("run_ends", forge.INT32), field("values", kind, *children)]
    return one(forge.REE, MOST_ROWS, [b"", i32(MOST_ROWS), *values], *runs, nodes=[1, 1, *nodes])


ITEM = field("item", forge.INT8)
BOMBS |= {
    "one run": lambda: one_run(forge.INT64, [b"", i64(7)]),
    "one run of text": lambda: one_run(forge.UTF8, [b"", i32(0, MIB), b"x" * MIB]),
    "one run of structs": lambda: one_run(forge.STRUCT, [b"", b"", i64(7)], field("a", forge.INT64), nodes=[1]),
    "one run of a list": lambda: one_run(forge.LIST, [b"", i32(0, MIB), b"", bytes(MIB)], ITEM, nodes=[MIB]),
}


@bomb
def runs_in_lists() -> Bomb:
    """List views of run-end encoded rows."""
    rows = 10_000
    buffers = [b"", i32(*[0] * rows), i32(*[MOST_ROWS] * rows), b"", i32(MOST_ROWS), b"", i64(7)]
    item = field("item", forge.REE, field("run_ends", forge.INT32), field("values", forge.INT64))
    return one(forge.LIST_VIEW, rows, buffers, item, nodes=[MOST_ROWS, 1, 1])


@bomb
def maps_of_nothing() -> Bomb:
    """Rows that are maps of 2**31 - 1 nulls."""
    entries = field(
        "entries", forge.STRUCT, field("key", forge.NULL, nullable=False), field("value", forge.NULL), nullable=False
    )
    return one(forge.MAP, 1, [b"", i32(0, MOST_ROWS), b""], entries, nodes=[MOST_ROWS] * 3)


@bomb
def lists_of_nothing() -> Bomb:
    """Rows that are lists of 2**31 - 1 structs without fields, or of lists of size 0."""
    buffers = [b"", i32(0, MOST_ROWS), b"", b"", b""]
    return several(
        {
            "structs": one(forge.LIST, 1, buffers[:3], field("item", forge.STRUCT), nodes=[MOST_ROWS]),
            "lists": one(forge.LIST, 1, buffers, field("item", fixed_lists(0), ITEM), nodes=[MOST_ROWS, 0]),
        }
    )


# -- dictionaries --------------------------------------------------------------------------------------------


def coded(index: Table, kind: Table = forge.UTF8) -> Table:
    """A schema of one column with a dictionary."""
    return schema(field("x", kind, dictionary=encoding(0, index)))


def words(count: int, text: bytes, **slots: Any) -> Table:
    """A dictionary of the same word again and again."""
    ends = i32(*range(0, len(text) * count + 1, len(text)))
    return dictionary(0, batch(count, [(count, 0)], [b"", ends, text * count]), **slots)


ROW = batch(1, [(1, 0)], [b"", i32(0)])


def first_word(rows: int) -> Table:
    """Rows with indices of one byte into a dictionary."""
    return batch(rows, [(rows, 0)], [b"", bytes(rows)])


BOMBS |= {
    # A million rows of one byte that stand for 1 MiB each.
    "dictionary of one long word": lambda: both(coded(forge.INT8), words(1, b"x" * MIB), first_word(MIB)),
    "dictionary of null rows": lambda: both(
        coded(forge.INT8, forge.NULL), dictionary(0, batch(MOST_ROWS, [(MOST_ROWS, 0)], [])), first_word(1000)
    ),
}


@bomb
def one_dictionary_for_many_fields() -> Bomb:
    """5,000 fields that refer to one dictionary of 100,000 words."""
    words, fields = 100_000, 5_000
    described = schema(*(field(f"f{n}", forge.UTF8, dictionary=encoding(7, forge.INT32)) for n in range(fields)))
    data = dictionary(7, batch(words, [(words, 0)], [b"", i32(*range(words + 1)), b"x" * words]))
    return both(described, data, batch(2, [(2, 0)] * fields, [b"", i32(0, words - 1)] * fields))


@bomb
def dictionaries_in_dictionaries() -> Bomb:
    """Lists of indices of lists of indices ...: a thousand times more at each of four levels."""
    size = 1000
    parts = [dictionary(0, batch(size, [(size, 0)], [b"", i32(*range(size + 1)), b"x" * size]))]
    below = field("item", forge.UTF8, dictionary=encoding(0, forge.INT16))
    for level in range(1, 4):
        offsets = i32(*[0] * size, size)
        rows = batch(size, [(size, 0), (size, 0)], [b"", offsets, b"", i16(*[size - 1] * size)])
        parts.append(dictionary(level, rows))
        below = field("item", forge.LIST, below, dictionary=encoding(level, forge.INT16))
    last = batch(size, [(size, 0)], [b"", i16(*[size - 1] * size)])
    return both(schema(below), *parts, last)


@bomb
def deltas() -> Bomb:
    """20,000 deltas of one word behind a dictionary of 100,000."""
    more = bytes(forge.message(words(1, b"more", isDelta=True)))
    return {"stream": forge.stream(coded(forge.INT32), words(100_000, b"word"), *[more] * 20_000, ROW)}


@bomb
def replacements_between_batches() -> Bomb:
    """Many dictionaries that replace each other, with a batch after each."""
    parts = [bytes(forge.message(part)) for n in range(1000) for part in (words(1, b"word %03d" % n), ROW)]
    return {"stream": forge.stream(coded(forge.INT32), *parts)}


@bomb
def deltas_of_null_rows() -> Bomb:
    """Deltas that add 2**31 - 1 words of no bytes each."""
    nulls = dictionary(0, batch(MOST_ROWS, [(MOST_ROWS, 0)], []))
    more = bytes(forge.message(nulls.but(isDelta=True)))
    last = batch(1, [(1, 0)], [b"", i64(2**33)])
    return {"stream": forge.stream(coded(forge.INT64, forge.NULL), nulls, *[more] * 1000, last)}


# -- footers -------------------------------------------------------------------------------------------------


@bomb
def blocks_of_one_batch() -> Bomb:
    """A footer that lists a batch of 1 MiB 100,000 times."""
    return {"file": forge.file(schema(field("x", forge.INT8)), first_word(MIB), blocks=lambda found: found * 100_000)}


@bomb
def blocks_of_one_dictionary() -> Bomb:
    """One dictionary listed 10,000 times, and one delta."""
    described, data, delta = coded(forge.INT32), words(100_000, b"word"), words(100_000, b"word", isDelta=True)
    return {
        "file": forge.file(described, data, ROW, dictionary_blocks=lambda b: b * 10_000),
        "file deltas": forge.file(described, data, delta, ROW, dictionary_blocks=lambda b: [b[0], *b[1:] * 10_000]),
    }


@bomb
def blocks_that_overlap() -> Bomb:
    """Blocks at every eighth byte of a batch that is full of batches."""
    inner = bytes(forge.message(batch(1, [(1, 0)], [b"", i8(1)])))
    size = len(inner)
    rows = batch(1, [(1, 0)], [b"", i32(0, 1000 * size), inner * 1000])

    def blocks(found: list[forge.Block]) -> list[forge.Block]:
        (start, meta, _), *_ = found
        return [(start + meta + 8 + size * (k % 1000), size - 8, 8) for k in range(50_000)]

    return {"file": forge.file(schema(field("x", forge.INT8)), rows, blocks=blocks)}


# -- payload columns -----------------------------------------------------------------------------------------


NULL_ROWS = batch(MOST_ROWS // 1000, [(MOST_ROWS // 1000, 0)], [])
BOMBS |= {
    "payloads of which one expands": lambda: {"cells": forge.stream(schema(field("x", forge.NULL)), NULL_ROWS)},
    # 1000 cells of a few hundred bytes, 100 KiB each: 100 MiB.
    "payloads of high ratio": lambda: {"cells": forge.stream(BYTES, zeros(MIB // 10))},
}


@bomb
def payloads_of_long_words() -> Bomb:
    """Cells with one word of 64 KiB and 4 Ki rows of it: more would be honest rows of a byte each, 230 in Python."""
    return {"cells": forge.stream(coded(forge.INT8), words(1, b"x" * (MIB // 16)), first_word(4096))}


# -- tensors -------------------------------------------------------------------------------------------------


def tensor(dims: list[Any], strides: list[int] | None = None, size: int = 8, kind: Table = forge.INT64) -> bytes:
    """A Tensor message; dimensions are sizes or tables."""
    shape = [Table("TensorDim", size=each) if isinstance(each, int) else each for each in dims]
    return bytes(forge.message(Table("Tensor", bytes(size), type=kind, shape=shape, strides=strides, data=(0, size))))


#: Products beyond 2**63, strides of zero, many dimensions, names that are shared.
BOMBS["tensor shapes"] = lambda: {
    "tensor product": tensor([2**32, 2**32, 2**32]),
    "tensor empty product": tensor([0, 2**62, 2**62]),
    "tensor zero strides": tensor([2**40], [0]),
    "tensor zero strides 2": tensor([2**20, 2**20], [0, 0], 8, forge.INT8),
    "tensor zero strides within the allowance": tensor([2**26], [0], 8, forge.INT8),
    "tensor strides that overflow": tensor([3], [2**62]),
    "tensor names": tensor([LONG_NAME] * 50_000),
    "tensor shared names": tensor([LONG_NAME] * 60),
    "tensor no bytes": tensor([2**62], None, 0, Table("FixedSizeBinary", byteWidth=0)),
}
LONG_NAME = Table("TensorDim", size=1, name="n" * MIB)


@bomb
def sparse_dimensions() -> Bomb:
    """Sparse tensors of a few bytes whose dense form has 10**12 elements or more."""
    forms = {}
    for count, name in ((0, "empty"), (2, "two")):
        body = sparse_forge.Body()
        indices = body.add(sparse_forge.pack("q", [0, 0, 1, 1][: 2 * count]))
        data = body.add(sparse_forge.pack("d", [1.0] * count))
        for size in (2**20, 2**31, 2**62, 2**13):
            index = sparse_forge.coo(indices)
            forms[f"sparse coo {name} {size}"] = sparse_forge.message(body, index, [size, size], count, data)
    body = sparse_forge.Body()
    indptr, indices = (body.add(sparse_forge.pack("q", values)) for values in ([0, 1], [0]))
    data = body.add(sparse_forge.pack("d", [1.0]))
    for columns in (2**28, 2**40, 2**62):
        index = sparse_forge.csx(0, indptr, indices)
        forms[f"sparse csr {columns}"] = sparse_forge.message(body, index, [1, columns], 1, data)
    deep = sparse_forge.Body()
    levels = 60
    pointers = [deep.add(sparse_forge.pack("q", [0, 1])) for _ in range(levels - 1)]
    nodes = [deep.add(sparse_forge.pack("q", [0])) for _ in range(levels)]
    data = deep.add(sparse_forge.pack("d", [1.0]))
    for size in (2, 2**40):
        index = sparse_forge.csf(pointers, nodes, list(range(levels)))
        forms[f"sparse csf {size}"] = sparse_forge.message(deep, index, [size] * levels, 1, data)
    return forms
