"""Dictionaries in dictionaries: payload columns take memory and time as their bytes do, and read right."""

import gc
import json
import random
import time
from typing import Any

import pyarrow as pa
import pytest
from helpers import forge, memory
from helpers.arrays import ipc_bytes, pyarrow_bytes
from helpers.forge import batch, dictionary, encoding, field, i32, schema, stream
from helpers.processes import alarms, printed, rounds, run_module
from laws import nested_payloads
from laws.nested_payloads import Shape

import arrowipc as ipc
from arrowipc import types

MIB = 1 << 20
SEED = 20261123
#: A column of the first three values of a dictionary.
THREE = batch(3, [(3, 0)], [b"", i32(0, 1, 2)])


def values(cells: list[bytes]) -> list[Any]:
    """What each cell holds, as the readers read it."""
    return [row for cell in cells for batch in ipc.open(cell) for row in batch.to_pylist()]


# -- the law -------------------------------------------------------------------------------------------------


@pytest.mark.nosanitize  # measured memory and time
@pytest.mark.campaign
def test_any_shape_takes_256_MiB_and_2_microseconds_per_byte_at_most():
    child = run_module("laws.nested_payloads", SEED, rounds(5, 200), timeout=3600)
    lines = [json.loads(line) for line in printed(child).splitlines()]
    assert len(lines) == 2 * rounds(5, 200)
    wrong = [
        line
        for line in lines
        if line["mib"] > 256
        or line["seconds"] > 2e-6 * line["bytes"] + 0.02  # the clock ticks in hundredths
        or line["outcome"] not in ("values", "LimitError")
    ]
    assert not wrong, wrong
    assert sum(line["outcome"] == "values" for line in lines) > len(lines) // 2


@pytest.mark.campaign
@pytest.mark.parametrize("kind", nested_payloads.KINDS)
def test_values_are_told_apart_as_when_they_are_spelled_out(kind):
    rng = random.Random(f"{SEED} {kind}")
    for number in range(rounds(3, 40)):
        depth, fan, words = rng.randint(1, 4), rng.randint(1, 3), rng.randint(2, 6)
        shape = Shape(kind, depth, fan, words, rng.randint(0, 8), 3, number, rng.choice((0, 2)), rng.random() < 0.5)
        cells = nested_payloads.column(shape)
        if kind == "null" and depth == 1:
            continue  # a million nulls
        expected = values(cells)
        for dictionaries in ("unify", "decode"):
            found = ipc.decode_payloads(cells, dictionaries=dictionaries).batch
            assert found.to_pylist() == expected, (shape, dictionaries)
        batches = [batch for cell in cells for batch in ipc.open_stream(cell)]
        assert values([ipc_bytes(batches, "file", unify_dictionaries=True)]) == expected, shape


# -- dictionaries in dictionaries ----------------------------------------------------------------------------


@pytest.mark.nosanitize  # measured memory
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_six_levels_of_lists_of_twelve_are_unified_by_their_numbers(on_error):
    cells = nested_payloads.column(Shape("list", depth=6, fan=12, words=500, rows=500, cells=60))
    assert 7 * MIB < sum(map(len, cells)) < 10 * MIB
    with memory.at_most(128 * MIB):  # spelled out, they would be 10 ** 11 values
        found = ipc.decode_payloads(cells, on_error=on_error, parent_index=True)
    assert (found.batch.num_rows, found.num_failed) == (60 * 500, 0)


@pytest.mark.nosanitize  # measured memory
def test_a_file_of_unified_dictionaries_takes_no_more_than_its_batches():
    cells = nested_payloads.column(Shape("list", depth=6, fan=12, words=300, rows=300, cells=8))
    batches = [batch for cell in cells for batch in ipc.open_stream(cell)]
    with memory.at_most(32 * MIB):
        ipc_bytes(batches, "file", unify_dictionaries=True)


def test_runs_that_expand_too_far_are_a_limit_not_a_lack_of_memory():
    cells = nested_payloads.column(Shape("runs", depth=4, fan=200, words=100, rows=1, cells=2, seed=407716173))
    found = ipc.decode_payloads(cells, dictionaries="decode", on_error="skip")
    assert [type(error) for _, error in found.failures] == [ipc.LimitError] * 2


