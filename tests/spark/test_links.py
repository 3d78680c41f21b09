"""Symbolic links in directories: reading, overwriting and streaming see the same files behind them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from helpers.arrow_columns import file
from pyspark.sql import types as st

from arrowipc.errors import UsageError
from arrowipc.spark import register
from arrowipc.spark.options import ReadOptions
from arrowipc.spark.write.commit import ArrowIpcWriter
from arrowipc.spark.write.storage import open_storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs symbolic links"),
]

NOBODY = 65534
IDS = st.StructType([st.StructField("id", st.LongType())])


def put(path: Path, *values: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file(pa.record_batch({"id": pa.array(values, pa.int64())})))
    return path


def found(root: Path | str, **options: str) -> list[str]:
    """Names of the files that a read finds, with every way in asked."""
    base = str(root).split("*")[0]
    options = {name.lower(): value for name, value in options.items()}
    names = [os.path.relpath(each.path, base) for each in ReadOptions.of({"path": str(root), **options}).files()]
    if "*" not in str(root):
        listed = sorted(entry.name for entry in open_storage(str(root), options).files())
        assert listed == sorted(names) or "pathglobfilter" in options
        assert names == [
            os.path.relpath(each.path, base) for each in ReadOptions.of({"path": f"file://{root}"} | options).files()
        ]
        url = {"path": f"local://{root}"} | options
        assert names == [os.path.relpath(each.path, base) for each in ReadOptions.of(url).files()]
    return names


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory with links to a file, to directories outside and inside, and in a circle."""
    root = tmp_path / "root"
    put(root / "a.arrow", 1)
    put(root / "z" / "b.arrow", 2)
    put(tmp_path / "outside" / "c.arrow", 3)
    put(tmp_path / "outside" / "deep" / "d.arrow", 4)
    put(tmp_path / "outside" / "_hidden.arrow", 5)
    put(tmp_path / "single.arrow", 6)
    (root / "file.arrow").symlink_to(tmp_path / "single.arrow")
    (root / "m").symlink_to(tmp_path / "outside")
    (root / "n").symlink_to(tmp_path / "outside")
    (root / "inner").symlink_to("z")
    (root / "self").symlink_to(".")
    (root / "self2").symlink_to(".")
    (tmp_path / "outside" / "back").symlink_to(root)
    return root


SEEN = ["a.arrow", "file.arrow", "m/c.arrow", "m/deep/d.arrow", "z/b.arrow"]


def test_links_are_followed_and_every_directory_is_visited_once(tree: Path, tmp_path: Path) -> None:
    assert found(tree) == SEEN
    assert found(tree, pathGlobFilter="*[bd].arrow") == ["m/deep/d.arrow", "z/b.arrow"]
    (tmp_path / "link").symlink_to(tree)
    assert found(tmp_path / "link") == SEEN
    # A link that comes later takes no file away from the name under which it was known.
    (tree / "aaa").symlink_to("z")
    assert found(tree) == SEEN


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("**/*.arrow", SEEN),
        ("**", SEEN),
        ("**/deep", ["m/deep/d.arrow"]),
        ("**/deep/**", ["m/deep/d.arrow"]),
        ("**/z/*.arrow", ["z/b.arrow"]),
        ("*", SEEN),
        ("*/*.arrow", ["m/c.arrow", "self/a.arrow", "self/file.arrow", "z/b.arrow"]),
        ("m/*.arrow", ["m/c.arrow"]),
        ("{m,z}/*.arrow", ["m/c.arrow", "z/b.arrow"]),
        ("**/none/*", []),
    ],
)
def test_patterns_follow_links_and_come_to_an_end(tree: Path, pattern: str, names: list[str]) -> None:
    options = {"path": f"{tree}/{pattern}"}
    if names:
        assert sorted(os.path.relpath(each.path, tree) for each in ReadOptions.of(options).files()) == names
    else:
        with pytest.raises(UsageError, match="no such file"):
            ReadOptions.of(options).files()


BROKEN: list[tuple[str, Callable[[Path], Any]]] = [
    ("dangling.arrow", lambda path: path.symlink_to("nothing")),
    ("loop.arrow", lambda path: path.symlink_to(path.name)),
    ("folder", lambda path: path.symlink_to("a.arrow/none")),
]


