"""The registry of the public API: an object of each class, all functions and methods, and fitting arguments.

Tests use it for hostile arguments, calls in many threads at once, and objects that are made a second time.
"""

import functools
import inspect
import io
import tempfile
import threading
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc as ipc
from arrowipc import types
from arrowipc.derived import dictionary_encode
from arrowipc.tensors import extension_columns
from arrowipc.values import inference
from helpers import arrays, arrow_columns, optional

pd = optional("pandas")

BATCH = pa.record_batch(
    {
        "x": pa.array([1, None, 3, 4] * 50),
        "t": pa.array(["a", "größe", None, ""] * 50),
        "d": pa.array(["u", "v", "v", None] * 50).dictionary_encode(),
        "l": pa.array([[1, 2], None, [], [3]] * 50),
        "s": pa.array([{"p": 1.5, "q": "z"}, None, {"p": None, "q": ""}, {"p": 0.0, "q": None}] * 50),
        "m": pa.array([0, 1, None, 3] * 50, pa.timestamp("us", "Europe/Berlin")),
        "e": pa.array([None, Decimal("1.25"), Decimal(3), Decimal("-0.5")] * 50, pa.decimal128(9, 2)),
    }
)
STREAM = arrow_columns.stream(BATCH, BATCH.slice(0, 100), BATCH)
FILE = arrow_columns.file(BATCH, BATCH.slice(0, 100), BATCH, unify_dictionaries=True, compression="lz4")
DENSE = np.arange(6.0).reshape(2, 3)
EYE = np.eye(5)[:, ::-1]


def batch() -> ipc.RecordBatch:
    return arrays.read_batch(BATCH)


def table() -> ipc.Table:
    return ipc.open_stream(STREAM).read_all().slice(0, 200)