def test_null_is_one_value_however_it_is_spelled():
    """A null index, and an index to a null, in the values of a dictionary."""
    inner = dictionary(0, batch(2, [(2, 1)], [b"\1", i32(0, 1, 1), b"a"]))
    item = field("item", forge.UTF8, dictionary=encoding(0))
    # [null index], [index of null], ["a"]
    outer = dictionary(1, batch(3, [(3, 0), (3, 1)], [b"", i32(0, 1, 2, 3), b"\6", i32(0, 1, 0)]))
    cell = stream(schema(field("x", forge.LIST, item, dictionary=encoding(1))), inner, outer, THREE)
    column = ipc.decode_payloads([cell, cell]).batch.column("x")
    assert column.to_pylist() == [[None], [None], ["a"]] * 2
    assert len(column.dictionary) == 2


def shared(ids: tuple[int, int], words: str) -> bytes:
    """Structs of two encoded texts, which name one dictionary or one each."""
    parts = [dictionary(id, forge.texts(*(words if id == 0 else words[::-1]))) for id in sorted({*ids})]
    members = [field(name, forge.UTF8, dictionary=encoding(id)) for name, id in zip("ab", ids, strict=True)]
    indices = [b"", i32(0, 1, 2), b"", i32(2, 1, 0)]
    parts.append(dictionary(2, batch(3, [(3, 0)] * 3, [b"", *indices])))
    return stream(schema(field("x", forge.STRUCT, *members, dictionary=encoding(2))), *parts, THREE)


@pytest.mark.parametrize("ids", [[(0, 0), (0, 1)], [(0, 1), (0, 0)], [(0, 1), (0, 0), (0, 1), (0, 0)]])
def test_payloads_may_share_their_inner_dictionaries_differently(ids):
    # It crashed: the values kept the ordinals of one schema and the dictionaries of another.
    cells = [shared(each, words) for each, words in zip(ids, ("abc", "xyz", "bcd", "abc"), strict=False)]
    assert ipc.decode_payloads(cells).batch.to_pylist() == values(cells)


def test_deltas_of_nested_dictionaries_keep_the_places_of_their_values():
    shape = Shape("list", depth=2, fan=40, words=3000, rows=10, cells=1, again=300, deltas=True)
    cells = nested_payloads.column(shape)
    start = time.process_time()
    found = ipc.decode_payloads(cells)
    assert time.process_time() - start < 2
    assert found.batch.to_pylist() == values(cells)


# -- one budget ----------------------------------------------------------------------------------------------


def long_words(rows: int, *, broken: bool = False) -> bytes:
    """64 KiB that become `rows` times as many where they are decoded."""
    word = dictionary(0, forge.texts("x" * (1 << 16)))
    described = schema(field("x", forge.UTF8, dictionary=encoding(0, index=forge.INT8)))
    cell = stream(described, word, batch(rows, [(rows, 0)], [b"", bytes(rows)]))
    return cell[:-8] + b"\xff\xff\xff\xff\x10\0\0\0" + bytes(8) if broken else cell


def test_what_is_made_of_a_refused_cell_counts_too():
    limits = ipc.Limits(decompressed_ratio=1, payload_slack=10 * MIB)
    options = {"limits": limits, "dictionaries": "decode", "on_error": "skip"}
    assert ipc.decode_payloads([long_words(100)], **options).num_failed == 0
    found = ipc.decode_payloads([long_words(100, broken=True), long_words(100), long_words(2)], **options)
    assert [at for at, _ in found.failures] == [0, 1]
    assert isinstance(found.failures[1][1], ipc.LimitError)
    # What has room in the bytes that it brings itself is read all the same.
    assert found.counts.to_pylist() == [0, 0, 2]


def views(seed: int, rows: int = 300) -> bytes:
    """Values that share their elements: lists of nearly all of them."""
    return nested_payloads.payload(Shape("wide", depth=1, words=rows, rows=1, seed=seed), 0)


