"""Folders and caches that Hugging Face's `datasets` writes give the rows that it gives itself."""

from __future__ import annotations

import json
from pathlib import Path
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
    ours = ipc.RowDataset(tmp_path / "saved")
    same(ours, datasets.load_from_disk(tmp_path / "saved"))
    assert json.loads(ours.schema.metadata["huggingface"])["info"]["features"].keys() == made.features.keys()


def test_a_saved_dict_of_splits(tmp_path, made):
    made.train_test_split(test_size=10, seed=1).save_to_disk(tmp_path / "saved")
    with pytest.raises(ipc.UsageError, match="'train', 'test'"):
        ipc.RowDataset(tmp_path / "saved")
    for split, theirs in datasets.load_from_disk(tmp_path / "saved").items():
        same(ipc.RowDataset(tmp_path / "saved", split=split), theirs)


def test_the_files_of_a_cache_with_an_index(tmp_path, made):
    cached = made.map(lambda row: {"twice": row["id"] * 2}, cache_file_name=str(tmp_path / "cache-1.arrow"))
    mixed = cached.shuffle(seed=5, indices_cache_file_name=str(tmp_path / "cache-2.arrow"))
    same(ipc.RowDataset(tmp_path / "cache-1.arrow"), cached)
    same(ipc.RowDataset(tmp_path / "cache-1.arrow", indices=tmp_path / "cache-2.arrow"), mixed)


def test_a_folder_with_an_index_as_releases_before_2_0_saved_it(tmp_path, made):
    """They wrote the rows as they were, and beside them the index as a file of its own."""
    folder = tmp_path / "saved"
    made.save_to_disk(folder)
    mixed = made.map(cache_file_name=str(tmp_path / "rows.arrow")).shuffle(
        seed=7, indices_cache_file_name=str(folder / "indices.arrow")
    )
    state = json.loads(Path(folder, "state.json").read_text())
    Path(folder, "state.json").write_text(json.dumps({**state, "_indices_data_files": [{"filename": "indices.arrow"}]}))
    same(ipc.RowDataset(folder), mixed)
    Path(folder, "state.json").write_text(json.dumps({**state, "_indices_data_files": None}))
    same(ipc.RowDataset(folder), made)
