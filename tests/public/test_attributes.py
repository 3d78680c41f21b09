"""What people reach for in pyarrow's classes is there under the same name, or the error says what there is instead."""

import asyncio
import math
import operator
import pydoc
import re
import rlcompleter
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import arrowipc as ipc
from arrowipc import arguments
from arrowipc.columns.column import OF_SOME

BATCH = ipc.RecordBatch.from_pydict({"x": [1, None]})
TABLE = ipc.Table.from_batches([BATCH])
STRUCTS = ipc.array([{"x": 1, "y": "a"}, None, {"x": None, "y": "b"}])
PAIRS = {
    "RecordBatch": (pa.record_batch({"x": [1]}), BATCH),
    "Table": (pa.table({"x": [1]}), TABLE),
    "Array": (pa.array([1]), BATCH["x"]),
    "ChunkedArray": (pa.chunked_array([[1]]), TABLE["x"]),
    "Schema": (pa.schema({"x": pa.int64()}), BATCH.schema),
    "Field": (pa.field("x", pa.int64()), BATCH.schema.field(0)),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_what_is_not_there_says_what_is(kind):
    """Another expression of ours, or libraries that have a compute engine."""
    theirs, ours = PAIRS[kind]
    for name in {name for name in dir(theirs) if not name.startswith("_")} - {*dir(ours)}:
        with pytest.raises(AttributeError, match=rf"^{kind} has no attribute '{name}'") as caught:
            getattr(ours, name)
        assert re.search(rf"'{name}': |to_arrow\(\), to_polars\(\) and to_pandas\(\)", str(caught.value)), name


#: What people try first on what reads rows: methods of tables, and of the readers and data sets of other libraries.
TRIED = [name for name in dir(ipc.Table) if name[0] != "_"]
TRIED += ["collect", "dtypes", "iter_batches", "names", "num_row_groups", "scanner", "to_table", "to_pyarrow"]


async def of_a_loop(path):
    async with ipc.aio.open_file(path) as reader:
        return reader


READS = {
    "RecordBatchFileReader": ipc.open_file,
    "RecordBatchStreamReader": lambda path: ipc.open_stream(ipc.open(path).schema.serialize()),
    "IndexedStreamReader": lambda path: ipc.open(ipc.open(path).schema.serialize(), index=True),
    "RecoveryReader": ipc.recover,
    "Dataset": ipc.open_dataset,
    "AsyncFileReader": lambda path: asyncio.run(of_a_loop(path)),
}


@pytest.mark.parametrize("kind", READS)
def test_what_reads_rows_says_where_they_are(kind, tmp_path):
    ipc.write({"x": [1]}, path := tmp_path / "x.arrow")
    reader = READS[kind](path)
    for name in TRIED:
        if not hasattr(reader, name):
            with pytest.raises(AttributeError, match=rf"^{kind} has no attribute '{name}': ") as caught:
                getattr(reader, name)
            assert name not in ("column_names", "iter_rows", "to_reader") or "read_all" not in str(caught.value)
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        reader.nonsense  # noqa: B018


def test_comparing_a_column_with_a_value_says_what_gives_rows():
    for ours in (TABLE["x"], BATCH["x"]):
        for compare in (operator.lt, operator.le, operator.gt, operator.ge):
            with pytest.raises(TypeError, match=r"filter\(\[\(name, '>', value\)\]\)"):
                compare(ours, 1)
            assert compare(ours, np.array([0])).tolist()[0] == compare(1, 0)


#: First guesses of names of the module, and of keywords.
GUESSES = """
    dataset load read_feather read_file read_ipc read_pandas read_stream read_table scan_ipc
    dump save write_feather write_file write_ipc write_stream write_table serialize_pandas deserialize_pandas
    concat concat_arrays nulls scalar from_arrow from_pandas from_polars from_dict from_numpy
    read_parquet DataFrame FileReader StreamWriter ArrowInvalid col infer_type loads dumps repair from_dicts Int64 float
    compute BufferOutputStream py_buffer memory_map Codec IpcReadOptions IpcWriteOptions RecordBatchReader
"""
OF_FRAMES = "drop_duplicates drop_nulls from_polars iloc isin row_count sample sort to_list"
#: What an error calls an object, how one is made, and what people try first on it.
TRIED_ON = {
    "Table": (lambda path: TABLE, OF_FRAMES),
    "RecordBatch": (lambda path: BATCH, OF_FRAMES),
    "ChunkedArray": (lambda path: TABLE["x"], OF_FRAMES),
    "Array": (lambda path: BATCH["x"], OF_FRAMES),
    "RowDataset": (ipc.RowDataset, "column_names select set_epoch take"),
    "RecordBatchStreamWriter": (
        lambda path: ipc.new_stream(bytearray(), BATCH.schema),
        "append write_row flush finish",
    ),
    "module 'arrowipc'": (lambda path: ipc, GUESSES),
    "module 'arrowipc.types'": (
        lambda path: ipc.types,
        "uuid bool8 json_ opaque list map bool decimal int Int64 StringType datetime",
    ),
    "module 'arrowipc.aio'": (lambda path: ipc.aio, "open validate write"),
    "module 'arrowipc.dissociated'": (lambda path: ipc.dissociated, "serve"),
    "module 'arrowipc.spark'": (lambda path: ipc.spark, "load createDataFrame"),
}


@pytest.mark.parametrize("called", TRIED_ON)
def test_names_of_other_libraries_say_what_there_is(called, tmp_path):
    make, names = TRIED_ON[called]
    ipc.write(TABLE, path := tmp_path / "x.arrow")
    ours = make(path)
    for name in names.split():
        assert name not in dir(ours)
        with pytest.raises(AttributeError, match=f"^{called} has no attribute '{name}': "):
            getattr(ours, name)


@pytest.mark.parametrize("kind", PAIRS)
def test_what_a_class_lists_its_objects_have(kind):
    """The hints for what is not there are in no list: those of `dir`, of `help` and of completion."""
    ours = PAIRS[kind][1]
    of_some = OF_SOME if kind == "Array" else set()
    members = rlcompleter.Completer({"x": ours}).attr_matches("x.")
    listed = {name.removeprefix("x.").rstrip("()") for name in members} | {*dir(ours), *dir(type(ours))}
    helped = {line.split("(")[0].strip(" |") for line in pydoc.plaintext.document(type(ours)).splitlines()}
    assert {name for name in listed if not hasattr(ours, name)} == set()
    assert helped & arguments._INSTEAD.keys() <= listed
    assert {*vars(type(ours))} & arguments._INSTEAD.keys() <= listed | of_some


def test_arrays_list_the_parts_that_they_have():
    assert not OF_SOME & {*dir(BATCH["x"])}
    assert {"offsets", "values"} <= {*dir(ipc.array([[1]]))}


def test_metadata_of_fields_and_schemas():
    assert BATCH.schema.to_arrow().equals(pa.schema(BATCH.schema), check_metadata=True)
    field = ipc.field("x", "int8", metadata={"k": "v"})
    assert field.with_name("y") == ipc.field("y", "int8")
    assert field.with_type(ipc.types.string()).with_nullable(False) == ipc.field("x", "string", nullable=False)
    assert field.with_type(pa.int16()).type == field.with_type("int16").type == pa.int16()
    assert field.to_arrow().equals(pa.field("x", pa.int8(), metadata={"k": "v"}), check_metadata=True)
    assert ipc.list_("int8").to_arrow() == pa.list_(pa.int8())
    assert ipc.Schema([("x", "int8")]) == ipc.Schema({"x": "int8"}) == pa.schema([("x", pa.int8())])
    assert ipc.Schema([]).append(("x", "int8")).set(0, ("y", "int8")).names == ["y"]
    assert not field.remove_metadata().metadata
    assert field.with_metadata({"a": "b"}).metadata == {b"a": b"b"}
    assert not ipc.schema([field], {"k": "v"}).remove_metadata().metadata
    frame = pa.table({"x": [1]}).to_pandas()
    assert ipc.table(frame).schema.pandas_metadata["columns"][0]["name"] == "x"
    assert TABLE.schema.pandas_metadata is None
    assert TABLE.schema.empty_table() == pa.schema({"x": pa.int64()}).empty_table()


@pytest.mark.parametrize("rows", [BATCH, TABLE], ids=["batch", "table"])
def test_what_batches_and_tables_share(rows):
    theirs = rows.to_arrow()
    assert rows.field(0) == theirs.field(0)
    assert rows.replace_schema_metadata({"k": "v"}).schema.metadata == {b"k": b"v"}
    assert not rows.with_metadata({"k": "v"}).replace_schema_metadata().schema.metadata
    structs = rows.to_struct_array()
    assert structs.to_pylist() == theirs.to_struct_array().to_pylist()
    assert type(rows).from_struct_array(structs) == rows
    assert [each in rows for each in ("x", "y", 0)] == [True, False, False]
    schema = pa.schema({"x": pa.int8()})
    assert rows.cast(schema) == theirs.cast(schema)
    assert type(rows).from_pydict({"x": [1]}, metadata={"k": "v"}).schema.metadata == {b"k": b"v"}
    assert type(rows).from_pylist([{"x": 1}], metadata={"k": "v"}).schema.metadata == {b"k": b"v"}
    rows.validate(full=True)
    frame = pa.table({"x": [1]}).to_pandas()
    assert type(rows).from_pandas(frame, schema=ipc.schema({"x": "int8"})).schema.types == [ipc.types.int8()]


def test_maps_become_dicts():
    maps = pa.array([[("a", 1), ("b", None), ("a", 2)], None, []], pa.map_(pa.string(), pa.int8()))
    nested = pa.table({"m": maps, "l": pa.array([[[("a", 1)]], [], None], pa.list_(pa.map_(pa.string(), pa.int8())))})
    table = ipc.table(nested)
    theirs = [{"a": 2, "b": None}, None, {}]
    assert table["m"].to_pylist(maps_as_pydicts="lossy") == theirs
    for rows in (table, table.combine()):
        assert rows.to_pydict(maps_as_pydicts="lossy") == {"m": theirs, "l": [[{"a": 1}], [], None]}
        assert rows.to_pylist(maps_as_pydicts="lossy")[0] == {"m": theirs[0], "l": [{"a": 1}]}
        assert rows.to_pylist() == nested.to_pylist()
    assert table["l"].to_pylist(maps_as_pydicts="strict") == nested["l"].to_pylist(maps_as_pydicts="strict")
    with pytest.raises(ipc.UsageError, match="column 'm', value 0: a key is there more than once"):
        table["m"].to_pylist(maps_as_pydicts="strict")


def test_columns_take_the_keywords_of_arrays():
    column = ipc.chunked_array([[1, 2], [3]])
    for options in ({}, {"zero_copy_only": False}, {"writable": True}, {"dtype": "i8"}):
        assert column.to_numpy(**options).tolist() == [1, 2, 3]
    one = ipc.chunked_array([[1, 2]])
    assert not one.to_numpy(zero_copy_only=True).flags.writeable
    assert not one.to_numpy(zero_copy_only=False).flags.writeable
    assert one.to_numpy(zero_copy_only=False, writable=True).flags.writeable
    assert one.chunk(0).to_numpy(dtype="f4", writable=True).dtype == "f4"
    for wrong in (0, "1", 1.5):
        with pytest.raises(ipc.UsageError, match="max_chunksize must be"):
            TABLE.to_batches(wrong)
    structs = TABLE.to_struct_array(max_chunksize=1)
    assert [len(chunk) for chunk in structs.chunks] == [1] * TABLE.num_rows
    assert structs.to_pylist() == TABLE.to_pylist()


def test_arrays_columns_and_distinct_values_keep_an_extension_type():
    kept = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    chunks = pa.chunked_array([kept, kept[:1]])
    for made in (ipc.array(kept), ipc.chunked_array([kept, kept]), ipc.chunked_array(chunks), ipc.array(kept).unique()):
        assert made.field.extension_name == "arrow.bool8"
        assert repr(made.to_pylist()[:3]) == "[True, None, False]"
    assert repr(list(ipc.chunked_array(chunks))) == "[True, None, False, True]"  # 1 equals True
    assert repr(ipc.chunked_array([kept, [1]]).chunk(1).to_pylist()) == "[True]"
    assert repr(ipc.table({"x": kept})["x"].to_numpy().tolist()) == "[True, None, False]"
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(8).reshape(2, 2, 2))
    assert ipc.array(tensors).to_numpy().shape == (2, 2, 2)
    again = ipc.Table.from_pylist(ipc.table({"x": kept}).to_pylist(), ipc.table({"x": kept}).schema)
    assert again == ipc.table({"x": kept})


