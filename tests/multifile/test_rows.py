"""Rows as training data take them: whatever the way, they are those that reading everything gives."""

import itertools
import json
import os
import pickle
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import randoms
from helpers.arrays import pyarrow_bytes
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc.types import dictionary, field, float32, float64, int32, int64, large_list, list_, struct, utf8

SCHEMA = ipc.Schema(
    [
        field("id", int64(), nullable=False),
        field("x", float32()),
        field("text", utf8()),
        field("tokens", list_(field("item", int32()))),
        field("ragged", large_list(field("item", int64()))),
        field("kind", dictionary(int32(), utf8())),
        field("place", struct([field("a", int64())])),
    ],
    metadata={"huggingface": '{"info": {"features": {"image": {"_type": "Image"}}}}'},
)


def rows_of(start: int, count: int) -> dict[str, list[Any]]:
    numbers = range(start, start + count)
    return {
        "id": list(numbers),
        "x": [i / 4 for i in numbers],
        "text": [None if i % 5 == 0 else f"text {i}" for i in numbers],
        "tokens": [[i, i + 1, i + 2] for i in numbers],
        "ragged": [list(range(i % 4)) for i in numbers],
        "kind": ["ab"[i % 2] for i in numbers],
        "place": [{"a": i} for i in numbers],
    }


