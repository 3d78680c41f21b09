"""Schemas, footers and tensors as FlatBuffers: the flatbuffers package finds every value where it must be."""

import pickle
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from helpers import randoms
from helpers.arrays import ipc_bytes
from helpers.fbs import FlatReader
from hypothesis import given

import arrowipc as ipc
from arrowipc import types as T
from arrowipc.errors import UsageError
from arrowipc.schemas import schema_message


def read_tables(metadata: bytes) -> dict[str, Any]:
    """The tables of a message, after what holds for all of them."""
    reader = FlatReader(metadata)
    tables = reader.root("Message")
    assert not [word for word in reader.words if word[0] % word[1]], "(place, width) out of alignment"
    vtables = {metadata[at : at + int.from_bytes(metadata[at : at + 2], "little")] for at in reader.vtables}
    assert len(vtables) == len(reader.vtables), "equal vtables are shared"
    return tables


def metadata_of(message: bytes) -> bytes:
    assert message[:4] == b"\xff" * 4
    assert int.from_bytes(message[4:8], "little") == len(message) - 8
    return message[8:]


def check(schema: ipc.Schema) -> None:
    """All laws that hold for a schema whose dictionaries have ids."""
    message = schema.serialize()
    tables = read_tables(metadata_of(message))
    assert (tables["version"], tables["header_type"], tables["bodyLength"]) == ("V5", "Schema", 0)
    assert [field["name"] for field in tables["header"]["fields"]] == schema.names
    again = pickle.loads(pickle.dumps(schema))
    assert again.serialize() == message
    read = ipc.read_schema(message)
    assert read.equals(schema, check_metadata=True)
    assert (read.endianness, read.features) == ("little", schema.features)


pairs = st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=3)
columns = st.builds(  # pyarrow refuses a null type that is not nullable
    lambda name, kind, nullable: pa.field(name, kind, nullable or pa.types.is_null(kind)),
    randoms.any_text(max_size=9),
    randoms.types,
    st.booleans(),
)


@given(st.lists(columns, max_size=5), pairs, pairs)
def test_what_is_written_is_what_the_schema_says(
    fields: list[pa.Field], of_schema: list[tuple[bytes, bytes]], of_field: list[tuple[bytes, bytes]]
) -> None:
    theirs = pa.schema(fields)
    given = ipc.read_schema(memoryview(theirs.serialize()))
    assert pa.ipc.read_schema(pa.py_buffer(ipc.Schema(given.fields).serialize())).equals(theirs)
    last = [T.Field("last", T.bool_(), False, of_field)]
    check(ipc.Schema([*given.fields, *last], of_schema))


@pytest.mark.parametrize("id", [0, 1, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("before", range(5))
def test_ids_of_dictionaries_lie_at_multiples_of_8(id: int, ordered: bool, before: int) -> None:
    inner = T.Dictionary(T.uint64(), T.utf8(), not ordered, 7)
    values = T.struct([("x", inner), ("y", T.list_(inner))])
    check(ipc.Schema([T.Field("n" * before, T.int8()), T.Field("d", T.Dictionary(T.int32(), values, ordered, id))]))


def test_features_and_byte_order() -> None:
    check(ipc.Schema([T.Field("a", T.int8())], features=(2, 1)))
    big = ipc.Schema([T.Field("a", T.int16())], endianness="big")
    assert read_tables(metadata_of(schema_message(big)))["header"]["endianness"] == "Big"
    for bad in (2**63, -(2**63) - 1, 1.0, "1", True):
        with pytest.raises(UsageError, match="Schema: feature must be an integer"):
            ipc.Schema([], features=(bad,))


def test_the_message_has_metadata_and_a_version_of_its_own() -> None:
    schema = ipc.Schema([T.Field("a", T.int8())])
    tables = read_tables(metadata_of(schema_message(schema, "V4", ((b"k", b"\xff"),))))
    assert tables["version"] == "V4"
    assert tables["custom_metadata"] == [{"key": "k", "value": "\udcff"}]
    assert [field["name"] for field in tables["header"]["fields"]] == ["a"]


@pytest.mark.thread_unsafe(reason="without a GIL, CPython does write the zeros: 2 GB for each thread")
@pytest.mark.parametrize("size", [2**31 - 200, 2**31 - 1, 2**31])
def test_metadata_beyond_what_an_int32_counts_is_refused(size: int) -> None:
    # Nothing of these bytes is ever touched: pages that nobody wrote to take no memory.
    try:
        value = bytes(size)
    except MemoryError:
        pytest.skip(f"no room for {size:,} addresses")
    with pytest.raises(UsageError, match="its size is an int32"):
        ipc.Schema([T.Field("a", T.int8(), metadata={"k": value})]).serialize()


# Writers: they number dictionaries, and keep what they made of the last schemas.


@pytest.mark.parametrize("ids", [(None, None), (0, 1), (0, 0), (5, 3), (3, None), (None, 0)])
def test_writers_number_the_dictionaries_from_0(ids: tuple[int | None, ...]) -> None:
    words = [T.Dictionary(T.int8(), T.utf8(), False, id) for id in ids]
    schema = ipc.Schema([T.Field("a", words[0]), T.Field("b", T.list_(words[1])), T.Field("c", T.int8())])
    expected = [0, 0] if ids == (0, 0) else [0, 1]
    for _ in range(2):
        fields = read_tables(ipc_bytes([], schema=schema)[8:])["header"]["fields"]
        found = [fields[0]["dictionary"]["id"], fields[1]["children"][0]["dictionary"]["id"]]
        assert found == expected
    assert [field.type for field in schema] == [words[0], T.list_(words[1]), T.int8()]
    assert schema.field(0).type.dictionary_id == ids[0]