def test_rows_columns_and_values_are_taken_where_they_can_be():
    assert ipc.table([{"a": 1}, {}]).to_pylist() == [{"a": 1}, {"a": None}]
    assert ipc.array([1.0, None], "int8").to_pylist() == [1, None]
    assert ipc.array(pa.array([1, 2]), mask=[True, False]) == pa.array([None, 2])
    assert ipc.concat_tables([TABLE, {"x": [3]}, pa.table({"x": [4]})]).to_pydict() == {"x": [1, None, 3, 4]}
    for column in (STRUCTS, ipc.chunked_array([STRUCTS[:1], STRUCTS[1:]])):
        assert column["x"].to_pylist() == [1, None, None]
        assert column["y"].to_pylist() == ["a", None, "b"]
        with pytest.raises(KeyError, match="0 members are called 'z'; there are"):
            column["z"]
    assert ipc.array([None, None]).cast("date32") == pa.array([None, None], pa.date32())
    rows = ipc.table({"x": [1], "y": [2]}, metadata={"k": "v"})
    assert rows.cast({"y": "int8"}).schema == ipc.schema({"x": "int64", "y": "int8"}, metadata={"k": "v"})


def test_validate_finds_what_is_broken():
    schema = ipc.schema({"x": "string"})
    batch = ipc.RecordBatch.from_buffers(schema, 1, [(1, 0)], [None, bytes([0, 0, 0, 0, 1, 0, 0, 0]), b"\xff"])
    batch.validate()
    for each in (batch, batch["x"], ipc.Table.from_batches([batch]), ipc.Table.from_batches([batch])["x"]):
        with pytest.raises(ipc.FormatError):
            each.validate(full=True)


