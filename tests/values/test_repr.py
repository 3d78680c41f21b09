"""What people see in terminals and notebooks: complete for small data, bounded for any, and never markup."""

import datetime
import decimal
from typing import Any
from xml.etree import ElementTree

import hypothesis.strategies as st
import numpy as np
import pytest
from helpers.arrays import CASES, read_array
from helpers.randoms import any_text
from hypothesis import given

import arrowipc
from arrowipc import types as T
from arrowipc.values.preview import NULL, value_text, values_text
from arrowipc.values.repr import LINE_WIDTH, rows_html, rows_text, schema_text

pa = pytest.importorskip("pyarrow")

MOMENT = datetime.datetime(2024, 2, 29, 12, 30)


def read(batch: Any, metadata: dict[str, str] | None = None) -> Any:
    """The same batch, read by us from a stream with metadata of the batch."""
    with arrowipc.new_stream(sink := bytearray()) as writer:
        writer.write_batch(batch, metadata)
    return arrowipc.open_stream(sink).read_next_batch()


def parsed(html: str) -> ElementTree.Element:
    """The elements of some HTML, whose tags are all closed in order."""
    return ElementTree.fromstring(html.replace("<br>", "<br/>"))


OURS = {"div", "style", "p", "table", "thead", "tbody", "tr", "th", "td", "br"}


# Batches, tables, arrays, messages.


def test_text_of_a_batch() -> None:
    fields = [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("tags", pa.list_(pa.string()))]
    batch = pa.record_batch([[1, 2, 3], ["a", None, "c"], [["x"], None, []]], schema=pa.schema(fields))
    assert repr(read(batch, {"k": "v"})).splitlines() == [
        "RecordBatch: 3 rows x 3 columns",
        "  id    int64 not null      [1, 2, 3]",
        '  name  string              ["a", null, "c"]',
        '  tags  list<item: string>  [["x"], null, []]',
        "-- batch metadata --",
        "k: 'v'",
    ]


#: Numbers and values of the rows that are shown of range(1000), and what stands between them.
ENDS = [
    *[each for i in range(5) for each in (str(i), str(i))],
    "... 990 more values",
    *[each for i in range(995, 1000) for each in (str(i), str(i))],
]


@pytest.mark.parametrize("cuts", [[1000], [3, 2, 990, 5], [2, 996, 2], [0, 4, 0, 992, 0, 4, 0], [1] * 1000])
def test_tables_show_both_ends_across_batches(cuts: list[int]) -> None:
    whole = arrowipc.RecordBatch.from_pydict({"n": np.arange(1000)})
    starts = np.cumsum([0, *cuts])[:-1].tolist()
    table = arrowipc.Table.from_batches([whole.slice(*each) for each in zip(starts, cuts, strict=True)])
    texts = [*parsed(table._repr_html_()).itertext()]
    assert texts[texts.index("0") :] == [each.replace("values", "rows") for each in ENDS]


# Nothing of the data is ever markup. (tests/hostile/test_names.py looks for characters that control a terminal.)

EVIL = "<script>alert('x')</script>&amp;\"'<!--]]>\x1b[31m\n\r\t"


