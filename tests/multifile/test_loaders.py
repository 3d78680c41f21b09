"""torch's DataLoader takes samples and batches of a RowDataset, in this process and in workers of both kinds."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import arrowipc as ipc
from arrowipc.types import field, float32, int64, list_, utf8

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, default_convert  # noqa: E402

#: torch starts threads and processes, and brings its own allocator.
pytestmark = pytest.mark.nosanitize

ROWS = 200
SCHEMA = ipc.Schema(
    [field("id", int64()), field("x", float32()), field("text", utf8()), field("tokens", list_(field("item", int64())))]
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of 20 batches."""
    path = tmp_path_factory.mktemp("loaders") / "rows.arrow"
    rows = [{"id": i, "x": i / 2, "text": str(i), "tokens": [i, i + 1, i + 2]} for i in range(ROWS)]
    with ipc.new_stream(path, SCHEMA) as writer:
        writer.write_table(ipc.Table.from_pylist(rows, SCHEMA), 10)
    return path


def check(loader: Any) -> None:
    """All rows came, each with what belongs to it."""
    seen: Counter[int] = Counter()
    for batch in loader:
        ids = batch["id"].tolist()
        seen.update(ids)
        assert batch["x"].tolist() == [i / 2 for i in ids]
        assert list(batch["text"]) == [str(i) for i in ids]
        tokens = batch["tokens"] if isinstance(batch["tokens"], torch.Tensor) else torch.stack(batch["tokens"], 1)
        assert tokens.tolist() == [[i, i + 1, i + 2] for i in ids]
    assert len(seen) == ROWS
    assert set(seen.values()) == {1}


def tensors(batch: ipc.RecordBatch) -> dict[str, Any]:
    """As the guide has it: what is a buffer becomes a tensor, over DLPack."""
    return {"id": torch.from_dlpack(batch["id"]), "x": torch.from_dlpack(batch["x"])}


@pytest.mark.parametrize(
    ("form", "options"), [("python", {}), ("numpy", {}), ("numpy", {"collate_fn": default_convert})]
)
def test_what_collates_samples_and_arrays(path, form, options):
    check(loader := DataLoader(ipc.RowDataset(path, format=form), batch_size=32, shuffle=True, **options))
    if form == "numpy":
        tokens = next(iter(loader))["tokens"]
        assert isinstance(tokens, torch.Tensor)
        assert tokens.shape == (32, 3)
        with pytest.raises(KeyError):
            ipc.RowDataset(path, format="numpy")[[1, 2]][1]


def test_batches_of_arrow_become_tensors_over_dlpack(path):
    dataset = ipc.RowDataset(path, format="arrow")
    loader = DataLoader(dataset, batch_size=32, shuffle=True, collate_fn=tensors)
    assert sorted(i for batch in loader for i in batch["id"].tolist()) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.parametrize(("context", "form"), [("fork", "python"), ("fork", "numpy"), ("spawn", "python")])
@pytest.mark.filterwarnings("default:This process .* is multi-threaded:DeprecationWarning")
def test_workers_read_all_rows(path, context, form):
    dataset = ipc.RowDataset(path, format=form)
    assert dataset[0] is not None  # the parent has read before it forks
    options = {"batch_size": 16, "shuffle": True, "num_workers": 2, "multiprocessing_context": context}
    if form == "python":
        check(DataLoader(dataset, **options))
    else:  # as tensors, and as arrays, which the guide recommends
        check(DataLoader(dataset, collate_fn=default_convert, **options))
        check(DataLoader(dataset, **options))
        check(map(default_convert, DataLoader(dataset, collate_fn=dict, **options)))


@pytest.mark.slow
@pytest.mark.filterwarnings("default:This process .* is multi-threaded:DeprecationWarning")
def test_what_goes_wrong_in_a_worker_is_told_to_the_parent(tmp_path, path):
    copied = tmp_path / "rows.arrow"
    copied.write_bytes(path.read_bytes())
    loader = DataLoader(ipc.RowDataset(copied), num_workers=1, multiprocessing_context="spawn")
    copied.unlink()
    with pytest.raises(FileNotFoundError, match=r"rows\.arrow"):
        next(iter(loader))
