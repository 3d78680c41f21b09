"""The Python data source: under a name of its own in Spark, so that a jar in the session does not take its place, and
without Spark around it.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa

from helpers.arrow_columns import file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from arrowipc.spark import ArrowIpcDataSource

__all__ = ["FORMAT", "given", "names_below", "numbers", "put", "read_here", "register_python", "written"]

FORMAT = "arrowipc_python"


def register_python(spark: SparkSession) -> None:
    """Let ``format(FORMAT)`` be the Python data source of a session."""
    from arrowipc.spark import ArrowIpcDataSource

    # No module has this class, so it travels whole to the processes that plan.
    attributes = {"name": classmethod(lambda cls: "arrowipc_python")}
    spark.dataSource.register(type("PythonSource", (ArrowIpcDataSource,), attributes))


def given(path: Any, **options: Any) -> ArrowIpcDataSource:
    """The data source as Spark makes it: options are texts under lower-case names, several paths are JSON."""
    from arrowipc.spark import ArrowIpcDataSource

    texts = {
        name.lower(): str(value).lower() if value in (True, False) else str(value) for name, value in options.items()
    }
    where = {"paths": json.dumps([*map(str, path)])} if isinstance(path, list) else {"path": str(path)}
    return ArrowIpcDataSource({**where, **texts})


def read_here(path: Any, schema: StructType | None = None, **options: Any) -> pa.Table:
    """What the data source gives Spark, checked as Spark checks it, without Spark's processes."""
    from arrowipc.spark.types import arrow_schema_of

    source = given(path, **options)
    schema = schema or source.schema()
    reader = pickle.loads(pickle.dumps(source.reader(schema)))
    wanted = arrow_schema_of(schema)
    batches = []
    for partition in reader.partitions():
        for batch in reader.read(pickle.loads(pickle.dumps(partition))):
            assert batch.schema.equals(wanted)
            batches.append(batch)
    return pa.Table.from_batches(batches, wanted)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(values, pa.int64())})


def put(path: Path, *batches: pa.RecordBatch) -> Path:
    """Write a file of some batches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file(*batches))
    return path


def written(path: Any) -> list[int]:
    """The numbers in the files of a folder that count for a reader; none where there is no folder yet."""
    import arrowipc
    from arrowipc.errors import UsageError
    from arrowipc.read.files import find_files

    try:
        found = find_files([str(path)], may_be_empty=True)
    except UsageError:
        return []
    return sorted(number for each in found for number in arrowipc.open_file(each.path).read_all().to_pydict()["id"])


def names_below(path: Any) -> list[str]:
    """All that is below a folder, hidden or not."""
    system, root = fsspec.url_to_fs(str(path))
    return sorted(str(found)[len(root) + 1 :] for found in system.find(root, withdirs=True) if found != root)
