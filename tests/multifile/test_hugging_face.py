"""Files that Hugging Face's `datasets` writes give the rows that it gives itself."""

import json
from typing import Any

import pytest

import arrowipc as ipc

datasets = pytest.importorskip("datasets")

pytestmark = pytest.mark.nosanitize  # dozens of libraries with allocators of their own

ROWS = 50


@pytest.fixture(scope="module")
def made() -> Any:
    return datasets.Dataset.from_dict(
        {
            "id": list(range(ROWS)),
            "text": [f"text {i}" for i in range(ROWS)],
            "embedding": [[i / 2, i / 4] for i in range(ROWS)],
            "image": [{"bytes": bytes([i]), "path": None} for i in range(ROWS)],
        },
        features=datasets.Features(
            {
                "id": datasets.Value("int64"),
                "text": datasets.Value("large_string"),
                "embedding": datasets.List(datasets.Value("float32"), length=2),
                "image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")},
            }
        ),
    )


def same(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    assert ours[:] == theirs.to_list() == [ours[i] for i in range(len(ours))]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_saved_data_set(tmp_path, made, shards):
    made.save_to_disk(tmp_path / "saved", num_shards=shards)
    ours = ipc.RowDataset(tmp_path / "saved" / "data-*.arrow")
    same(ours, datasets.load_from_disk(tmp_path / "saved"))
    assert json.loads(ours.schema.metadata["huggingface"])["info"]["features"].keys() == made.features.keys()


def test_a_saved_dict_of_splits(tmp_path, made):
    made.train_test_split(test_size=10, seed=1).save_to_disk(tmp_path / "saved")
    for split, theirs in datasets.load_from_disk(tmp_path / "saved").items():
        same(ipc.RowDataset(tmp_path / "saved" / split / "data-*.arrow"), theirs)


def test_a_file_of_a_cache(tmp_path, made):
    cached = made.map(lambda row: {"twice": row["id"] * 2}, cache_file_name=str(tmp_path / "cache-1.arrow"))
    same(ipc.RowDataset(tmp_path / "cache-1.arrow"), cached)


def test_folders_of_save_to_disk_are_read_as_they_are(made, tmp_path):
    made.save_to_disk(tmp_path / "one", num_shards=3)
    datasets.DatasetDict({"train": made, "test": made}).save_to_disk(tmp_path / "two")
    for folder, times in (("one", 1), ("two/train", 1), ("two", 2)):
        assert ipc.open_dataset(tmp_path / folder).count_rows() == ROWS * times
        assert len(ipc.RowDataset(tmp_path / folder)) == ROWS * times
    for path in (tmp_path / "one").glob("*.arrow"):
        path.rename(path.with_suffix(""))
    for opener in (ipc.open_dataset, ipc.RowDataset):
        with pytest.raises(ipc.FormatError, match=r'dataset_info\.json.*folder/data-\*.*on_error="skip"'):
            opener(tmp_path / "one")
    assert ipc.open_dataset(tmp_path / "one" / "data-*").count_rows() == ROWS
    assert ipc.open_dataset(tmp_path / "one", on_error="skip").count_rows() == ROWS
