"""What is shared is made once: nothing that Python offers for that makes, fills or changes it a second time."""

import copy
import pickle

import pytest
from helpers import drive, processes

import arrowipc as ipc
from arrowipc import types

COLUMNS = ipc.Schema([ipc.Field("x", types.list_(types.int8())), ipc.Field("d", types.decimal128(9, 2))], {"a": "b"})
IMMUTABLE = [
    COLUMNS, COLUMNS.fields[0], COLUMNS.metadata, ipc.Limits(depth=3), *(field.type for field in COLUMNS)
]  # fmt: skip


def test_nothing_is_made_filled_or_changed_a_second_time():
    """``__init__`` again, ``__setstate__``, ``__class__``, attributes, ``__new__`` alone, copies, pickles."""
    done = processes.run_python("from hostile import second_init; second_init.main()")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_columns_outlive_an_empty_schema():
    """``batch.schema.__init__([])`` once made ``batch.column(1)`` read behind a tuple."""
    batch = ipc.RecordBatch.from_pydict({"x": [1], "y": ["a"]})
    batch.schema.__init__([])
    for name, value in (("fields", ()), ("metadata", None), ("__class__", ipc.Field)):
        for change in (object.__setattr__, setattr):
            with pytest.raises(AttributeError):
                change(batch.schema, name, value)
    assert batch.schema.names == ["x", "y"]
    assert repr(batch.column(1))
    drive.use(batch)


@pytest.mark.parametrize("value", IMMUTABLE, ids=lambda value: type(value).__name__)
def test_what_describes_data_does_not_change(value):
    before, attributes = repr(value), type(value).__match_args__
    for name in attributes:
        for change in (object.__setattr__, setattr):
            with pytest.raises(AttributeError):
                change(value, name, None)
        for remove in (object.__delattr__, delattr):
            with pytest.raises(AttributeError):
                remove(value, name)
    value.__init__()
    value.__init__(*attributes)
    assert repr(value) == before
    assert [copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))] == [value] * 3


def test_a_decoder_or_a_writer_begins_once():
    writer, decoder = ipc.new_stream(bytearray(), COLUMNS), ipc.StreamDecoder()
    for again in (lambda: writer.__init__(bytearray(), COLUMNS), decoder.__init__):
        with pytest.raises(ipc.UsageError, match="once"):
            again()
    decoder.feed(COLUMNS.serialize())
    assert decoder.read_schema()
    writer.close()


@pytest.mark.parametrize("kind", [ipc.RecordBatchFileWriter, ipc.RecordBatchStreamWriter, ipc.StreamDecoder])
def test_what_was_never_initialized_says_so(kind):
    blank = kind.__new__(kind)
    with pytest.raises(ipc.UsageError, match="__init__ was not called"):
        blank.next_event() if kind is ipc.StreamDecoder else blank.write({"x": [1]})


def test_objects_of_all_public_classes_can_be_referred_to_weakly():
    public = [getattr(ipc, name) for name in ipc.__all__] + [getattr(types, name) for name in types.__all__]
    kinds = {kind for kind in public if isinstance(kind, type) and not issubclass(kind, tuple)}
    assert len(kinds) > 30
    assert {kind.__name__ for kind in kinds if not kind.__weakrefoffset__} == set()
