"""A column in chunks is the array of all its elements, in every method, wherever it is cut."""

import copy
import itertools
import pickle
import random

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import CASES, read_array

import arrowipc as ipc
from arrowipc import types


def in_chunks(array: ipc.Array, dice: random.Random) -> ipc.ChunkedArray:
    cuts = sorted(dice.choices(range(len(array) + 1), k=dice.randrange(4)))
    bounds = [0, *cuts, len(array)]
    return ipc.ChunkedArray([array[start:stop] for start, stop in itertools.pairwise(bounds)])


def outcome(call, column):
    """What a method gives, as text; the class of an error where one is known: polars lacks types."""
    try:
        found = call(column)
    except ipc.ArrowIpcError as error:
        if call is METHODS["polars"] or (call is METHODS["fill_null"] and str(column.type) == "null"):
            return type(error)
        raise
    return repr(found.to_pylist() if hasattr(found, "to_pylist") else found)


METHODS = {
    "len": len,
    "type": lambda column: column.type,
    "null_count": lambda column: column.null_count,
    "to_pylist": lambda column: column.to_pylist(),
    "tolist": lambda column: column.tolist(),
    "list": list,
    "extensions": lambda column: column.to_pylist(extensions=True),
    "to_numpy": lambda column: column.to_numpy(copy=True).tolist(),
    "asarray": lambda column: np.asarray(column).tolist(),
    "slice": lambda column: column.slice(1, 3),
    "brackets": lambda column: column[-3:],
    "backwards": lambda column: column[::-1],
    "elements": lambda column: [column[i] for i in range(-len(column), len(column))],
    "take": lambda column: column.take([*range(len(column))][::-2]),
    "nulls": lambda column: column.take(pa.array([None, *range(len(column))], pa.int32())),
    "filter": lambda column: column.filter([i % 3 > 0 for i in range(len(column))]),
    "is_null": lambda column: column.is_null(),
    "is_valid": lambda column: column.is_valid(),
    "fill_null": lambda column: column.fill_null(next((value for value in column if value is not None), 0)),
    "cast": lambda column: column.cast(column.type),
    "dictionary_encode": lambda column: column.dictionary_encode(),
    "unique": lambda column: column.unique(),
    "validate": lambda column: column.validate(full=True),
    "polars": lambda column: column.to_polars().to_list(),
}


@pytest.mark.parametrize("name", CASES)
def test_every_method_gives_what_the_whole_array_gives(name):
    array = read_array(CASES[name])
    for seed in range(3):
        column = in_chunks(array, random.Random(seed))
        assert column.equals(array, nan_equal=True)
        assert column.combine().equals(array, nan_equal=True)
        for method, call in METHODS.items():
            assert outcome(call, column) == outcome(call, array), (method, seed)


@pytest.mark.parametrize("name", CASES)
def test_it_goes_to_other_libraries_and_comes_back(name):
    column = in_chunks(read_array(CASES[name]), random.Random(name))
    theirs = column.to_arrow()
    assert isinstance(theirs, pa.ChunkedArray)
    assert theirs.num_chunks == column.num_chunks
    assert [len(chunk) for chunk in theirs.chunks] == [len(chunk) for chunk in column.chunks]
    assert ipc.ChunkedArray(theirs.chunks, theirs.type).equals(column, nan_equal=True)
    for again in (pickle.loads(pickle.dumps(column)), copy.copy(column)):
        assert again.equals(column, nan_equal=True)
        assert again.num_chunks == column.num_chunks


@pytest.mark.parametrize("name", CASES)
def test_everything_that_takes_columns_takes_it(name, tmp_path):
    array = read_array(CASES[name])
    column = in_chunks(array, random.Random(name))
    rows = ipc.RecordBatch.from_pydict({"y": range(len(array))})
    made = [
        ipc.RecordBatch.from_pydict({"x": column}),
        ipc.Table.from_arrays([column], ["x"]),
        rows.append_column("x", column),
        ipc.Table.from_batches([rows]).set_column("y", "x", column),
        ipc.Table.from_arrow(pa.table({"x": column.to_arrow()})),
    ]
    with ipc.new_file(tmp_path / "x.arrow") as writer:
        writer.write({"x": column})
    made.append(ipc.open(tmp_path / "x.arrow").read_all())
    for each in made:
        assert repr(each["x"].to_pylist()) == repr(array.to_pylist())


#: Extension types of pyarrow: name -> stored values.
EXTENSIONS = {
    "uuid": pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16, None], pa.binary(16))),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["[]", None])),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None], pa.int8())),
    "tensors": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), (2,)), pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2))
    ),
}
#: Where pyarrow takes columns of others among its own.
AMONG_PYARROW = {
    "array": lambda column: pa.chunked_array([pa.array(column)]),
    "table": lambda column: pa.table({"x": column})["x"],
    "Table.from_arrays": lambda column: pa.Table.from_arrays([column], ["x"])["x"],
    "RecordBatch.from_arrays": lambda column: pa.chunked_array([pa.RecordBatch.from_arrays([column], ["x"])["x"]]),
    "record_batch": lambda column: pa.chunked_array([pa.record_batch({"x": column})["x"]]),
    "chunked_array": pa.chunked_array,
}


