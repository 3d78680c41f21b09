"""How much is computed for random rows of compressed files, beside formats that are made for that?

Two million rows of a number, a float, a text and a list of eight numbers; 1, 100 and 1,000 of them in the order of the
file, other ones each time. Arrow compresses a buffer as a whole: who wants a row decompresses its batch, which has
1,024 or 65,536 rows here. Lance and Vortex write and read files of their own, Vortex a mapped one; pyarrow reads the
batches that have the rows. A process of its own: a DataLoader cannot fork one in which those two have threads.
"""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from measuring import data
from measuring.race import Runs, question, size

import arrowipc

lance, vortex = pytest.importorskip("lance"), pytest.importorskip("vortex")
#: Rows of a batch.
SHORT_AND_LONG = (size(1_024, 64), size(65_536, 1_000))


@pytest.fixture(scope="module")
def compressed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A folder of the same rows as Arrow files, as Lance and as Vortex write them, and their number."""
    base, rows = tmp_path_factory.mktemp("compressed"), size(2_000_000, 3_000)
    table = data.training_rows(rows)
    for codec, batch in itertools.product(("lz4", "zstd"), SHORT_AND_LONG):
        with arrowipc.new_file(base / f"{codec}-{batch}.arrow", compression=codec) as writer:
            writer.write(table.to_batches(batch))
    lance.write_dataset(table, str(base / "lance"))
    vortex.io.write(vortex.array(table), str(base / "vortex"))
    yield base, rows
    shutil.rmtree(base)


@question(
    "random rows of {codec} files, beside {beside}, processor time",
    "lance, vortex, arrowipc, pyarrow",
    unit="row",
    baseline="{beside}",
    per="count",
    timed=True,
)
@pytest.mark.parametrize("count", [1, 100, 1_000])
@pytest.mark.parametrize("batch", SHORT_AND_LONG)
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("beside", ["lance", "vortex"])
def test_compressed_rows(compressed: tuple[Path, int], beside: str, codec: str, batch: int, count: int) -> Runs:
    """Rows in order, other ones each time; pyarrow reads the batches that hold them."""
    base, rows = compressed
    path = base / f"{codec}-{batch}.arrow"
    ours, file = arrowipc.open(path), pa.ipc.open_file(pa.memory_map(str(path)))
    theirs, mapped = lance.dataset(str(base / "lance")), vortex.open(str(base / "vortex"), memory_map=True)
    chance = np.random.default_rng(5)
    asked = [np.sort(chance.choice(rows, count, replace=False)) for _ in range(50)]
    readers: dict[str, Callable[[Any], int]] = {
        "lance": lambda at: theirs.take(at.tolist()).num_rows,
        "vortex": lambda at: len(mapped.scan(indices=vortex.array(pa.array(at, pa.uint64()))).read_all()),
        "arrowipc": lambda at: ours.take(at).num_rows,
        "pyarrow": lambda at: sum(
            file.get_batch(number).take(at[at // batch == number] % batch).num_rows for number in np.unique(at // batch)
        ),
    }
    turns = {name: itertools.cycle(asked) for name in readers}

    def run(name: str) -> float:
        at, start = next(turns[name]), time.process_time()
        found = readers[name](at)
        taken = time.process_time() - start
        assert found == count
        return taken

    return {name: partial(run, name) for name in readers if name in (beside, "arrowipc", "pyarrow")}
