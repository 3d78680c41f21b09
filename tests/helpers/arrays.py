"""Streams and files that we or pyarrow write, pyarrow data read back as ours, one array of every type."""

import datetime as dt
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc as ipc
from arrowipc import types

FORMS = ("stream", "file")
#: Options of our writers whose output other libraries read.
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lz4": {"compression": "lz4"},
    "zstd": {"compression": "zstd"},
    "aligned": {"alignment": 64},
    "zstd aligned": {"compression": "zstd", "alignment": 64},
    "V4": {"metadata_version": "V4"},
    "legacy": {"legacy": True},
    "legacy V4": {"legacy": True, "metadata_version": "V4"},
}


def ipc_bytes(data: Any, kind: str = "stream", schema: ipc.Schema | None = None, **options: Any) -> bytes:
    """A stream or file ("stream", "file") that our writer makes of a batch or table, or of a list of them."""
    sink = bytearray()
    with (ipc.new_file if kind == "file" else ipc.new_stream)(sink, schema, **options) as writer:
        for each in data if isinstance(data, list) else [data]:
            writer.write(each)
    return bytes(sink)


def stored(path: Path, data: Any, schema: ipc.Schema | None = None, **options: Any) -> Path:
    """Write a file of a batch or table, or a stream if its name ends with ".arrows"; return its path."""
    path.write_bytes(ipc_bytes(data, "stream" if path.suffix == ".arrows" else "file", schema, **options))
    return path


def pyarrow_bytes(data: Any, kind: str = "stream", schema: pa.Schema | None = None, **options: Any) -> bytes:
    """A stream or file that pyarrow makes of a batch, or of a list of batches."""
    parts = data if isinstance(data, list) else [data]
    sink = pa.BufferOutputStream()
    opener = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    schema = schema or (parts[0].schema if parts else pa.schema([]))
    with opener(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for part in parts:
            writer.write_batch(part)
    return sink.getvalue().to_pybytes()


def feather_columns() -> dict[str, pa.Array]:
    """Columns of every type that Feather V1 files have, three rows each."""
    kinds = [pa.bool_(), *[getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)]]
    made = {str(kind): pa.array([1, None, 0]).cast(kind) for kind in [*kinds, pa.float32(), pa.float64()]}
    texts = [pa.utf8(), pa.binary(), pa.large_utf8(), pa.large_binary()]
    made |= {str(kind): pa.array(["a word", None, ""]).cast(kind) for kind in texts}
    times = [pa.date32(), pa.time32("s"), pa.time32("ms"), pa.timestamp("s"), pa.timestamp("ms", "UTC")]
    times += [pa.timestamp("us", "Europe/Oslo"), pa.timestamp("ns", "+01:00")]
    made |= {str(kind): pa.array([None, 7, 0], kind) for kind in times}
    made |= {f"{kind} without nulls": pa.array(["x", "", "yz"], kind) for kind in texts[:3]}
    for index, values in ((pa.int8(), ["b", None]), (pa.uint16(), [b"b", b"a"]), (pa.int64(), [5, 2])):
        numbers = pa.array([1, None, 0], index)
        coded = pa.DictionaryArray.from_arrays(numbers, pa.array(values), ordered=values == [5, 2])
        made[f"{index} of {values}"] = coded
    return made | {"all null": pa.array([None] * 3, pa.utf8()), "": pa.array([True, False, True])}


def feather_v1(columns: dict[str, Any]) -> bytes:
    """A Feather V1 file; pyarrow, the last library that writes such files, warns that it will stop."""
    import pyarrow.feather  # which imports pandas: most processes that use this module need neither

    sink = pa.BufferOutputStream()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pyarrow.feather.write_feather(pa.table(columns), sink, version=1)
    return sink.getvalue().to_pybytes()


def read_by_pyarrow(data: bytes, kind: str = "stream") -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """The schema and the batches of a stream or file, read by pyarrow."""
    if kind == "stream":
        with pa.ipc.open_stream(data) as reader:
            return reader.schema, list(reader)
    with pa.ipc.open_file(data) as reader:
        return reader.schema, [reader.get_batch(i) for i in range(reader.num_record_batches)]


def read(data: Any, **options: Any) -> list[ipc.RecordBatch]:
    """The batches of a stream or file, read by us."""
    with ipc.open(data, **options) as reader:
        return list(reader)


def column_of(data: Any, name: str = "x") -> list[Any]:
    """The values of a column of a stream or file, read by us."""
    with ipc.open(data) as reader:
        return reader.read_all().to_pydict()[name]


def batch_of(*values: Any, name: str = "x", kind: pa.DataType | None = None) -> ipc.RecordBatch:
    """A batch of one column, of int64 if no type is given."""
    return read_batch(pa.record_batch({name: pa.array(values, kind or pa.int64())}))