@pytest.mark.parametrize(("name", "make"), BROKEN, ids=[name for name, _ in BROKEN])
def test_links_that_lead_nowhere_are_named(tmp_path: Path, name: str, make: Any) -> None:
    root = tmp_path / "root"
    put(root / "a.arrow", 1)
    make(root / name)
    words = f"{name}: a link to .*, whose target does not exist"
    for path in (root, f"{root}/*", f"{root}/**", root / name, tmp_path / "*"):
        with pytest.raises(UsageError, match=words):
            ReadOptions.of({"path": str(path)}).files()
    with pytest.raises(UsageError, match=words):
        ArrowIpcWriter(IDS, {"path": str(root)}, True)
    with pytest.raises(UsageError, match=words):
        ArrowIpcWriter(IDS, {"path": str(root / name)}, False)
    streaming = pytest.importorskip("arrowipc.spark.streaming.source")
    stream = streaming.ArrowIpcStreamReader(IDS, {"path": str(root)})
    with pytest.raises(UsageError, match=words):
        stream.prepareForTriggerAvailableNow()
    # An append lists nothing, and what is missing may be passed over.
    ArrowIpcWriter(IDS, {"path": str(root)}, False).abort([])
    assert found(root, ignoreMissingFiles="true") == ["a.arrow"]
    streaming.ArrowIpcStreamReader(
        IDS, {"path": str(root), "ignoremissingfiles": "true"}
    ).prepareForTriggerAvailableNow()
    (root / name).rename(root / f"_{name}")
    assert found(root) == ["a.arrow"]


def test_a_directory_that_cannot_be_read_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder, "a.arrow"), 1)
        put(Path(folder, "locked", "b.arrow"), 2)
        os.chmod(folder, 0o755)
        os.chmod(Path(folder, "locked"), 0)
        user = os.geteuid()
        if user == 0:
            os.seteuid(NOBODY)  # the superuser may read everything
        try:
            with pytest.raises(PermissionError, match="locked"):
                ReadOptions.of({"path": folder}).files()
            with pytest.raises(PermissionError, match="locked"):
                open_storage(folder, {}).files()
        finally:
            if user == 0:
                os.seteuid(user)
            os.chmod(Path(folder, "locked"), 0o700)


def test_what_is_no_file_is_no_data(tmp_path: Path) -> None:
    put(tmp_path / "a.arrow", 1)
    os.mkfifo(tmp_path / "pipe.arrow")
    assert found(tmp_path) == ["a.arrow"]


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


def test_spark_overwrites_what_it_reads_and_nothing_behind_links(
    spark: SparkSession, tree: Path, tmp_path: Path
) -> None:
    register(spark)
    read = spark.read.format("arrowipc")
    assert ids(read.load(str(tree))) == [1, 2, 3, 4, 6]
    spark.range(100, 107).write.format("arrowipc").mode("append").save(str(tree))
    assert ids(read.load(str(tree))) == [1, 2, 3, 4, 6, *range(100, 107)]
    spark.range(10, 17).write.format("arrowipc").mode("overwrite").save(str(tree))
    assert ids(read.load(str(tree))) == list(range(10, 17))
    assert not [path for path in tree.rglob("*") if path.is_symlink()]
    outside = tmp_path / "outside"
    assert ids(read.load(f"{outside}/*.arrow")) == [3]
    assert ids(read.load(str(outside / "deep"))) == [4]
    assert ids(read.load(str(tmp_path / "single.arrow"))) == [6]
    assert os.readlink(outside / "back") == str(tree)


def test_what_is_not_ours_behind_a_link_stops_an_overwrite(tmp_path: Path) -> None:
    put(tmp_path / "root" / "a.arrow", 1)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "diary.txt").write_text("mine")
    (tmp_path / "root" / "m").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=r"m/diary.txt: overwrite removes Arrow files"):
        ArrowIpcWriter(IDS, {"path": str(tmp_path / "root")}, True)


def test_a_stream_in_complete_mode_replaces_links_too(spark: SparkSession, tree: Path, tmp_path: Path) -> None:
    register(spark)
    put(tmp_path / "in" / "x.arrow", 7, 7, 8)
    counts = spark.readStream.format("arrowipc").schema("id long").load(str(tmp_path / "in")).groupBy("id").count()
    query = (
        counts.writeStream.format("arrowipc")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tree))
    )
    query.awaitTermination()
    assert ids(spark.read.format("arrowipc").load(str(tree))) == [7, 8]
    assert (tmp_path / "outside" / "c.arrow").exists()
