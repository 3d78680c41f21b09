"""Rows as training data take them: whatever the way, they are those that reading everything gives."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import randoms
from helpers.arrays import pyarrow_bytes
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc.types import dictionary, field, float32, int32, int64, large_list, list_, struct, utf8

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
    """Lay down a file, or a stream where the name says so, of batches of these lengths."""
    begin = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
    if begin is ipc.new_file:
        options["unify_dictionaries"] = True
    with begin(path, SCHEMA, durable=False, **options) as writer:
        for length in lengths:
            writer.write(rows_of(start, length))
            start += length
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


@given(
    rows=st.lists(st.integers(-60, 59), max_size=30),
    window=st.none() | st.lists(st.integers(-70, 70), min_size=1, max_size=4),
    indices=st.none() | st.lists(st.integers(-60, 59), min_size=1, max_size=80),
    form=st.sampled_from(["python", "numpy", "arrow"]),
)
def test_rows_are_those_of_the_whole(parts, whole, rows, window, indices, form):
    dataset = ipc.RowDataset(parts, window=window, edges="clip", indices=indices, format=form)
    seen = whole if indices is None else [whole[i] for i in indices]
    rows = [row % len(seen) for row in rows]
    assert len(dataset) == len(seen)
    last = len(seen) - 1
    wanted = [[seen[min(max(row + delta, 0), last)] for delta in window or [0]] for row in rows]
    batch = dataset.__getitems__(rows)
    if form == "arrow":
        assert batch.to_pylist() == [row for each in wanted for row in each]
        assert [dataset[row].to_pylist() for row in rows] == wanted
        return
    names = SCHEMA.names
    expected = [
        {name: each[0][name] if window is None else [row[name] for row in each] for name in names} for each in wanted
    ]
    if form == "numpy":
        assert all(len(values) == len(rows) for values in batch.values())
        found = [{name: plain(values[k]) for name, values in batch.items()} for k in range(len(rows))]
        single = [{name: plain(value) for name, value in dataset[row].items()} for row in rows]
        assert found == expected == single
    else:
        assert batch == expected == [dataset[row] for row in rows]


def test_a_window_far_beyond_the_ends_is_clipped_or_refused(parts):
    deltas = [-(2**63), -60, 0, 60, 2**63 - 1]
    clipped = ipc.RowDataset(parts, columns="x", window=deltas, edges="clip")
    first, last = ipc.RowDataset(parts, columns="x")[0]["x"], ipc.RowDataset(parts, columns="x")[-1]["x"]
    for row in (0, len(clipped) - 1):
        assert clipped[row]["x"] == [first, first, [first, last][row > 0], last, last]
    for delta in (deltas[0], deltas[-1]):
        with pytest.raises(IndexError, match="crosses an end"):
            ipc.RowDataset(parts, window=[delta])[3]


@given(parts=randoms.batches(), as_file=st.booleans(), dice=st.randoms(use_true_random=False))
def test_columns_of_any_type_come_as_they_are(tmp_path_factory, parts, as_file, dice):
    path = tmp_path_factory.mktemp("any") / "a.arrow"
    path.write_bytes(pyarrow_bytes(parts, kind=("stream", "file")[as_file]))
    table = ipc.open(path).read_all()
    dataset = ipc.RowDataset(path, format="arrow")
    count = len(table)
    assert len(dataset) == count
    rows = [dice.randrange(-count, count) for _ in range(5 if count else 0)]
    if not table.batches:
        return
    taken = dataset[rows]
    assert ipc.Table.from_batches([taken]).equals(table.take(rows), nan_equal=True)
    if len(set(table.column_names)) == len(table.column_names):
        listed = ipc.RowDataset(path)
        assert repr(listed[rows]) == repr(taken.to_pylist()) == repr([listed[row] for row in rows])
        arrays = ipc.RowDataset(path, format="numpy")[rows]
        assert all(len(values) == len(rows) for values in arrays.values())


def test_whatever_numbers_rows_and_slices_do_too(parts, whole):
    dataset = ipc.RowDataset(parts)
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
    windows = ipc.RowDataset(parts, format="numpy", window=[0, 1])[[3, 30, 58]]
    assert windows["tokens"].shape == (3, 2, 3)
    assert windows["ragged"].shape == (3, 2)


@pytest.mark.parametrize("form", ["python", "numpy", "arrow"])
def test_a_transform_takes_the_place_of_what_it_is_given(parts, form):
    dataset = ipc.RowDataset(parts, columns="id", format=form, transform=type)
    kind = ipc.RecordBatch if form == "arrow" else dict
    assert dataset[3] is kind
    assert dataset[[3, 4]] == ([dict, dict] if form == "python" else kind)


def test_extension_types_are_values_when_asked_for(tmp_path):
    import uuid

    schema = ipc.Schema([field("id", ipc.types.FixedSizeBinary(16), metadata={"ARROW:extension:name": "arrow.uuid"})])
    with ipc.new_file(tmp_path / "a.arrow", schema) as writer:
        writer.write({"id": [bytes(16)] * 2})
    dataset = ipc.RowDataset(tmp_path / "a.arrow", extensions=True)
    nil = {"id": uuid.UUID(int=0)}
    assert (dataset[1], dataset[[0, 1]]) == (nil, [nil, nil])
    windows = ipc.RowDataset(tmp_path / "a.arrow", extensions=True, window=[0])
    assert windows[1] == {"id": [uuid.UUID(int=0)]}


def test_a_pickle_holds_paths_and_options_alone(parts, whole, monkeypatch):
    monkeypatch.chdir(parts[0].parent)
    dataset = ipc.RowDataset([part.name for part in parts], columns=["text", "id"], window=[0, -1], edges="clip")
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


@pytest.mark.parametrize("begin", [ipc.new_file, ipc.new_stream])
def test_indices_may_lie_in_a_file_of_their_own(tmp_path, parts, whole, begin):
    order = np.random.default_rng(2).permutation(60).astype(np.uint64)
    with begin(tmp_path / "order.arrow", ipc.Schema([field("indices", ipc.types.Int(64, False))])) as writer:
        for start in range(0, 60, 25):
            writer.write({"indices": order[start : start + 25]})
    dataset = ipc.RowDataset(parts, indices=tmp_path / "order.arrow")
    assert list(dataset) == [whole[i] for i in order] == dataset[:]
    assert pickle.loads(pickle.dumps(dataset))[-1] == whole[order[-1]]


def indices_that_lie(path: Path, values: list[int], kind: Any) -> Path:
    with ipc.new_file(path, ipc.Schema([field("indices", kind)]), durable=False) as writer:
        writer.write({"indices": values})
    return path


@pytest.mark.parametrize(
    ("values", "kind"),
    [([0, 60], int64()), ([0, -1], int64()), ([0, 2**64 - 1], ipc.types.Int(64, False))],
    ids=["beyond", "negative", "huge"],
)
def test_indices_of_a_file_are_checked(tmp_path, parts, values, kind):
    dataset = ipc.RowDataset(parts, indices=indices_that_lie(tmp_path / "order.arrow", values, kind))
    assert dataset[0]["id"] == 0
    for ask in (lambda: dataset[1], lambda: dataset[[0, 1]]):
        with pytest.raises(ipc.FormatError, match=r"row 1 is row .*, and the source has 60"):
            ask()


def test_indices_that_are_none_are_refused(tmp_path, parts):
    for values, kind in (([None, 1], int64()), (["a", "b"], utf8())):
        dataset = ipc.RowDataset(parts, indices=indices_that_lie(tmp_path / "order.arrow", values, kind))
        with pytest.raises(ipc.ArrowIpcError, match="indices"):
            dataset[0]


@pytest.mark.parametrize(
    ("options", "rows", "error", "words"),
    [
        ({}, 60, IndexError, "60"),
        ({}, [0, -61], IndexError, "60"),
        ({"window": [0, 1]}, 59, IndexError, r"row 59 crosses an end.*60 rows.*clip"),
        ({"window": [0, 1]}, [3, 60], IndexError, "row 60 is out of range"),
        ({"indices": [3]}, 1, IndexError, "row 1 is out of range: the data set has 1"),
        ({}, "id", ipc.UsageError, "integers"),
        ({"window": [0]}, 1.5, ipc.UsageError, "whole numbers"),
    ],
)
def test_rows_that_are_not_there(parts, options, rows, error, words):
    dataset = ipc.RowDataset(parts, **options)
    with pytest.raises(error, match=words):
        dataset[rows]


def test_iterating_over_windows_does_not_end_at_the_edge_without_a_word(parts):
    with pytest.raises(IndexError, match="clip"):
        list(ipc.RowDataset(parts, window=[1]))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"format": "torch"}, ipc.UsageError, "found str 'torch'"),
        ({"edges": "wrap"}, ipc.UsageError, "found str 'wrap'"),
        ({"window": []}, ipc.UsageError, "at least one delta"),
        ({"window": [0.5]}, ipc.UsageError, "window: expected whole numbers"),
        ({"indices": [60]}, IndexError, "row 60 is out of range: indices: the source has 60"),
        ({"indices": ["a"]}, ipc.UsageError, "whole numbers"),
        ({"indices": np.array([2**64 - 1], np.uint64)}, IndexError, "out of range"),
        ({"split": "train"}, ipc.UsageError, "save_to_disk"),
        ({"columns": ["id", "id"]}, ipc.UsageError, "share a name"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_options_that_make_no_sense(parts, options, error, words):
    with pytest.raises(error, match=words):
        ipc.RowDataset(parts, **options)


def test_no_rows_are_a_data_set_too(tmp_path):
    dataset = ipc.RowDataset(write(tmp_path / "a.arrow", [0]), format="numpy")
    assert len(dataset) == 0
    assert dataset[[]]["tokens"].shape == (0,)
    with pytest.raises(IndexError):
        dataset[0]


# -- Hugging Face folders, as they should not be -------------------------------------------------------------


def saved(folder: Path, state: Any = None, **files: Any) -> Path:
    """A folder as `save_to_disk` lays it down; the real one writes those of test_hugging_face.py."""
    folder.mkdir(exist_ok=True)
    if not (folder / "data.arrow").exists():
        write(folder / "data.arrow", [10])
    state = {"_data_files": [{"filename": "data.arrow"}]} if state is None else state
    (folder / "state.json").write_bytes(state if isinstance(state, bytes) else json.dumps(state).encode())
    return folder


def data_files(*names: Any) -> dict[str, Any]:
    return {"_data_files": [{"filename": name} for name in names]}


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        (data_files("../outside.arrow"), ipc.FormatError, "a file beside it, found '../outside.arrow'"),
        (data_files("/etc/passwd"), ipc.FormatError, "beside it"),
        (data_files("https://example.org/x"), ipc.FormatError, "beside it"),
        (data_files(".."), ipc.FormatError, "beside it"),
        (data_files("a\0b"), ipc.FormatError, "beside it"),
        (data_files(5), ipc.FormatError, "beside it, found 5"),
        (data_files("data.arrow", "data.arrow"), ipc.FormatError, "lists a file twice"),
        (data_files("gone.arrow"), FileNotFoundError, "state.json lists it, and it is not there.*gone.arrow"),
        ({"_data_files": "data.arrow"}, ipc.FormatError, "'_data_files', found 'data.arrow'"),
        ({"_data_files": ["data.arrow"]}, ipc.FormatError, "'_data_files'"),
        ({}, ipc.FormatError, "'_data_files', found None"),
        ([], ipc.FormatError, r"expected an object, found \[\]"),
        (b"{", ipc.FormatError, "is not JSON"),
        (b"\xff", ipc.FormatError, "is not JSON"),
        (b"[" * 100_000, ipc.FormatError, "is not JSON"),
        (b" " * (17 << 20), ipc.LimitError, "16 MiB"),
        ({**data_files("data.arrow"), "_indices_data_files": [{"filename": "../x"}]}, ipc.FormatError, "beside it"),
    ],
    ids=range(17),
)
def test_a_folder_whose_list_lies(tmp_path, state, error, words):
    write(tmp_path / "outside.arrow", [10])
    with pytest.raises(error, match=words):
        ipc.RowDataset(saved(tmp_path / "saved", state))


def test_a_folder_with_indices_that_lead_out_of_it(tmp_path):
    state = {**data_files("data.arrow"), "_indices_data_files": [{"filename": "indices.arrow"}]}
    folder = saved(tmp_path / "saved", state)
    indices_that_lie(folder / "indices.arrow", [9, 10], int64())
    dataset = ipc.RowDataset(folder)
    assert (len(dataset), dataset[0]["id"]) == (2, 9)
    with pytest.raises(ipc.FormatError, match="row 1 is row 10, and the source has 10"):
        dataset[1]
    with pytest.raises(ipc.UsageError, match="some of its own"):
        ipc.RowDataset(folder, indices=[0])


def test_a_folder_of_splits_wants_one_of_them(tmp_path):
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    saved(tmp_path / "train")
    assert len(ipc.RowDataset(tmp_path, split="train")) == 10
    with pytest.raises(ipc.UsageError, match="holds the splits 'train', 'test': say which one is meant with split="):
        ipc.RowDataset(tmp_path)
    with pytest.raises(ipc.UsageError, match="'dev' is none of them"):
        ipc.RowDataset(tmp_path, split="dev")
    with pytest.raises(FileNotFoundError, match=r"dataset_dict\.json lists it"):
        ipc.RowDataset(tmp_path, split="test")
    with pytest.raises(ipc.UsageError, match=r"no dataset_dict\.json"):
        ipc.RowDataset(tmp_path / "train", split="train")
    (tmp_path / "dataset_dict.json").write_text('{"splits": [".."]}')
    with pytest.raises(ipc.FormatError, match="beside it"):
        ipc.RowDataset(tmp_path, split="..")


def test_a_cache_is_no_data_set(tmp_path):
    (tmp_path / "dataset_info.json").write_text("{}")
    write(tmp_path / "imdb-train.arrow", [3])
    with pytest.raises(ipc.UsageError, match=r"NAME-train\*.arrow"):
        ipc.RowDataset(tmp_path)
    assert len(ipc.RowDataset(tmp_path / "imdb-train*.arrow")) == 3


def test_shards_of_other_schemas_are_refused_with_their_name(tmp_path):
    folder = saved(tmp_path / "saved", data_files("data.arrow", "other.arrow"))
    with ipc.new_file(folder / "other.arrow") as writer:
        writer.write({"id": ["text"]})
    with pytest.raises(ipc.ArrowIpcError, match=r"other.arrow"):
        ipc.RowDataset(folder)[10]