def write(path: Path, lengths: list[int], start: int = 0, **options: Any) -> Path:
    """Write a file, or a stream where the name says so, of batches of these lengths."""
    starts = itertools.accumulate(lengths[:-1], initial=start)
    batches = map(rows_of, starts, lengths)
    ipc.write(batches, path, SCHEMA, unify_dictionaries=path.suffix == ".arrow", **options)
    return path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file, a compressed stream and another file, of 60 rows together; some batches are empty."""
    folder = tmp_path_factory.mktemp("rows")
    return [
        write(folder / "a.arrow", [7, 0, 13]),
        write(folder / "b.arrows", [20], start=20, compression="lz4"),
        write(folder / "c.arrow", [1, 19], start=40),
    ]


@pytest.fixture(scope="module")
def whole(parts: list[Path]) -> list[dict[str, Any]]:
    return [row for part in parts for row in ipc.open(part).read_all().to_pylist()]


def plain(value: Any) -> Any:
    """NumPy's values as Python's."""
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


@given(rows=st.lists(st.integers(-60, 59), max_size=30), form=st.sampled_from(["python", "numpy", "arrow"]))
def test_rows_are_those_of_the_whole(parts, whole, rows, form):
    dataset = ipc.RowDataset(parts, format=form)
    assert len(dataset) == len(whole)
    expected = [whole[row] for row in rows]
    batch = dataset.__getitems__(rows)
    if form == "arrow":
        assert batch.to_pylist() == expected == [row for i in rows for row in dataset[i].to_pylist()]
    elif form == "numpy":
        assert all(len(values) == len(rows) for values in batch.values())
        found = [{name: plain(values[k]) for name, values in batch.items()} for k in range(len(rows))]
        single = [{name: plain(value) for name, value in dataset[row].items()} for row in rows]
        assert found == expected == single
    else:
        assert batch == expected == [dataset[row] for row in rows]


@given(parts=randoms.batches(), as_file=st.booleans())
def test_columns_of_any_type_come_as_they_are(tmp_path_factory, parts, as_file):
    path = tmp_path_factory.mktemp("any") / "a.arrow"
    path.write_bytes(pyarrow_bytes(parts, kind=("stream", "file")[as_file]))
    table = ipc.open(path).read_all()
    if table.batches and len(set(table.column_names)) == len(table.column_names):
        rows = range(len(table))[-5:]
        listed = ipc.RowDataset(path)
        last = table.slice(len(table) - len(rows)).to_pylist()
        assert repr(listed[rows]) == repr(last) == repr([listed[i] for i in rows])
        arrays = ipc.RowDataset(path, format="numpy")[rows]
        assert all(len(values) == len(rows) for values in arrays.values())


def test_whatever_numbers_rows_and_slices_do_too(parts, whole):
    dataset = ipc.RowDataset(parts)
    assert dataset.to_torch() is dataset
    assert dataset[-1] == whole[-1] == dataset[np.int64(59)]
    assert dataset[57:] == whole[57:] == dataset[range(57, 60)] == dataset[np.arange(57, 60, dtype=np.uint8)]
    assert list(dataset) == whole
    assert dataset[[]] == []
    assert "60 rows" in repr(dataset)


def test_columns_are_chosen_and_metadata_stays(parts):
    dataset = ipc.RowDataset(parts, columns=["place.a", "id"])
    assert dataset[41] == {"place": {"a": 41}, "id": 41}
    assert dataset.schema.metadata == SCHEMA.metadata


def test_arrays_have_an_axis_more_where_lists_are_of_one_length(parts):
    batch = ipc.RowDataset(parts, format="numpy")[[3, 59]]
    assert (batch["tokens"].shape, batch["tokens"].dtype) == ((2, 3), np.dtype(np.int32))
    assert [each.dtype for each in batch["ragged"]] == [np.dtype(np.int64)] * 2
    assert batch["x"].flags.writeable  # what torch shares without a warning


def test_nested_lists_have_an_axis_for_each_depth(tmp_path):
    matrix = list_(field("item", list_(field("item", int64()), 2)), 3)
    types = {
        "lists": list_(field("item", list_(field("item", float64())))),
        "fixed": matrix,
        "mixed": list_(field("item", list_(field("item", int64()), 2))),
        "ragged": list_(field("item", list_(field("item", int64())))),
    }
    rows = [[[10 * i + 2 * k, 10 * i + 2 * k + 1] for k in range(3)] for i in range(5)]
    values = dict.fromkeys(types, rows) | {"ragged": [each[: i % 3] for i, each in enumerate(rows)]}
    schema = ipc.Schema([field(name, type_) for name, type_ in types.items()])
    ipc.write(values, tmp_path / "x.arrow", schema)
    batch = ipc.RowDataset(tmp_path / "x.arrow", format="numpy")[[3, 1, 4]]
    for name in ("lists", "fixed", "mixed"):
        assert batch[name].tolist() == [rows[i] for i in (3, 1, 4)]
        assert batch[name].shape == (3, 3, 2), name
        assert batch[name].flags.writeable
    assert batch["ragged"].dtype == object
    assert [[each.tolist() for each in row] for row in batch["ragged"]] == [[], rows[1][:1], rows[4][:1]]


@pytest.mark.parametrize("form", ["python", "numpy", "arrow"])
def test_a_transform_takes_the_place_of_what_it_is_given(parts, form):
    dataset = ipc.RowDataset(parts, columns="id", format=form, transform=type)
    kind = ipc.RecordBatch if form == "arrow" else dict
    assert dataset[3] is kind
    batches = dataset[[3, 4]]
    assert batches == [dict, dict] if form == "python" else issubclass(batches, kind)


def test_extension_types_are_values_when_asked_for(tmp_path):
    schema = ipc.Schema([field("id", ipc.types.FixedSizeBinary(16), metadata={"ARROW:extension:name": "arrow.uuid"})])
    ipc.write({"id": [bytes(16)] * 2}, tmp_path / "a.arrow", schema)
    dataset = ipc.RowDataset(tmp_path / "a.arrow", extensions=True)
    nil = {"id": uuid.UUID(int=0)}
    assert (dataset[1], dataset[[0, 1]]) == (nil, [nil, nil])


def test_a_pickle_holds_paths_and_options_alone(parts, whole, monkeypatch):
    monkeypatch.chdir(parts[0].parent)
    dataset = ipc.RowDataset([part.name for part in parts], columns=["text", "id"])
    data = pickle.dumps(dataset)
    assert len(data) < 4000
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert again[[0, 30]] == dataset[[0, 30]]
    assert len(pickle.loads(data)) == 60
    assert pickle.loads(data).schema == dataset.schema


def test_a_fork_opens_its_own(parts, whole):
    dataset = ipc.RowDataset(parts)
    assert dataset[5] == whole[5]
    child = os.fork()
    if not child:
        os._exit(int(dataset[[59, 21]] != [whole[59], whole[21]]))
    assert os.waitpid(child, 0)[1] == 0


def test_a_data_set_of_files_can_be_the_source(parts, whole):
    dataset = ipc.RowDataset(ipc.open_dataset(parts), columns=["id"])
    assert dataset[[40, 1]] == [{"id": 40}, {"id": 1}]
    assert pickle.loads(pickle.dumps(dataset))[21] == {"id": 21}


def test_rows_and_options_that_make_no_sense(parts):
    with pytest.raises(ipc.UsageError, match=r"expected paths, URLs or a Dataset, found Table .*write\(data, path\)"):
        ipc.RowDataset(ipc.table({"x": [1]}))
    for rows, error in ((60, IndexError), ([0, -61], IndexError), ("id", ipc.UsageError)):
        with pytest.raises(error, match=r"60|integers"):
            ipc.RowDataset(parts)[rows]
    for options, words in (({"format": "torch"}, "found str 'torch'"), ({"columns": ["id", "id"]}, "share a name")):
        with pytest.raises(ipc.UsageError, match=words):
            ipc.RowDataset(parts, **options)


def test_no_rows_are_a_data_set_too(tmp_path):
    dataset = ipc.RowDataset(write(tmp_path / "a.arrow", [0]), format="numpy")
    assert len(dataset) == 0
    assert dataset[[]]["tokens"].shape == (0,)
    with pytest.raises(IndexError):
        dataset[0]


@pytest.mark.parametrize("form", ["python", "numpy", "arrow"])
def test_rows_without_columns_are_samples_too(parts, form):
    assert len(list(ipc.RowStream(parts, columns=[], format=form))) == len(ipc.RowDataset(parts, columns=[])) == 60


# -- passes that go on later ---------------------------------------------------------------------------------


def values(found: Any) -> list[list[int]]:
    return [np.atleast_1d(batch["x"]).tolist() for batch in found]


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("shuffle", [0, 40])
def test_a_pass_has_every_row_once_and_goes_on_where_it_stopped(tmp_path: Path, shuffle: int, compression: Any) -> None:
    numbers = iter(range(230))
    for name, sizes in (("a", [50, 1, 49]), ("b", [100, 30])):
        batches = [{"x": list(itertools.islice(numbers, size))} for size in sizes]
        ipc.write(batches, tmp_path / f"{name}.arrow", compression=compression)
    options = {"shuffle": shuffle, "seed": 7, "format": "numpy"}
    for size in (1, 7, 64, 1000, None):
        stream = ipc.RowStream(tmp_path, batch_size=size, **options)
        first = values(stream)
        assert sorted(itertools.chain(*first)) == list(range(230))
        assert ([*itertools.chain(*first)] == list(range(230))) == (shuffle == 0)
        second = values(stream)
        assert (first == second) == (shuffle == 0)
        for stop in {0, 1, len(first) // 2, len(first)}:
            stream = ipc.RowStream(tmp_path, batch_size=size, **options)
            assert values(itertools.islice(stream, stop)) == first[:stop]
            state = json.loads(json.dumps(stream.state_dict()))
            again = ipc.RowStream(tmp_path, batch_size=size, **options)
            again.load_state_dict(state)
            assert values(again) == first[stop:]
            assert values(again) == second


def test_shares_have_all_rows_together(tmp_path: Path) -> None:
    ipc.write([{"x": [i] * (i + 1)} for i in range(10)], path := tmp_path / "x.arrow")
    for shuffle in (0, 5):
        parts = [ipc.RowStream(path, shuffle=shuffle, rank=rank, world_size=3) for rank in range(3)]
        found = [sorted(sample["x"] for sample in part) for part in parts]
        assert sorted(itertools.chain(*found)) == sorted(i for i in range(10) for _ in range(i + 1))
        assert all(found)
    state = parts[0].state_dict()
    next(iter(parts[0]))
    parts[1].load_state_dict(parts[0].state_dict())
    with pytest.raises(ipc.UsageError, match=r"share \(0, 3\), and this is \(1, 3\)"):
        next(iter(parts[1]))
    assert state["epoch"] == 1
    for wrong in ({"rank": 1}, {"rank": 3, "world_size": 3}, {"shuffle": -1}, {"format": "tensor"}):
        with pytest.raises(ipc.UsageError, match=r"must be|belong together"):
            ipc.RowStream(path, **wrong)


def test_a_stream_that_grows_is_a_pass(tmp_path: Path) -> None:
    path = tmp_path / "x.arrows"
    with ipc.new_stream(path, append=True) as writer:
        writer.write({"x": [0, 1, 2]})
        with ipc.open_stream(path, follow=True, timeout=10) as reader:
            batches = iter(ipc.RowStream(reader, batch_size=2, format="numpy"))
            assert next(batches)["x"].tolist() == [0, 1]
            writer.write({"x": [3, 4]})
            assert next(batches)["x"].tolist() == [2, 3]
            writer.close()
            assert [batch["x"].tolist() for batch in batches] == [[4]]
    with ipc.open_stream(path) as reader:
        mixed = ipc.RowStream(reader, shuffle=10, format="arrow", transform=lambda row: row["x"][0])
        assert sorted(mixed) == [0, 1, 2, 3, 4]
        with pytest.raises(ipc.UsageError, match="of a reader"):
            ipc.RowStream(reader, columns=["x"])


def test_loaders_of_torch_share_a_pass_out(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    ipc.write([{"x": [2 * i, 2 * i + 1]} for i in range(6)], path := tmp_path / "x.arrow")
    for workers in (0, 2):
        rows = ipc.RowStream(path, batch_size=4, format="numpy", shuffle=3).to_torch()
        loader = data.DataLoader(rows, batch_size=None, num_workers=workers)
        assert sorted(itertools.chain(*values(loader))) == list(range(12))
    assert rows.state_dict().keys() == {"epoch", "rows", "share", "shuffle", "seed"}


def test_a_state_of_another_pass_is_refused(tmp_path):
    """It named rows that this one has seen, or has not."""
    ipc.write([{"x": [2 * i, 2 * i + 1]} for i in range(20)], path := tmp_path / "x.arrow")
    first = ipc.RowStream(path, shuffle=10, seed=1, batch_size=6)
    next(iter(first))
    state = first.state_dict()
    for options in ({"shuffle": 10, "seed": 2}, {"shuffle": 4, "seed": 1}):
        with pytest.raises(ipc.UsageError, match="the state is of a pass with"):
            ipc.RowStream(path, batch_size=6, **options).load_state_dict(state)
    again = ipc.RowStream(path, shuffle=10, seed=1, batch_size=6)
    again.load_state_dict({**state, "rows": 1200})
    with pytest.raises(ipc.UsageError, match="1,160 rows behind the end"):
        list(again)


@pytest.mark.parametrize(
    "state", [None, {}, {"epoch": "a", "rows": 1, "share": None}, {"epoch": 0, "rows": -1, "share": None}, {"share": 5}]
)
def test_a_state_that_is_none_changes_nothing(state, tmp_path):
    ipc.write([{"x": [0, 1, 2]}], tmp_path / "rows.arrow")
    rows = ipc.RowStream(tmp_path / "rows.arrow")
    with pytest.raises(ipc.UsageError, match=r"a state is what|must be an integer"):
        rows.load_state_dict(state)
    assert len(list(rows)) == 3


@pytest.mark.parametrize("epoch", [-1, None, 1.5, "x"])
def test_the_number_of_a_pass_is_an_integer(parts, epoch):
    rows = ipc.RowStream(parts, shuffle=10)
    rows.epoch = epoch
    with pytest.raises(ipc.UsageError, match="epoch must be an integer from 0"):
        list(rows)
    rows.epoch = 3
    assert len(list(rows)) == 60