def closed() -> Any:
    reader = ipc.open(FILE)
    reader.close()
    return reader


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder with the files of a data set."""
    found = tempfile.TemporaryDirectory()
    for year in (2025, 2026):
        path = Path(found.name, f"year={year}")
        path.mkdir()
        path.joinpath("a.arrow").write_bytes(FILE)
        path.joinpath("b.arrows").write_bytes(STREAM)
    return found


def dataset() -> ipc.Dataset:
    return ipc.open_dataset(_folder().name)


def payloads() -> Any:
    cells = ipc.encode_payloads(batch(), rows_per_payload=50)
    return ipc.decode_payloads([bytes(cell) for cell in cells], parent_index=True)


#: Name -> function that makes an object of a public class; some classes have several.
OBJECTS: dict[str, Callable[[], Any]] = {
    "Array": lambda: batch()["x"],
    "Array of texts": lambda: batch()["t"],
    "Array of lists": lambda: batch()["l"],
    "Array of structs": lambda: batch()["s"],
    "Array of moments": lambda: batch()["m"],
    "Array of decimals": lambda: batch()["e"],
    "Array with a dictionary": lambda: batch()["d"],
    "Array of a dictionary": lambda: batch()["d"].dictionary,
    "ChunkedArray": lambda: table()["t"],
    "ColumnStatistics": lambda: ipc.compute_statistics(batch())["x"],
    "DataType": lambda: batch().schema.field("d").type,
    "Dataset": dataset,
    "Dataset with a filter": lambda: dataset().filter([("x", ">", 1)]),
    "DecodedPayloads": payloads,
    "Field": lambda: batch().schema.field("s"),
    "IndexedStreamReader": lambda: ipc.open(STREAM, index=True),
    "KeyValueMetadata": lambda: ipc.KeyValueMetadata({"k": "v", "ü": "w"}),
    "Limits": lambda: ipc.Limits(depth=20),
    "Message": lambda: batch().to_message(),
    "MessageReader": lambda: ipc.MessageReader(STREAM),
    "RecordBatch": batch,
    "RecordBatchFileReader": lambda: ipc.open_file(FILE),
    "RecordBatchFileReader of an object": lambda: ipc.open_file(io.BytesIO(FILE)),
    "RecordBatchFileReader that is closed": closed,
    "RecordBatchFileWriter": lambda: ipc.new_file(bytearray()),
    "RecordBatchStreamReader": lambda: ipc.open_stream(STREAM),
    "RecordBatchStreamWriter": lambda: ipc.new_stream(bytearray()),
    "Recovery": lambda: ipc.recover(FILE),
    "RemoteSource": lambda: ipc.RemoteSource(f"file://{_folder().name}/year=2025/a.arrow"),
    "RowDataset": lambda: ipc.RowDataset(next(Path(_folder().name).glob("*/*.arrow"))),
    "Schema": lambda: batch().schema,
    "SparseCOOTensor": lambda: ipc.SparseCOOTensor.from_dense(EYE),
    "SparseCSCMatrix": lambda: ipc.SparseCSCMatrix.from_dense(EYE),
    "SparseCSFTensor": lambda: ipc.SparseCSFTensor.from_dense(EYE),
    "SparseCSRMatrix": lambda: ipc.SparseCSRMatrix.from_dense(EYE),
    "StreamDecoder": ipc.StreamDecoder,
    "Table": table,
    "Tensor": lambda: ipc.Tensor(np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1), ["a", "b", "c"]),
    "Validation": lambda: ipc.validate(FILE),
}
#: Special methods that users call by syntax.
SYNTAX = ("__contains__", "__copy__", "__eq__", "__getitem__", "__hash__", "__iter__", "__len__", "__repr__")
#: Methods that only other modules use.
INTERNAL = ("pump", "resume", "asking_size", "blocks", "call", "fetching", "reading", "sizing")
#: Methods that are not called: these, and two with a slow import.
NOT_CALLED = (*INTERNAL, "to_pydata_sparse", "to_torch")


def callables() -> dict[str, tuple[Callable[[], Any], str]]:
    """Name -> a function that makes the object or returns the module, and the name of the function in it."""
    found: dict[str, tuple[Callable[[], Any], str]] = {}
    named = {module: module.__all__ for module in (ipc, types, extension_columns)}
    named[dictionary_encode] = ["decoded", "dictionary_decode", "dictionary_encode", "rebatch"]
    named[inference] = ["infer_schema", "infer_type"]
    for module, names in named.items():
        for name in names:
            value = getattr(module, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
                found[name] = (lambda module=module: module), name
    for name, make in OBJECTS.items():
        kind = type(make())
        for member in filter(partial(hasattr, kind), dir(kind)):
            public = member in SYNTAX or not (member.startswith("_") or member in NOT_CALLED)
            inherited = getattr(tuple, member, None) is getattr(kind, member)
            if public and callable(getattr(kind, member)) and not inherited:
                found[f"{name}.{member}"] = make, member
    return found


#: Name of a required parameter -> function that makes a fitting argument; for one function only:
#: "function.parameter", and for that of one class: "Class.function.parameter".
FITTING: dict[str, Callable[[], Any]] = {
    "arrays": lambda: [DENSE],
    "array": lambda: batch()["x"],
    "batch": batch,
    "batches": lambda: [batch()],
    "column": lambda: [STREAM],
    "columns": lambda: ["x"],
    "data": lambda: BATCH,
    "dataset": lambda: _folder().name,
    "dim_names": lambda: {"x": "y"},
    "dtype": lambda: None,
    "field": lambda: ipc.field("new", "int64"),
    "fields": lambda: [("x", "int8")],
    "filter": lambda: [("x", ">", 1)],
    "frame": lambda: pd.DataFrame({"x": [1]}),
    "i": lambda: 0,
    "indices": lambda: [1, 0],
    "item": lambda: "x",
    "key": lambda: "k",
    "mapping": lambda: {"x": [1]},
    "mask": lambda: [True, False, False, True] * 50,
    "message": lambda: batch().to_message(),
    "metadata": lambda: {"k": "v"},
    "name": lambda: "x",
    "names": lambda: {"x": "y"},
    "new_type": types.int8,
    "nullable": lambda: True,
    "obj": lambda: DENSE,
    "other": batch,
    "paths": lambda: _folder().name,
    "reader": lambda: ipc.open(FILE),
    "rows": lambda: [3, 0, 3],
    "schema": lambda: batch().schema,
    "sink": bytearray,
    "source": lambda: FILE,
    "target_schema": lambda: batch().schema,
    "type": types.int8,
    "value": lambda: 1,
    "values": lambda: list(range(200)),
    "writer": lambda: ipc.new_stream(bytearray()),
    "x": lambda: DENSE,
    "from_dense.array": lambda: DENSE,
    "cast.type": lambda: "large_string",
    "fill_null.value": lambda: "?",
    "from_arrays.names": lambda: ["a"],
    "from_pylist.rows": lambda: [{"x": 1}],
    "from_records.array": lambda: np.array([(1,)], [("x", "i4")]),
    "read_sparse_tensor.source": lambda: ipc.SparseCOOTensor.from_dense(DENSE).serialize(),
    "read_tensor.source": ipc.Tensor(DENSE).serialize,
    "read_tensors.source": ipc.Tensor(DENSE).serialize,
    "read_message.source": lambda: STREAM,
    "write_sparse_tensor.x": lambda: ipc.SparseCOOTensor.from_dense(DENSE),
    "Array.equals.other": lambda: batch()["x"],
    "Message.serialize_to.sink": io.BytesIO,
    "RemoteSource.fetch.ranges": lambda: [(0, 8)],
    "RemoteSource.read.length": lambda: 8,
    "StreamDecoder.feed.data": bytes,
    "Table.equals.other": table,
    "IndexedStreamReader.source": lambda: STREAM,
    "MessageReader.source": lambda: STREAM,
    "RecordBatchStreamReader.source": lambda: STREAM,
    "RowDataset.source": lambda: next(Path(_folder().name).glob("*/*.arrow")),
    "open_stream.source": lambda: STREAM,
    "url": lambda: "memory://x",
    "bit_width": lambda: 8,
    "entries": lambda: types.map_("utf8", "int8").entries,
    "index_type": types.int8,
    "item_type": types.int8,
    "key_type": types.utf8,
    "list_size": lambda: 2,
    "ndim": lambda: 2,
    "shape": lambda: (2,),
    "signed": lambda: True,
    "unit": lambda: "s",
    "value_field": lambda: ipc.field("x", "int8"),
    "value_type": types.int8,
}


def fitting(function: str, name: str, kind: str = "") -> Any:
    """An argument for a parameter of a function, or of a method of a class; 1 if none is known."""
    for key in (f"{kind}.{function}.{name}", f"{function}.{name}", name):
        if key in FITTING:
            return FITTING[key]()
    return 1


#: CPython 3.11 before 3.11.5 raises SystemError where several threads parse the text of a signature.
_PARSING = threading.Lock()


def parameters(function: Any) -> list[inspect.Parameter]:
    try:
        with _PARSING:
            found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each for each in found if each.kind is not each.VAR_POSITIONAL]


def is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