def test_columns_of_numbers_are_a_tensor():
    rows = ipc.record_batch({"x": [1, 2], "y": [1.5, 2.5]})
    assert rows.to_tensor(row_major=False).strides == (8, 16)
    assert str(BATCH.to_tensor(null_to_nan=True).to_numpy().tolist()) == "[[1.0], [nan]]"


NUMBERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
NUMBERS += [pa.float32(), pa.float64()]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("first", NUMBERS, ids=str)
def test_tensors_of_all_pairs_of_types_are_those_of_pyarrow(first, nulls):
    for second in NUMBERS:
        kinds = [np.dtype(kind.to_pandas_dtype()) for kind in (first, second)]
        mixed = {kind.kind for kind in kinds} == {"i", "u"} and np.uint64 in kinds and not nulls
        rows = []
        for kind in kinds:
            limits = np.iinfo(kind) if kind.kind in "iu" else np.finfo(kind)
            most = 2**63 - 1 if mixed and kind == np.uint64 else limits.max
            rows.append(pa.array([None if nulls else limits.min, most, 1], pa.from_numpy_dtype(kind)))
        theirs = pa.record_batch(rows, ["a", "b"])
        expected = theirs.to_tensor(null_to_nan=nulls)
        for ours in (ipc.record_batch(theirs), ipc.table(theirs)):
            found = ours.to_tensor(null_to_nan=nulls)
            assert found.to_numpy().dtype == expected.to_numpy().dtype, second
            np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())
        if mixed:  # pyarrow wraps around
            theirs = pa.record_batch([[2**63] if kind == np.uint64 else [-1] for kind in kinds], schema=theirs.schema)
            with pytest.raises(ipc.UsageError, match=r"column \d: a value is more than int64 holds"):
                ipc.record_batch(theirs).to_tensor()