def mixed_batch(start: int, count: int) -> ipc.RecordBatch:
    """Rows start, start + 1, ...: numbers and nulls, texts, views, lists, a dictionary that stays as it is."""
    rows = range(start, start + count)
    columns = {
        "x": [None if i % 7 == 3 else i for i in rows],
        "t": ["é" * (i % 40) for i in rows],
        "v": pa.array([str(i) * (i % 9) for i in rows], pa.string_view()),
        "l": pa.array([[i % 9] * (i % 5) for i in rows], pa.list_(pa.int16())),
        "d": pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in rows], pa.int8()), ["a", "b", "c"]),
        "b": [i % 3 == 0 for i in rows],
    }
    return read_batch(pa.record_batch(columns))


def batch_of_columns(*columns: pa.Array) -> ipc.RecordBatch:
    """A batch of the columns c0, c1, ..."""
    return read_batch(pa.record_batch(list(columns), names=[f"c{i}" for i in range(len(columns))]))


def tiled(array: pa.Array, rows: int) -> pa.Array:
    """The array again and again, until it has that many rows."""
    return pa.concat_arrays([array] * (rows // len(array) + 1)).slice(0, rows)


def seen_by_pyarrow(array: ipc.Array) -> pa.Array:
    """The array as pyarrow sees it, checked to the last byte."""
    found = pa.array(array)
    found.validate(full=True)
    return found


def address(values: Any) -> int:
    """The address of the memory of an array or buffer."""
    array = np.asarray(values if hasattr(values, "__array_interface__") else memoryview(values))
    return int(array.__array_interface__["data"][0])


def read_batch(batch: pa.RecordBatch, **options: Any) -> ipc.RecordBatch:
    """The batch, read by us."""
    (found,) = ipc.open_stream(pyarrow_bytes(batch), **options)
    return found


def read_array(array: pa.Array, **options: Any) -> ipc.Array:
    """The array, read by us as the column ``x``."""
    return read_batch(pa.record_batch([array], names=["x"]), **options).column(0)


def parts_of(batch: ipc.RecordBatch) -> dict[str, Any]:
    """The arguments of `RecordBatch.from_buffers` for a batch that is not a slice."""
    nodes: list[tuple[int, int]] = []
    found: dict[str, list[Any]] = {"buffers": [], "variadic": [], "dictionaries": []}

    def add(array: ipc.Array) -> None:
        nodes.append((len(array), array.null_count))
        found["buffers"] += array.buffers()
        if isinstance(array.type, types.Utf8View | types.BinaryView):
            found["variadic"].append(len(array.buffers()) - 2)
        if isinstance(array.type, types.Dictionary):
            found["dictionaries"].append(array.dictionary)
        for child in array.children:
            add(child)

    for column in batch.columns:
        add(column)
    return {"schema": batch.schema, "length": batch.num_rows, "nodes": nodes, **found}


def _unions() -> dict[str, pa.Array]:
    ints, words = pa.array([1, 2, 3, None, 5]), pa.array(["a", "b", None, "d", "e"])
    codes = pa.array([4, 7, 4, 4, 7], pa.int8())
    return {
        "sparse_union": pa.UnionArray.from_sparse(codes, [ints, words], ["i", "w"], [4, 7]),
        "dense_union": pa.UnionArray.from_dense(
            codes, pa.array([0, 1, 1, 3, 0], pa.int32()), [ints, words], ["i", "w"], [4, 7]
        ),
    }


def _dictionaries() -> dict[str, pa.Array]:
    words = pa.array(["x", None, "y", "a longer word", "x"])
    lists = pa.array([[1, 2], None, [3]])
    return {
        "dictionary": words.dictionary_encode(),
        "dictionary_uint64": pa.DictionaryArray.from_arrays(pa.array([2, 0, None, 2], pa.uint64()), words),
        "dictionary_ints": pa.array([5, None, 7, 5]).dictionary_encode(),
        "dictionary_nulls": pa.DictionaryArray.from_arrays(pa.array([1, 0, None], pa.int8()), words),
        "dictionary_large": pa.DictionaryArray.from_arrays([999, 0, None, 999, 3], [f"word {i}" for i in range(1000)]),
        "dictionary_lists": pa.DictionaryArray.from_arrays(pa.array([0, 2, 1, None, 0], pa.int8()), lists),
    }


def _views() -> dict[str, pa.Array]:
    words = ["short", "a text that is longer than twelve bytes", None, "", "exactly 12 b", "thirteen byte"]
    hidden = pa.array([False, False, False, True])
    return {
        "string_view": pa.array(words, pa.string_view()),
        "binary_view": pa.array([w and w.encode() for w in words], pa.binary_view()),
        "list_view": pa.ListViewArray.from_arrays([3, 0, 1, 0], [2, 2, 0, 5], [1, 2, None, 4, 5], mask=hidden),
        "large_list_view": pa.LargeListViewArray.from_arrays([0, 0, 2, 1], [2, 5, 3, 1], ["a", "b", None, "d", "e"]),
    }


def _temporal() -> dict[str, pa.Array]:
    moments = [dt.datetime(1969, 12, 31, 23, 59, 59), None, dt.datetime(2024, 2, 29, 1, 2, 3), dt.datetime(1, 1, 1)]
    found = {
        "date32": pa.array([dt.date(1, 1, 1), None, dt.date(1969, 12, 31), dt.date(9999, 12, 31)], pa.date32()),
        "date64": pa.array([dt.date(1, 1, 1), None, dt.date(2024, 2, 29), dt.date(9999, 12, 31)], pa.date64()),
        "time32[s]": pa.array([dt.time(0), None, dt.time(23, 59, 59)], pa.time32("s")),
        "time32[ms]": pa.array([dt.time(0), None, dt.time(23, 59, 59, 999000)], pa.time32("ms")),
        "time64[us]": pa.array([dt.time(0), None, dt.time(1, 2, 3, 4)], pa.time64("us")),
    }
    for unit in ("s", "ms", "us"):
        found[f"timestamp[{unit}]"] = pa.array(moments, pa.timestamp(unit))
        for zone in ("UTC", "Europe/Berlin", "+05:30", "-11:15"):
            found[f"timestamp[{unit}, {zone}]"] = pa.array(moments[:3], pa.timestamp(unit, zone))
        spans = [dt.timedelta(days=-3, seconds=5), None, dt.timedelta(0), dt.timedelta(days=40000, seconds=86399)]
        found[f"duration[{unit}]"] = pa.array(spans, pa.duration(unit))
    return found


def _decimals() -> dict[str, pa.Array]:
    found = {}
    for bits, digits in ((32, 9), (64, 18), (128, 38), (256, 76)):
        kind = getattr(pa, f"decimal{bits}")
        most = Decimal("9" * (digits - 2) + ".99")
        numbers = [most, most.copy_negate(), None, Decimal("0.00"), Decimal("-0.01")]
        found[f"decimal{bits}"] = pa.array(numbers, kind(digits, 2))
        found[f"decimal{bits}_tens"] = pa.array([Decimal("1E+3"), Decimal("-9E+3"), None], kind(digits, -3))
    return found


def _nested() -> dict[str, pa.Array]:
    lists = [[1, 2], None, [], [3, None]]
    rows = [{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 4, "b": []}]
    pairs = [[("k", 1), ("l", None)], None, [], [("m", 3)]]
    return {
        "list": pa.array(lists, pa.list_(pa.int16())),
        "large_list": pa.array(lists, pa.large_list(pa.float64())),
        "list_of_lists": pa.array([[[1], None], None, [], [[2, 3], []]], pa.list_(pa.list_(pa.int8()))),
        "list_under_nulls": pa.ListArray.from_arrays(
            [0, 2, 4, 5], [1, 2, 3, 4, 5], mask=pa.array([False, True, False])
        ),
        "fixed_size_list": pa.array([[1, 2], None, [None, 4]], pa.list_(pa.int32(), 2)),
        "fixed_size_list_0": pa.array([[], None, []], pa.list_(pa.int32(), 0)),
        "struct": pa.array(rows, pa.struct([("a", pa.int8()), ("b", pa.list_(pa.string()))])),
        "struct_of_nothing": pa.array([{}, None, {}], pa.struct([])),
        "map": pa.array(pairs, pa.map_(pa.string(), pa.int32())),
    }


def _flat() -> dict[str, pa.Array]:
    found: dict[str, pa.Array] = {"null": pa.nulls(4), "bool": pa.array([True, None, False] * 9)}
    for bits in (8, 16, 32, 64):
        found[f"int{bits}"] = pa.array([-(2 ** (bits - 1)), None, 0, 2 ** (bits - 1) - 1], f"int{bits}")
        found[f"uint{bits}"] = pa.array([0, None, 1, 2**bits - 1], f"uint{bits}")
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        found[str(kind)] = pa.array([0.0, None, -1.5, float("inf"), 2.0**-14], kind)
    for kind in (pa.string(), pa.large_string()):
        found[str(kind)] = pa.array(["", None, "abc", "grün €𝄞"], kind)
    for kind in (pa.binary(), pa.large_binary()):
        found[str(kind)] = pa.array([b"", None, b"\0\xff"], kind)
    found["fixed_size_binary"] = pa.array([b"abc", None, b"\0\1\2"], pa.binary(3))
    found["fixed_size_binary_0"] = pa.array([b"", None], pa.binary(0))
    return found


#: Name -> an array with nulls of that type; our array must have the same ``to_pylist()``.
CASES: dict[str, pa.Array] = {
    **_flat(),
    **_temporal(),
    **_decimals(),
    **_nested(),
    **_views(),
    **_unions(),
    **{
        f"run_end_{ends}": pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 7], ends), pa.array(["a", None, "c"]))
        for ends in (pa.int16(), pa.int32(), pa.int64())
    },
    **_dictionaries(),
}
