"""Maps of files: the memory of batches that nothing refers to any more is let go of, and values stay what they are."""

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.memory import forget_peak, peak, resident

import arrowipc as ipc
from arrowipc.maps.file_maps import keep_resident

LINUX = pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell what is in memory")
#: Rows of a batch, which has 2 MB.
ROWS = 100_000


@pytest.fixture
def crowded() -> Iterator[None]:
    """Files have too much memory at any time."""
    before = keep_resident(0)
    yield
    keep_resident(before)


def batch_of(number: int, rows: int = ROWS) -> dict[str, Any]:
    values = np.arange(rows) + number * rows
    return {"x": values, "y": values / 7, "t": pa.array([f"{value % 97}" for value in range(rows)])}


def written(path: Path, count: int, kind: str, rows: int = ROWS) -> Path:
    with (ipc.new_file if kind == "file" else ipc.new_stream)(path, durable=False) as writer:
        for number in range(count):
            writer.write_batch(ipc.RecordBatch.from_pydict(batch_of(number, rows)))
    return path


def in_memory(path: Path) -> int:
    """Bytes of the maps of a file that are resident in this process."""
    found = re.findall(
        rf"{re.escape(str(path))}\nSize:.*\n(?:.*\n){{2}}Rss: +(\d+) kB", Path("/proc/self/smaps").read_text()
    )
    assert found
    return sum(map(int, found)) << 10


def read(batch: ipc.RecordBatch) -> float:
    """Bring all pages of a batch into memory."""
    return float(batch["x"].to_numpy().sum() + batch["y"].to_numpy().sum())


@LINUX
@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_a_batch_takes_its_pages_along_when_nothing_refers_to_it(tmp_path, kind):
    path = written(tmp_path / "x", 8, kind)
    reader = ipc.open(path)
    kept = None
    for number, batch in enumerate(reader):
        assert read(batch) > 0
        if number == 3:
            kept = batch["x"].slice(5).to_numpy()
        del batch
        assert in_memory(path) < (7 << 20 if number > 2 else 5 << 20), number
    assert kept is not None
    assert kept[0] == 3 * ROWS + 5


@LINUX
def test_nothing_is_let_go_of_while_files_have_little_memory(tmp_path):
    path = written(tmp_path / "x", 3, "file")
    before = keep_resident(1 << 40)
    with ipc.open_file(path) as reader:
        assert sum(map(read, reader)) > 0
        assert in_memory(path) > 4 << 20
    keep_resident(before)


@LINUX
@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("how", ["dataset", "rows", "slices", "single rows"])
def test_data_sets_and_rows_in_order_let_go_of_what_is_behind(tmp_path, how):
    rows = 1_000 if how == "single rows" else ROWS
    path = written(tmp_path / "x", 8, "file", rows)
    dataset = ipc.open_dataset(path, workers=0)
    found = 0
    if how == "dataset":
        found = sum(len(batch) for batch in dataset if read(batch))
    elif how == "rows":
        arrays = ipc.RowDataset(dataset, format="numpy")
        found = sum(len(arrays[start : start + 5_000]["x"]) for start in range(0, len(arrays), 5_000))
    elif how == "slices":
        starts = range(0, 8 * rows, 30_000)
        found = sum(len(batch) for start in starts for batch in dataset.slice(start, 30_000).batches if read(batch))
    else:
        found = sum(row["x"] == i for i, row in enumerate(ipc.RowDataset(dataset)))
    assert found == 8 * rows
    assert in_memory(path) < 5 << 20


@pytest.mark.usefixtures("crowded")
@pytest.mark.parametrize("rows", [200, 5_000])
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_values_stay_right_whatever_is_let_go_of(tmp_path, kind, rows):
    chance, count = random.Random(rows), 40
    reader: Any = ipc.open(written(tmp_path / "x", count, kind, rows), index=True)
    kept: list[tuple[Any, Any]] = []
    for _ in range(200 if rows < 1000 else 60):
        number, start = chance.randrange(count), chance.randrange(rows)
        batch, wanted = reader.get_batch(number), batch_of(number, rows)
        numbers, words = wanted["x"][start:].tolist(), wanted["t"][start:].to_pylist()
        assert read(batch) > 0
        match chance.randrange(6):
            case 0:
                kept.append((batch["x"].slice(start).to_numpy().tolist, numbers))
            case 1:
                kept.append((pa.array(batch["t"]).slice(start).to_pylist, words))
            case 2:
                kept.append((batch.slice(start)["t"].to_pylist, words))
            case 3:
                kept.append((memoryview(batch["x"])[start:].tolist, numbers))
            case 4:
                kept.append((pa.record_batch(batch).column("x").slice(start).to_pylist, numbers))
            case _ if kept:
                take, expected = kept.pop(chance.randrange(len(kept)))
                assert take() == expected
    del reader, batch
    for take, expected in kept:
        assert take() == expected


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("how", ["open", "dataset", "rows"])
def test_a_scan_of_a_large_file_stays_below_its_bound(tmp_path, how):
    path = written(tmp_path / "x", 180, "file")  # 400 MB
    forget_peak()
    before = resident()
    if how == "rows":
        arrays = ipc.RowDataset(path, format="numpy")
        found = sum(float(arrays[start : start + 5_000]["x"].sum()) for start in range(0, len(arrays), 5_000))
    else:
        source: Any = ipc.open(path) if how == "open" else ipc.open_dataset(path)
        found = sum(float(batch["x"].to_numpy().sum()) for batch in source if read(batch))
    assert found == (180 * ROWS) * (180 * ROWS - 1) / 2
    path.unlink()
    assert peak() - before < 256 << 20