def test_a_column_is_added_to_each_batch():
    theirs = pa.concat_tables([pa.table({"x": [1, 2]})] * 2)
    ours, column = ipc.table(theirs), pa.chunked_array([[4, 5, None], [6]])
    for i in (0, 1, -1):
        assert ours.add_column(i, "y", column) == theirs.add_column(max(i, 0), "y", column)


def test_a_schema_takes_the_columns_of_its_names():
    data = pa.table({"x": [1], "y": ["a"]})
    for made in (ipc.table, ipc.record_batch):
        assert made(data, schema=pa.schema({"y": pa.string()})).to_pydict() == {"y": ["a"]}
    frame = data.to_pandas(types_mapper=pd.ArrowDtype)
    chunked = pd.concat([frame, frame])
    assert ipc.RecordBatch.from_pandas(chunked).num_rows == ipc.Table.from_pandas(chunked).num_rows == 2


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)
LIST_KEYS = pa.array([[(["a"], 1)]], pa.map_(pa.list_(pa.string()), pa.int8()))
SPARSE = ipc.SparseCOOTensor.from_dense([[0, 1]])
ONE, TWO = ipc.chunked_array([[1, 2]]), ipc.chunked_array([[1, 2], [3]])
#: Errors, calls, and what the error says.
REFUSED: dict[type[Exception], list[tuple[Callable[[], object], str]]] = {
    TypeError: [(lambda: ipc.open("x.arrow", filters=[]), r"'filters': read\(source, filter=...\)")],
    AttributeError: [
        (lambda: SPARSE.nnz, "non_zero_length"),
        (lambda: SPARSE.toarray, "to_dense"),
        (lambda: ipc.array([True]).true_count, "value_counts"),
    ],
    KeyError: [(lambda: ipc.table(pa.table({"x": [1]}), schema=pa.schema({"z": pa.string()})), "'z'")],
    ipc.NotFoundError: [
        (lambda i=i: TABLE.add_column(i, "y", [1, 2]), f"index {i} is out of range: the batch has 1 columns")
        for i in (2, -2, 1 << 63, -(1 << 100))
    ],
    ipc.UnsupportedError: [
        (lambda: ipc.array([300]).cast("int8", safe=False), r"to_arrow\(\).cast\(type, safe=False\)"),
        (
            lambda: ipc.concat_tables([TABLE], promote_options="default"),
            r"pyarrow.concat_tables\(\) map\(pyarrow.table, tables\)",
        ),
    ],
    ipc.UsageError: [
        (lambda: ipc.copy("x.arrow", "y.arrow"), r"new_file\(path\) or new_stream\(path\) makes one"),
        (lambda: ipc.write("x.arrow", {"x": [1]}), r"write\(data, path\)"),
        # Values.
        (lambda: ipc.array([True], "int8"), "found bool True"),
        *[
            (lambda wrong=wrong: ipc.array([wrong], "int8"), "row 0: expected an integer from -128 to 127, found float")
            for wrong in (1.5, 128.0, math.nan, math.inf)
        ],
        (lambda: ipc.array([pd.NA, 1]), "from_pandas=True"),
        (lambda: ipc.array(np.zeros(1, [("a", "i4"), ("b", "f8")])), "RecordBatch.from_records"),
        (lambda: ipc.array(np.array(["2020"], "M8[Y]")), "Arrow has no type for datetime64"),
        (lambda: ipc.array([np.datetime64(1, "as"), np.datetime64("2020", "D")]), "mixed datetime64"),
        (lambda: ipc.array([ENDLESS], from_pandas=True), "nested more than 64 levels deep"),
        (lambda: ipc.array([1, 2], mask=[True]), "mask: expected 2 elements, as there are values, found 1"),
        (lambda: ipc.array([1])["x"], "an Array of int64 has no member"),
        (lambda: ipc.array(LIST_KEYS).to_pylist(maps_as_pydicts="lossy"), "its keys cannot be those of a dict"),
        (lambda: TABLE.to_pylist(maps_as_pydicts=True), "expected None, 'strict' or 'lossy', found bool True"),
        (lambda: TWO.to_numpy(zero_copy_only=True), "2 chunks need a copy"),
        (lambda: TWO.to_numpy(copy=False), "2 chunks need a copy"),
        (lambda: ONE.to_numpy(zero_copy_only=True, writable=True), "exclude each other"),
        (lambda: ONE.chunk(0).to_numpy(zero_copy_only=True, writable=True), "exclude each other"),
        # Rows.
        *[
            (lambda rows=rows: rows.cast({"y": "int8"}), r"expected a schema with the names \['x'\], found \['y'\]")
            for rows in (BATCH, TABLE)
        ],
        (lambda: TABLE.filter("x > 3"), "filter: expected a mask, conditions such as"),
        (lambda: TABLE.filter(lambda row: True), "filter: expected a mask, conditions such as"),
        (lambda: TABLE.rename_columns("z"), "expected a sequence of names, found str"),
        (lambda: BATCH.to_tensor(), "null_to_nan=True"),
        (lambda: ipc.table({"x": ["a"]}).to_tensor(), "expected columns of numbers, found string"),
        (lambda: TABLE.append_column(ipc.field("y", "int64", False), [1, None]), "column 'y': 1 values are null"),
        (lambda: ipc.table({"x": [1]}, TABLE.schema, metadata={"k": "v"}), "give schema= or metadata="),
        (lambda: ipc.concat_tables([TABLE, {"x": ["a"]}]), "batch 1 has x: string"),
        (lambda: ipc.concat_tables([]), "found none"),
    ],
}


@pytest.mark.parametrize(
    ("error", "call", "words"),
    [
        pytest.param(error, *row, id=f"{error.__name__} {number}")
        for error, rows in REFUSED.items()
        for number, row in enumerate(rows)
    ],
)
def test_what_cannot_be_is_refused_with_what_can_be(error, call, words):
    with pytest.raises(error, match=words):
        call()
