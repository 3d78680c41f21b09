"""Inputs to begin with: golden files, every type, every framing, and inputs that once broke something."""

import functools
import itertools
import json
import random
import struct
import zlib
from binascii import a2b_base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from columns.variants import VARIANT, encoded
from dissociated import peers
from helpers import arrays, forge, golden, mutate, randoms
from helpers.arrays import pyarrow_bytes
from tensors import sparse_forge as sf

import arrowipc as ipc
from arrowipc import types
from arrowipc.decode.framing import message_of
from arrowipc.dissociated.memory.address_pairs import write_pairs
from arrowipc.filters.statistics import STATISTICS_KEY
from arrowipc.tensors.extension_columns import tensor_column

#: The most bytes of a golden file: larger ones take more time than they are worth.
LARGEST = 6000
#: Tags that the server of the target offers.
WANT, FREE = 0x5A << 56 | 1 << 40, 0x6B << 56 | 1 << 40
#: The address of the input itself, as memory of the server.
BASE = 10_000
REGRESSIONS = Path(__file__).resolve().parents[1] / "regressions"


def _golden(file: bool) -> list[bytes]:
    """A third of the golden data, and inputs that broke other readers."""
    kind = "file" if file else "stream"
    paths = [getattr(golden.load(case), kind) for case in golden.cases()[::3]]
    paths += sorted(each for each in (golden.data_root() / f"arrow-ipc-{kind}").iterdir() if each.is_file())
    return [data for data in dict.fromkeys(path.read_bytes() for path in paths) if len(data) <= LARGEST]


#: Types that are nested deeply.
DEEP = [
    pa.dictionary(pa.int8(), pa.list_(pa.string())),
    pa.dictionary(pa.int16(), pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))])),
    pa.list_(pa.dictionary(pa.uint8(), pa.binary_view())),
    pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string())),
    pa.struct([("l", pa.list_(pa.list_view(pa.string_view()))), ("m", pa.map_(pa.string(), pa.int8()))]),
    pa.sparse_union([pa.field("u", pa.list_(pa.bool_())), pa.field("n", pa.null())]),
    pa.list_(pa.struct([("t", pa.decimal256(70, 9)), ("e", pa.struct([]))])),
]


@functools.cache
def _batches() -> list[list[pa.RecordBatch]]:
    """Two batches of each type, then of a few types at once."""
    chance = random.Random(7)
    made = [[pa.record_batch({name: array})] * 2 for name, array in arrays.CASES.items()]
    made += [[pa.record_batch({"x": randoms.array_of(kind, 7, chance)})] * 2 for kind in DEEP]
    for _ in range(24):
        kinds = [chance.choice(randoms.LEAVES) for _ in range(2)]
        nested = [
            pa.list_(kinds[0]),
            pa.struct([("a", kinds[1]), ("b", pa.list_view(pa.int16()))]),
            pa.list_(kinds[0], 2),
            pa.map_(pa.string(), kinds[1]),
            pa.large_list_view(kinds[0]),
            pa.run_end_encoded(pa.int16(), pa.string()),
            pa.dictionary(pa.int8(), pa.string_view()),
            pa.dense_union([pa.field("p", kinds[0]), pa.field("q", pa.string())]),
        ]
        root = pa.schema([("x", kinds[0]), ("c0", chance.choice(nested))], metadata={"k": "v"})
        columns = [[randoms.array_of(kind, rows, chance) for kind in root.types] for rows in (7, 3)]
        made.append([pa.record_batch(each, schema=root) for each in columns])
    return made


def _written(file: bool) -> list[bytes]:
    made, form = [], ("stream", "file")[file]
    codecs = itertools.cycle((None, None, "lz4", "zstd"))
    for parts, codec in zip(_batches(), codecs, strict=False):
        same = not any(pa.types.is_dictionary(kind) for kind in parts[0].schema.types)
        made.append(pyarrow_bytes(parts if same or not file else parts[:1], form, compression=codec))
    old = {"use_legacy_format": not file, "metadata_version": pa.ipc.MetadataVersion.V4}
    for parts in _batches()[::9]:
        union = any(pa.types.is_union(kind) for kind in parts[0].schema.types)
        made.append(made[0] if union else pyarrow_bytes(parts[:1], form, **old))
    return made + [arrays.ipc_bytes(parts[0], form, checksum=True) for parts in _batches()[::5]]


