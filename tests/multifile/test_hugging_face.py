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
    made.save_to_disk(tmp_path, num_shards=shards)
    for path in (tmp_path, tmp_path / "data-*.arrow"):
        ours = ipc.RowDataset(path)
        same(ours, datasets.load_from_disk(tmp_path))
        assert json.loads(ours.schema.metadata["huggingface"])["info"]["features"].keys() == made.features.keys()
    assert ipc.open_dataset(tmp_path).count_rows() == ROWS


def test_a_saved_dict_of_splits(tmp_path, made):
    made.train_test_split(test_size=10, seed=1).save_to_disk(tmp_path)
    for split, theirs in datasets.load_from_disk(tmp_path).items():
        same(ipc.RowDataset(tmp_path / split), theirs)
    assert ipc.open_dataset(tmp_path).count_rows() == len(ipc.RowDataset(tmp_path)) == ROWS


def test_a_file_of_a_cache(tmp_path, made):
    cached = made.map(lambda row: {"twice": row["id"] * 2}, cache_file_name=str(tmp_path / "cache-1.arrow"))
    same(ipc.RowDataset(tmp_path / "cache-1.arrow"), cached)


def test_a_saved_data_set_whose_files_have_no_ending_says_what_helps(made, tmp_path):
    made.save_to_disk(tmp_path, num_shards=3)
    for path in tmp_path.glob("*.arrow"):
        path.rename(path.with_suffix(""))
    for opener in (ipc.open_dataset, ipc.RowDataset):
        with pytest.raises(ipc.FormatError, match=r'dataset_info\.json.*folder/data-\*.*on_error="skip"'):
            opener(tmp_path)
    assert ipc.open_dataset(tmp_path / "data-*").count_rows() == ROWS
    assert ipc.open_dataset(tmp_path, on_error="skip").count_rows() == ROWS