def test_names_values_and_metadata_are_escaped() -> None:
    field = pa.field(EVIL, pa.struct([pa.field(EVIL, pa.string())]), metadata={EVIL: EVIL})
    values = [{EVIL: EVIL}]
    text = pa.array([EVIL])
    schema = pa.schema([field, pa.field("t", pa.string())], metadata={EVIL: EVIL, b"\xff": b"\xff<b>"})
    batch = read(pa.record_batch([pa.array(values, field.type), text], schema=schema), {EVIL: EVIL})
    root = parsed(batch._repr_html_())
    assert {element.tag for element in root.iter()} <= OURS
    assert any("<script>" in piece for piece in root.itertext())
    assert batch.schema[0].name == EVIL


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([True, False, None]), ["true", "false", "null"]),
        (pa.array([1.5, float("nan"), -0.0]), ["1.5", "nan", "-0.0"]),
        (pa.array(["", 'a"b', "é\n"]), ['""', '"a\\"b"', '"é\\n"']),
        (pa.array([b"", b"\x00z", None]), ["b''", "b'\\x00z'", "null"]),
        (pa.array([decimal.Decimal("1.50"), None]), ["1.50", "null"]),
        (pa.array([datetime.date(2024, 2, 29)]), ["2024-02-29"]),
        (pa.array([MOMENT], pa.timestamp("s")), ["2024-02-29 12:30:00"]),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), ["2024-02-29 12:30:00+00:00"]),
        (pa.array([0], pa.timestamp("ns")), ["1970-01-01 00:00:00"]),
        (pa.array([1], pa.timestamp("ns")), ["1970-01-01 00:00:00.000000001"]),
        (pa.array([-1], pa.timestamp("ns")), ["1969-12-31 23:59:59.999999999"]),
        (pa.array([2**62], pa.timestamp("s")), [f"{2**62}s"]),
        (pa.array([3_600_000_000_001], pa.time64("ns")), ["01:00:00.000000001"]),
        (pa.array([90, None], pa.duration("s")), ["0:01:30", "null"]),
        (pa.array([7], pa.duration("ns")), ["7ns"]),
        (pa.array([(1, 2, 3)], pa.month_day_nano_interval()), ["1mo 2d 3ns"]),
        (pa.nulls(2), ["null", "null"]),
        (pa.array([[1, None], [], None]), ["[1, null]", "[]", "null"]),
        (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)), ["[1, 2]", "null", "[3, 4]"]),
        (pa.array([[1], None, [2, 3]], pa.list_view(pa.int8())), ["[1]", "null", "[2, 3]"]),
        (pa.array([{"a": 1, "b": ["x"]}, None]), ['{a: 1, b: ["x"]}', "null"]),
        (CASES["map"], ['{"k": 1, "l": null}', "null", "{}", '{"m": 3}']),
        (pa.array(["a", None, "a", "b"]).dictionary_encode(), ['"a"', "null", '"a"', '"b"']),
        (pa.array([[[[[["x"]]]]]]), ["[[[[[...]]]]]"]),
        (CASES["run_end_int16"], ['"a"', '"a"', "null", *['"c"'] * 4]),
        (CASES["sparse_union"], ["1", '"b"', "3", "null", '"e"']),
        (CASES["dense_union"], ["1", '"b"', "2", "null", '"a"']),
    ],
    ids=lambda each: str(each.type) if isinstance(each, pa.Array) else "",
)
def test_values(array: Any, expected: list[str]) -> None:
    ours = read_array(array)
    assert [value_text(ours, i, 60) for i in range(len(ours))] == expected
    assert [value_text(ours.slice(i, 1), 0, 60) for i in range(len(ours))] == expected
    assert values_text(ours, 200, 10) == f"[{', '.join(expected)}]"
    # The same values as children, behind an empty list, so that offsets count.
    if "..." not in expected[0]:
        lists = read_array(pa.ListArray.from_arrays(pa.array([0, 0, len(array)], pa.int32()), array))
        assert [value_text(lists, i, 200) for i in (0, 1)] == ["[]", f"[{', '.join(expected)}]"]


@pytest.mark.parametrize("name", CASES)
def test_columns_in_chunks_and_tables_show_values_of_every_type(name: str) -> None:
    batch = arrowipc.record_batch({"x": CASES[name]})
    column = arrowipc.Table.from_batches([batch.slice(0, 2), batch.slice(2)])["x"]
    assert repr(column) == repr(batch["x"])
    for shown in (repr(column), repr(batch), repr(arrowipc.table(batch)), arrowipc.table(batch)._repr_html_()):
        assert "Error" not in shown


def test_long_values_are_cut() -> None:
    text = read_array(pa.array(["x" * 10**6, "é" * 100]))
    assert value_text(text, 0, 20) == f'"{"x" * 15}"...'
    assert value_text(text, 1, 20) == f'"{"é" * 15}"...'
    assert value_text(text, 0, 20, quotes=False) == "x" * 17 + "..."
    assert value_text(read_array(pa.array([b"x" * 10**6])), 0, 20) == "b'xxxxxxxxxxxxxx'..."
    assert value_text(read_array(pa.array([list(range(10**5))])), 0, 20) == "[0, 1, 2, 3, 4, ...]"
    many = pa.array([{f"c{i}": i for i in range(500)}])
    assert value_text(read_array(many), 0, 30) == "{c0: 0, c1: 1, c2: 2, ...}"