def _tensor_columns(file: bool) -> bytes:
    """Columns of tensors, and tensors in binary cells."""
    values = np.arange(24, dtype="i2").reshape(2, 3, 4)
    columns: dict[str, Any] = {
        "x": tensor_column(values, "x", dim_names=["a", "b"]),
        "y": tensor_column([np.ones((1, 2), "f4"), np.ones((2, 2), "f4")], "y"),
    }
    fields = [each.field for each in columns.values()]
    columns["z"] = [ipc.Tensor(values[0]).serialize(), None]
    sink = bytearray()
    make = ipc.new_file if file else ipc.new_stream
    with make(sink, ipc.Schema([*fields, types.field("z", types.binary())])) as writer:
        writer.write(columns)
    return bytes(sink)


@functools.cache
def variants() -> list[bytes]:
    """Variants: the length of the metadata, the metadata, the value."""
    made = [encoded(VARIANT, 1 + i % 4, i > 3) for i in range(8)]
    return [bytes([len(metadata)]) + metadata + value for metadata, value in made]


def _forged() -> list[bytes]:
    """Framings and tables that pyarrow does not write."""
    numbers = forge.batch(2, [(2, 0)], [b"", forge.i32(1, 2)])
    root = forge.schema(forge.field("x", forge.INT32), metadata=[("k", "v")])
    long = b"a long text, it is"
    views = forge.batch(2, [(2, 0)], [b"", forge.view(b"abc") + forge.view(long), long], variadic=[1])
    return [
        forge.stream(root, numbers, numbers, prefix="legacy", eos=forge.LEGACY_EOS, version=forge.V4),
        forge.stream(root.but(endianness=1), numbers),
        forge.stream(root, numbers, eos=b""),
        forge.stream(forge.schema(forge.field("v", forge.UTF8_VIEW)), views),
    ]


@functools.cache
def streams() -> list[bytes]:
    return [*_written(False), peers.written_words(), _tensor_columns(False), *_forged(), *_golden(False)]


@functools.cache
def files() -> list[bytes]:
    # Files of other writers that do not frame the schema, or leave it out.
    others = [golden.WRITERS / f"{name}.arrow" for name in ("polars-2.1.0-zstd", "javascript-21.2.0-types")]
    theirs = [each.read_bytes() for each in others]
    return [*_written(True), peers.written_words(file=True), _tensor_columns(True), *_golden(True), *theirs]


@functools.cache
def feathers() -> list[bytes]:
    """Feather V1 files: one of each type alone, and one of all types."""
    columns = arrays.feather_columns()
    return [arrays.feather_v1({name: column}) for name, column in columns.items()] + [arrays.feather_v1(columns)]


@functools.cache
def schemas() -> list[Any]:
    return [ipc.read_schema(each) for each in _written(False)]


@functools.cache
def tensors() -> list[bytes]:
    values = np.arange(24, dtype="i4").reshape(2, 3, 4)
    made = [
        ipc.Tensor(values, ("a", "b", "c")),
        ipc.Tensor(values.transpose(2, 0, 1)),
        ipc.Tensor(values[:, ::2].astype("f2")),
        ipc.Tensor(np.arange(6).astype("M8[s]").reshape(2, 3)),
        ipc.Tensor(np.zeros((2, 2), "V5")),
        ipc.Tensor(np.zeros((0, 3), "u1")),
        ipc.Tensor(np.array(5.0)),
    ]
    written = [each.serialize() for each in made]
    sink = pa.BufferOutputStream()
    pa.ipc.write_tensor(pa.Tensor.from_numpy(values.astype("f8")), sink)
    return [*written, sink.getvalue().to_pybytes(), written[0] + written[1]]


@functools.cache
def sparse_tensors() -> list[bytes]:
    dense = np.array([[0, 1.5, 0, 0], [2.5, 0, 0, -1], [0, 0, 0, 0]])
    cube = np.zeros((2, 3, 2), "i2")
    cube[0, 1, 1], cube[1, 2, 0], cube[1, 0, 0] = 5, 6, 7
    made = [
        kind.from_dense(dense).serialize()
        for kind in (ipc.SparseCOOTensor, ipc.SparseCSRMatrix, ipc.SparseCSCMatrix, ipc.SparseCSFTensor)
    ]
    made += [kind.from_dense(cube).serialize() for kind in (ipc.SparseCOOTensor, ipc.SparseCSFTensor)]
    body = sf.Body()
    places = body.add(sf.pack("b", (0, 1, 1, 0))), body.add(sf.pack("d", (1.0, 2.0)))
    made.append(sf.message(body, sf.coo(places[0], forge.INT8, (2, 1)), (2, 2), 2, places[1]))
    return made


