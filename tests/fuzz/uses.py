"""Uses the results of a target in all ways that users do, each step for itself."""

import contextlib
import datetime as dt
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
from helpers import drive

import arrowipc as ipc
from arrowipc import types
from arrowipc.filters.statistics import compute_statistics
from arrowipc.tensors.dense_io import arrays_from_cells
from arrowipc.tensors.extension_columns import tensor_parameters

#: The errors that a use may raise; a FormatError of validated data is a finding.
REFUSED = (ipc.ArrowIpcError, MemoryError)
ROWS = 2000
#: The most elements of a tensor that is used: larger ones take too long.
ELEMENTS = 1 << 16


def batch(found: Any, level: str, chance: random.Random) -> None:
    """Use a batch that was read at `level`."""
    sound = level != "none"
    small = found.slice(chance.randrange(2) if found.num_rows else 0, ROWS)
    steps: list[Callable[[], object]] = [
        lambda: (repr(found), found._repr_html_(), found.nbytes, found.custom_metadata),
        lambda: small.to_pylist(),
        lambda: [_array(array) for array in small.columns],
        lambda: small.equals(small.slice(0, small.num_rows)),
        lambda: drive.write_out(small, sound, compression=chance.choice((None, "lz4", "zstd"))),
        lambda: drive.pack(small.slice(0, 20), sound),
        lambda: _capsules(found),
        lambda: repr(ipc.concat_batches([small, small.slice(small.num_rows // 2)]).to_pydict()),
        lambda: ipc.Table.from_batches([small, small]).combine().to_pydict(),
        lambda: compute_statistics(small),
        lambda: ipc.get_record_batch_size(small),
        lambda: small.to_pylist(extensions=False, maps_as_pydicts=chance.choice(("strict", "lossy"))),
        lambda: [computed(array, level, chance, 6) for array in small.columns],
        lambda: (small.sort_by(small.column_names[:2]), small.drop_null()),
    ]
    if sound:
        steps.append(lambda: drive.export_to_pyarrow(small))
        steps.append(lambda: ipc.RecordBatch.from_arrow(found, validate="full"))
        steps.append(lambda: small.to_pandas())
    for step in steps:
        if chance.random() < 0.5:  # half of the steps, for twice as many inputs in the same time
            _attempt(step, level, found.schema.endianness)


def _attempt(step: Callable[[], object], level: str, endianness: str) -> None:
    try:
        step()
    except (ipc.LimitError, ipc.UnsupportedError, ipc.UsageError, MemoryError):
        pass  # errors that valid data may raise, too
    except ipc.ArrowIpcError as error:
        if level != "none" and endianness == "little":
            raise AssertionError(f"validated at {level!r}, and refused when it was used: {error}") from error


def _capsules(found: Any) -> None:
    """Export, and drop the capsules unused: for data at "none", only the structs are valid."""
    found.__arrow_c_schema__(), found.__arrow_c_array__(), found.__arrow_c_stream__(), found.__arrow_c_device_stream__()
    for array in found.columns:
        array.__arrow_c_array__()


def _array(array: Any) -> None:
    # The rules of an extension type are checked when it is used: validation checks only its storage.
    extended = b"ARROW:extension:name" in array.field.metadata
    with contextlib.suppress(*((ipc.FormatError,) if extended else ())):
        drive.use_array(array)
    with contextlib.suppress(*((ipc.FormatError,) if extended else ())):
        if tensor_parameters(array.field) is not None:
            array.to_numpy(copy=True)
    with contextlib.suppress(*((ipc.FormatError,) if "ARROW:extension" in str(array.field.metadata) else ())):
        array.to_pylist(extensions=True)
    if isinstance(array.type, types.Binary | types.LargeBinary | types.BinaryView):
        with contextlib.suppress(ipc.FormatError):  # cells are bytes: what they hold was never validated
            arrays_from_cells(array)


#: Literals to compare columns with, suitable and unsuitable ones.
LITERALS = (0, -1, 2**70, 0.5, float("nan"), float("inf"), True, "a", "2024-01-01", "\ud800", b"a", None, (), [1, None])
LITERALS += (Decimal("1.5"), Decimal("1e999"), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.time(1))


#: Types to which columns are cast.
KINDS = ("int8", "uint64", "float32", "bool", "string", "binary", "date32", "timestamp[ns]", "duration[s]", "null")
KINDS += ("large_string", "large_binary", types.list_("int16"), types.dictionary("int8", "string"))
KINDS += (types.decimal128(9, 2), types.decimal256(40, 1), types.list_view("string"))


def computations(array: Any, level: str, chance: random.Random) -> dict[str, Callable[[], object]]:
    """What can be computed with a column; each returns whether its result is right."""
    count = len(array)
    mask = [chance.choice((True, False, None)) for _ in range(count)]
    rows = ipc.array([row for row, wanted in enumerate(mask) if wanted], "int64")
    found: dict[str, Callable[[], object]] = {
        "cast": lambda: len(array.cast(chance.choice((*KINDS, array.type)))) == count,
        "cast chunks": lambda: len(ipc.ChunkedArray([array, array]).cast(array.type)) == 2 * count,
        "filter": lambda: len(array.filter(mask)) == len(rows),
        "take": lambda: count == 0 or len(array.take(ipc.array([0, None], "int64"))) == 2,
        "fill_null": lambda: len(array.fill_null(chance.choice(LITERALS))) == count,
        "is_null": lambda: len(array.is_null()) == count,
        "is_nan": lambda: len(array.is_nan()) == count,
        "drop_null": lambda: len(array.drop_null()) <= count,
        "index": lambda: -1 <= array.index(chance.choice((None, 1))) < max(count, 1),
        "value_counts": lambda: len(array.value_counts()) <= count,
        "value_lengths": lambda: len(array.value_lengths()) == count,
        "flatten": lambda: array.flatten() is not None,
        "flatten all": lambda: array.flatten(recursive=True) is not None,
        "parents": lambda: len(array.value_parent_indices()) <= len(array.flatten()),
        "unique": lambda: len(array.unique()) <= count,
        "encode": lambda: len(array.dictionary_encode().dictionary_decode()) == count,
        "parts": lambda: [getattr(array, name, None) for name in ("offsets", "values", "indices")] != [],
        "to_numpy": lambda: len(array.to_numpy(zero_copy_only=False)) == count,
    }
    if level != "none":
        found["filter and take"] = lambda: array.filter(mask).equals(array.take(rows), nan_equal=True)
    if not array.type.children and not isinstance(array.type, types.Dictionary):
        parts = array.type, count, array.buffers(), -1, array.offset
        found["from_buffers"] = lambda: len(ipc.Array.from_buffers(*parts).to_pylist()) == count
    return found


def computed(array: Any, level: str, chance: random.Random, most: int = 100) -> None:
    """Compute with an array in some ways or all, cast it, and make it again from its buffers."""
    steps = computations(array, level, chance)
    for name in chance.sample([*steps], min(most, len(steps))):
        with contextlib.suppress(*REFUSED):
            assert steps[name](), name


def message(found: Any) -> None:
    """Use one message."""
    repr(found), found.kind, found.version, found.body_length
    with contextlib.suppress(*REFUSED):
        found.custom_metadata  # noqa: B018 - read for its own sake
    with contextlib.suppress(*REFUSED):
        found.buffers  # noqa: B018
    bytes(found.metadata), bytes(found.body[:64])
    with contextlib.suppress(*REFUSED):
        again = ipc.read_message(found.serialize())
        assert bytes(again.body) == bytes(found.body), "a message changed when it was written again"
    found.copy_body_into(bytearray(found.body_length))


def tensor(found: Any) -> None:
    """Use a dense tensor."""
    repr(found), found.shape, found.strides, found.dim_names, found.type, found.is_contiguous
    if found.size > ELEMENTS:
        return
    with contextlib.suppress(ipc.UsageError):  # NumPy has no dtype for it
        values = found.to_numpy()
        assert values.size == found.size
        assert memoryview(found).nbytes == found.nbytes
        assert found.equals(found, nan_equal=True)
        assert ipc.read_tensor(found.serialize()).equals(found, nan_equal=True)
        assert found.to_numpy(copy=True).tobytes() == memoryview(found).tobytes()
        with contextlib.suppress(BufferError, RuntimeError):
            np.from_dlpack(found)


def sparse(found: Any, level: str) -> None:
    """Use a sparse tensor, also in all layouts to which it can be converted."""
    repr(found), found.shape, found.dim_names, found.type, found.non_zero_length, found.nbytes
    size = math.prod(found.shape)
    steps = [
        lambda: found.equals(found),
        lambda: found.is_canonical,
        lambda: found.canonical(),
        lambda: found.serialize(),
        lambda: found == found.rename(None),
        lambda: found.data.tobytes(),
        lambda: [array.sum() for array in found._index.arrays],
    ]
    if size <= ELEMENTS:
        steps += [found.to_dense, lambda: found.to_coo().to_dense(), lambda: found.to_csf().to_dense()]
        if found.ndim == 2:
            steps += [lambda: found.to_csr().to_dense(), lambda: found.to_csc().to_dense()]
            # Neither SciPy nor NumPy accepts a shape like (0, 2**62).
            if hasattr(found, "to_scipy") and max(found.shape) <= ELEMENTS:
                steps += [lambda: found.to_scipy().toarray()]
    for step in steps:
        _attempt(step, level, "little")