@pytest.mark.parametrize("name", [*CASES, *EXTENSIONS])
def test_pyarrow_takes_it_among_its_own_columns_with_its_type(name):
    theirs = CASES.get(name, EXTENSIONS.get(name))
    for chunks in ([], [theirs], [theirs[:1], theirs[1:]]):
        column = ipc.table(pa.table({"x": pa.chunked_array(chunks, theirs.type)}))["x"]
        assert column.num_chunks == len(chunks)
        for taken in ([column, column.combine()]) if chunks else [column]:
            for where, take in AMONG_PYARROW.items():
                if where == "chunked_array" and taken is not column:
                    continue  # it takes no single array, not of its own either
                found = take(taken)
                found.validate()
                assert found.type == theirs.type, where
                assert repr(found.to_pylist()) == repr(theirs.to_pylist() if chunks else []), where


def test_pyarrow_gets_the_type_that_it_asks_for():
    column = ipc.ChunkedArray([[1], [2]], "int8")
    assert pa.array(column, pa.int32()) == pa.array([1, 2], pa.int32())
    assert pa.table({"x": column}, schema=pa.schema({"x": pa.int16()}))["x"].type == pa.int16()
    with pytest.raises(pa.ArrowException):
        pa.array(column, pa.map_(pa.int8(), pa.int8()))
    words = [[f"{i}" for i in range(at, at + 100)] for at in (0, 100)]
    kind = pa.dictionary(pa.int8(), pa.string())
    column = ipc.ChunkedArray([pa.array(each).dictionary_encode().cast(kind) for each in words])
    assert pa.table({"x": column})["x"].to_pylist() == words[0] + words[1]


def test_a_column_of_a_table_has_the_name_and_the_type_of_its_field():
    empty = ipc.Table(types.schema({"x": "int8", "y": "string"}))
    assert empty["y"].type == types.utf8()
    assert empty["y"].field.name == "y"
    assert (len(empty["y"]), empty["y"].to_pylist(), empty["y"].num_chunks) == (0, [], 0)
    assert empty["y"].combine() == ipc.Array.from_pylist([], "string")
    assert [column.type for column in empty.columns] == empty.schema.types
    assert empty["x"].to_arrow().type == pa.int8()


def test_chunks_have_one_type():
    with pytest.raises(ipc.UsageError, match="expected an integer"):
        ipc.ChunkedArray([[1], ["a"]])
    with pytest.raises(ipc.UsageError, match="chunk 1 has type string, expected int64"):
        ipc.ChunkedArray([[1], ipc.Array.from_pylist(["a"])])
    with pytest.raises(ipc.UsageError, match="without chunks a type is needed"):
        ipc.ChunkedArray([])
    for nothing in (pa.chunked_array([], pa.int8()), ipc.ChunkedArray([], "int8")):
        assert ipc.chunked_array(nothing).type == types.int8()
        assert ipc.chunked_array(nothing, "int8").num_chunks == 0

    class Exported:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.chunked_array([], pa.int8()).__arrow_c_stream__(requested_schema)

    assert ipc.chunked_array(Exported()) == ipc.ChunkedArray([], "int8")
    assert ipc.ChunkedArray([], "int8") == ipc.ChunkedArray([[]], pa.int8())
    assert ipc.ChunkedArray([[1], [2]], "int8").chunk(-1).to_pylist() == [2]
    with pytest.raises(IndexError, match="chunk 2 is out of range: there are 2"):
        ipc.ChunkedArray([[1], [2]]).chunk(2)
    with pytest.raises(IndexError):
        ipc.ChunkedArray([[1], [2]])[2]


def test_chunks_share_the_dictionary_that_they_become():
    column = ipc.ChunkedArray([["a"], [], ["b", None, "a"]]).dictionary_encode()
    assert [chunk.dictionary.to_pylist() for chunk in column.chunks] == [["a", "b"]] * 3


def test_equal_are_types_and_values():
    column = ipc.ChunkedArray([[1, 2], [None]])
    for same in (ipc.ChunkedArray([[1], [2, None]]), pa.chunked_array([[1], [2, None]]), pa.array([1, 2, None])):
        assert column == same
    for other in (
        ipc.ChunkedArray([[1, 2, 3]]),
        ipc.ChunkedArray([[1, 2, None]], "int8"),
        pa.array([1, 2]),
        [1, 2, None],
    ):
        assert column != other