@functools.cache
def frames() -> list[bytes]:
    """The bytes that a server sends, in our framing; some streams send their second body by reference."""
    made = []
    for data in [*_written(False)[:40], peers.written_words()]:
        sent = peers.dissociated(data)
        made.append(peers.HELLO + b"".join(peers.frame(*each) for each in sent))
        if told := _pointed(sent):
            made.append(told)
    return made


def _pointed(sent: list[peers.Sent]) -> bytes | None:
    """A batch sent twice: its second body is a reference to the first one in the same input; else None."""
    bodies = [number for number, (tag, data) in enumerate(sent) if tag is not None and data]
    if len(bodies) != 2 or sent[bodies[0]][1] != sent[bodies[1]][1]:
        return None
    out, place = peers.HELLO, 0
    for number, (tag, data) in enumerate(sent):
        if number == bodies[0]:
            place = BASE + len(out) + mutate.FRAME
        if number == bodies[1]:
            assert tag is not None
            data = write_pairs(message_of(sent[number - 1][1][5:], data), place)
            tag |= 1 << 56
        out += peers.frame(tag, data)
    return out


@functools.cache
def requests() -> list[bytes]:
    """The bytes that a client sends: the streams that it wants, and memory that it gives back."""
    parts = [
        peers.frame(WANT, b"t"),
        peers.frame(WANT + 1, b"t"),
        peers.frame(WANT + 2, b"t"),
        peers.frame(FREE, struct.pack("<QQ", 64, 128)),
        peers.frame(7, b"nobody wants this"),
        peers.frame(WANT, b"unknown"),
    ]
    chosen = itertools.chain.from_iterable(itertools.permutations(parts, count) for count in (1, 2, 3))
    return [peers.HELLO + b"".join(each) for each in chosen]


def uris() -> list[bytes]:
    """URIs of servers."""
    return [
        b"ucx://10.0.0.1:31337?want_data=18446741783881759408&free_data=7&remote_handle=AAEC%2Bw%3D%3D",
        b"arrowipc+unix:///tmp/a%20b.sock?want_data=3&streams=meta",
        b"arrowipc+tcp://[::1]:80?want_data=3&&a=b&streams=data#x",
    ]


@functools.cache
def footers() -> list[bytes]:
    """The statistics in the footers of files, decoded and decompressed; the last block is taken to be zeros."""
    found = []
    for data in _written(False)[:40]:
        file = arrays.ipc_bytes(list(ipc.open_stream(data)), "file", statistics=True)
        entry = json.loads(zlib.decompress(a2b_base64(ipc.open_file(file).metadata[STATISTICS_KEY])))
        found.append(json.dumps({**entry, "last_block": bytes(24).hex()}, ensure_ascii=False).encode())
    return found


#: Files beside a log.
LOGGED_FILES = ("part-00000.arrow", "k=1/by hand.arrow", "plain.arrow")


@functools.cache
def spark_logs() -> list[bytes]:
    """Files of the log of Spark's streaming sink, of a folder that is named FOLDER."""

    def entry(name: str, action: str = "add") -> str:
        found = {"path": f"file://FOLDER/{name}", "size": 5, "isDir": False, "modificationTime": 1, "action": action}
        return json.dumps(found)

    parts = [[], ["part-00000.arrow"], ["k=1/by%20hand.arrow", "plain.arrow"]]
    found = ["\n".join(["v1", *map(entry, names)]) for names in parts]
    found.append("\n".join([found[-1], entry("plain.arrow", "delete"), entry("gone.arrow")]))
    return [each.encode() for each in found]


@functools.cache
def dice() -> list[bytes]:
    """Bytes that structs are made from."""
    chance = random.Random(3)
    return [chance.randbytes(chance.choice((40, 200, 600))) for _ in range(60)]