@given(st.sampled_from([np.float16, np.float32]), st.integers(0, 2**32 - 1))
def test_narrow_floats_have_no_more_digits_than_they_need(kind: Any, bits: int) -> None:
    value = np.array([bits], np.uint32).view(kind)[:1]
    text = value_text(arrowipc.array(value), 0, 40)
    assert np.array_equal(kind(float(text)), value[0], equal_nan=True)
    if abs(value[0]) >= np.finfo(kind).smallest_normal:
        assert text == str(float(str(value[0])))


words = st.one_of(st.none(), any_text(max_size=30))
numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
rows = st.fixed_dictionaries({"a": words, "b": st.one_of(st.none(), st.lists(numbers, max_size=12))})


@given(st.lists(st.one_of(st.none(), rows), max_size=5), st.integers(5, 120))
def test_no_text_is_wider_than_asked(values: list[Any], width: int) -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])
    array = read_array(pa.array(values, kind))
    for i in range(len(values)):
        text = value_text(array, i, width)
        assert len(text) <= width
        assert text.isprintable()
        assert (text is NULL) == (values[i] is None)


# Bounded, whatever the data.


class Counting:
    """A stand-in for a batch that says which columns were looked at."""

    def __init__(self, schema: Any, batch: Any) -> None:
        self.schema = schema
        self.num_rows = batch.num_rows
        self.custom_metadata = arrowipc.KeyValueMetadata()
        self.batch = batch
        self.asked: list[int] = []

    def column(self, i: int) -> Any:
        self.asked.append(i)
        return self.batch.column(0)


def test_a_million_columns() -> None:
    small = read(pa.record_batch({"a": pa.array([1, 2, 3])}))
    batch = Counting(arrowipc.Schema([small.schema[0]] * 1_000_000), small)
    lines = rows_text(batch).splitlines()
    assert lines[0] == "RecordBatch: 3 rows x 1,000,000 columns"
    assert lines[-1] == "  ... and 999,970 more columns"
    assert "... 999,980 more columns" in parsed(rows_html(batch)).itertext()
    assert max(batch.asked) < 30
    assert schema_text(batch.schema).splitlines()[-1] == "... and 999,800 more fields"


def test_lines_stay_narrow() -> None:
    name = "n" * 1000
    batch = read(pa.record_batch({name: pa.array(["v" * 1000])}).replace_schema_metadata({name: "m" * 1000}))
    assert all(len(line) <= LINE_WIDTH for line in repr(batch).splitlines())
    assert max(map(len, [*parsed(batch._repr_html_()).itertext()][1:])) <= LINE_WIDTH
    assert repr(batch.schema).splitlines()[-1] == f"{'n' * 63}...: '{'m' * 10}' + 990"


def test_text_of_a_schema() -> None:
    inner = T.field("item", T.int8(), metadata={"unit": "m"})
    schema = T.schema(
        [
            T.field("a", T.int32(), nullable=False, metadata={"k": "v" * 100, b"bin": b"\xff\x00"}),
            ("l", T.list_(inner)),
            ("plain", T.list_(T.int8())),
            T.field("u", T.binary(16), metadata={"ARROW:extension:name": "arrow.uuid"}),
        ],
        metadata={"who": "me"},
        endianness="big",
    )
    assert repr(schema).splitlines()[:6] == [
        "a: int32 not null",
        "  -- field metadata --",
        f"  k: '{'v' * 69}' + 31",
        "  bin: b'\\xff\\x00'",
        "l: list<item: int8>",
        "  child 0, item: int8",
    ]
    assert repr(schema).endswith("-- schema metadata --\nwho: 'me'\n-- endianness: big --")
    assert repr(T.schema([])) == ""