def test_values_that_stay_in_a_table_count_for_all_cells():
    limits = ipc.Limits(payload_slack=4 * MIB)
    cells = [views(seed, 600) for seed in range(12)]
    found = ipc.decode_payloads(cells, limits=limits, on_error="skip")
    assert 0 < found.num_failed < 12
    assert all("payload_slack" in str(error) for _, error in found.failures)
    assert ipc.decode_payloads(cells).num_failed == 0
    honest = shared((0, 1), "abc")
    kept = ipc.decode_payloads([honest, *[views(7, 3000)] * 20, honest], limits=limits, on_error="skip")
    assert kept.counts.to_pylist()[0] == kept.counts.to_pylist()[-1] == 3


def test_the_slack_is_a_limit_like_the_others():
    assert "payload_slack" in ipc.Limits.__match_args__
    for name in ipc.Limits.__match_args__:
        assert ipc.Limits(**{name: 5}) != ipc.Limits() == ipc.Limits(**{name: getattr(ipc.Limits(), name)})
        for value in (-1, 1.5, "5"):
            with pytest.raises((ValueError, TypeError), match=name):
                ipc.Limits(**{name: value})


@pytest.mark.nosanitize  # measured memory
def test_elements_between_list_views_are_counted():
    """Lists of two views, at both ends of 50,000 elements: every other one is new, and brings all."""
    rows, elements = 4000, 50_000
    ends = [(2 * (k // 2) * (k % 2), elements - 1) for k in range(rows)]
    views = [b"", i32(*[at for pair in ends for at in pair]), i32(*[1] * (2 * rows))]
    buffers = [b"", i32(*range(0, 2 * rows + 1, 2)), *views, b"", i32(*range(elements))]
    data = batch(rows, [(rows, 0), (2 * rows, 0), (elements, 0)], buffers)
    inner = field("item", forge.LIST_VIEW, field("item", forge.INT32))
    cell = stream(
        schema(field("x", forge.LIST, inner, dictionary=encoding(0))),
        dictionary(0, data),
        batch(1, [(1, 0)], [b"", i32(0)]),
    )
    with memory.at_most(200 * MIB):
        found = ipc.decode_payloads([cell] * 2, on_error="skip")
    assert found.num_failed == 2
    assert "share so many elements" in str(found.failures[0][1])


@pytest.mark.nosanitize  # measured memory
@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_bodies_that_inflate_share_the_slack_of_their_column(codec):
    size = 8 * MIB
    zeros = ipc.RecordBatch.from_pydict({"x": [bytes(size)]})
    cell = bytes(ipc.encode_payloads(zeros, rows_per_payload=1, compression=codec).to_pylist()[0])
    limits = ipc.Limits(decompressed_ratio=2, payload_slack=size + MIB)
    with memory.at_most(4 * size):
        found = ipc.decode_payloads([cell] * 4, on_error="skip", limits=limits)
    assert (found.batch.num_rows, found.num_failed) == (1, 3)
    assert ipc.decode_payloads([cell] * 4, limits=ipc.Limits(payload_slack=5 * size)).batch.num_rows == 4


# -- writing as it comes -------------------------------------------------------------------------------------


def equal_in_other_words(outer: int) -> bytes:
    """Six levels of values that are all equal; the outermost comes again and again, with other indices."""
    rng = random.Random(SEED)
    words, fan = 40, 12
    parts, below = [dictionary(0, forge.texts(*"x" * words))], [forge.UTF8]

    def lists(level: int) -> Any:
        offsets, indices = range(0, words * fan + 1, fan), [rng.randrange(words) for _ in range(words * fan)]
        nodes = [(words, 0), (words * fan, 0)]
        return dictionary(level, batch(words, nodes, [b"", i32(*offsets), b"", i32(*indices)]))

    for level in range(1, 6):
        parts.append(lists(level))
        below = [forge.LIST, field("item", below[0], *below[1:], dictionary=encoding(level - 1))]
    row = batch(1, [(1, 0)], [b"", i32(0)])
    described = schema(field("x", below[0], *below[1:], dictionary=encoding(5)))
    return stream(described, *parts, row, *[part for _ in range(outer) for part in (lists(5), row)])


@pytest.mark.parametrize("options", [{}, {"dictionary_deltas": True}, {"unify_dictionaries": True}])
def test_a_writer_does_not_spell_out_what_is_equal_in_other_words(options):
    # Each batch took two seconds, and was refused in the end.
    made = ipc_bytes(ipc.open_stream(equal_in_other_words(10)), **options)
    assert sum(each.num_rows for each in ipc.open_stream(made)) == 11


def test_dictionaries_that_are_equal_in_other_words_are_written_once():
    cells = [shared(ids, "aaa") for ids in ((0, 1), (0, 0))]
    file = ipc_bytes([batch for cell in cells for batch in ipc.open_stream(cell)], "file")
    assert values([file]) == values(cells)


# -- what was found by review --------------------------------------------------------------------------------


def in_tens(count: int) -> list[pa.RecordBatch]:
    """Batches of ten rows of dictionary<struct<dictionary<utf8>>>, which share its 20,000 values."""
    numbers = pa.array(range(20_000), pa.int32())
    words = pa.DictionaryArray.from_arrays(numbers, pa.array([f"{i:050d}" for i in range(20_000)]))
    values = pa.StructArray.from_arrays([words], ["a"])
    indices = [pa.array(range(i, i + 10), pa.int32()) for i in range(count)]
    return [pa.record_batch({"o": pa.DictionaryArray.from_arrays(each, values)}) for each in indices]


@pytest.mark.parametrize("dictionaries", ["unify", "decode"])
def test_a_nested_dictionary_is_paid_for_once_however_many_batches_use_it(dictionaries):
    batches = in_tens(200)
    found = ipc.decode_payloads([pyarrow_bytes(batches)], dictionaries=dictionaries)
    assert found.batch.to_pylist() == [row for each in batches for row in each.to_pylist()]


def test_a_nested_dictionary_is_not_paid_for_again_when_another_one_grows():
    nested = in_tens(1)[0].column("o")
    words: list[str] = []
    batches = []
    for i in range(3000):
        words.append(f"w{i}")
        flat = pa.DictionaryArray.from_arrays(pa.array([i] * 10, pa.int32()), pa.array(words))
        batches.append(pa.record_batch([nested, flat], ["o", "f"]))
    cell = pyarrow_bytes(batches, emit_dictionary_deltas=True)
    found = ipc.decode_payloads([cell])
    assert found.batch.num_rows == 30_000
    assert pa.record_batch(found.batch)[-10:].to_pylist() == batches[-1].to_pylist()


def two_into_one(batches: int) -> tuple[bytes, ipc.Schema]:
    """A file of two dictionaries of 50,000 words, and a schema in which they are one."""
    indices = pa.array([1, 2], pa.int32())
    words = {name: pa.array([f"{name}{i}" for i in range(50_000)]) for name in "ab"}
    whole = pa.record_batch({name: pa.DictionaryArray.from_arrays(indices, each) for name, each in words.items()})
    kind = types.dictionary(types.int32(), types.utf8()).__replace__(dictionary_id=0)
    into = ipc.schema({"a": kind, "b": kind})
    return pyarrow_bytes([whole] * batches, "file"), into


def test_dictionaries_that_become_one_are_numbered_once_each():
    """They took turns: 400 batches of 230 bytes took 1.6 s."""

    def seconds(count: int) -> float:
        cell, into = two_into_one(count)
        start = time.process_time()
        found = ipc.decode_payloads([cell], schema=into)
        took = time.process_time() - start
        assert pa.record_batch(found.batch)[-1:].to_pylist() == [{"a": "a2", "b": "b2"}]
        return took

    few = min(seconds(20) for _ in range(3))
    assert any(seconds(1000) < 8 * few + 0.2 for _ in range(2))


def test_a_signal_ends_a_cell_of_many_batches():
    def stop(*_: object) -> None:
        raise ZeroDivisionError

    cell = pyarrow_bytes(in_tens(1) * 20_000)
    gc.disable()  # what is raised in a callback of the collector is lost
    try:
        with pytest.raises(ZeroDivisionError), alarms(stop, 0.02):
            ipc.decode_payloads([cell] * 20, dictionaries="decode")
    finally:
        gc.enable()
