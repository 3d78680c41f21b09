"""`convert --engine spark`: the same conversion for directories that one machine cannot hold."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from arrowipc.cli.foreign import FORMATS, format_of
from arrowipc.cli.sources import require
from arrowipc.cli.terminal import Progress, say_json, say_note
from arrowipc.errors import UsageError, showable

__all__ = ["convert_on_spark"]

#: Our names of formats -> Spark's.
SPARK = {
    "file": "arrowipc",
    "stream": "arrowipc",
    "arrow": "arrowipc",
    "parquet": "parquet",
    "csv": "csv",
    "ndjson": "json",
}
LOCAL_ONLY: dict[str, object] = {
    "no_dictionary": False,
    "unify": False,
    "v4": False,
    "alignment": "8",
    "level": None,
    "dictionary": None,
}


def convert_on_spark(source: str, target: str, columns: list[str] | None, options: dict[str, Any]) -> None:
    """Convert all files of a directory or pattern into a directory of files; the options are those of `convert`."""
    if "-" in (source, target):
        raise UsageError("--engine spark reads and writes directories: give both by name")
    for name, plain in LOCAL_ONLY.items():
        if (options[name] or None) != (plain or None):
            raise UsageError(f"--{name.replace('_', '-')} means nothing with --engine spark")
    kind = options["kind"] or "file"
    if kind not in SPARK:
        raise UsageError(f"--engine spark writes {', '.join(['file', 'stream', *FORMATS[1:]])}, not {kind}")
    failed = require("pyspark.errors", "--engine spark", "'arrowipc[spark]'").PySparkException
    try:
        rows, files = _run(source, target, columns, kind, options)
    except failed as error:
        raise click.ClickException(f"Spark: {str(error).splitlines()[0]}") from None
    if options["as_json"]:
        say_json({"rows": rows, "files": files, "written": showable(target), "format": kind})
    else:
        say_note(f"{target}: {rows:,} rows")


def _run(
    source: str, target: str, columns: list[str] | None, kind: str, options: dict[str, Any]
) -> tuple[int, int | None]:
    from arrowipc.spark.local_session import start_session

    origin = options["origin"] or format_of(source) or "arrow"
    with (
        TemporaryDirectory() as logs,
        Progress("converting on Spark"),
        start_session(options["master"] or "local[*]", Path(logs, "spark.log")) as spark,
    ):
        from arrowipc.spark.sessions import register

        register(spark)
        reader = spark.read.format(SPARK[origin])
        if origin == "csv":
            reader = reader.option("header", "true").option("inferSchema", "true")
        frame = reader.load(source)
        if columns is not None:
            frame = frame.select(*[f"`{name.replace('`', '``')}`" for name in columns])
        writer = frame.write.format(SPARK[kind]).mode("overwrite" if options["force"] else "errorifexists")
        for name, value in _write_options(kind, options).items():
            writer = writer.option(name, value)
        writer.save(target)
        written = spark.read.format(SPARK[kind]).load(target)
        rows = written.count()
    here = Path(target)
    return rows, len([each for each in here.iterdir() if each.name[0] not in "._"]) if here.is_dir() else None


def _write_options(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    codec = options["compression"]
    if SPARK[kind] == "arrowipc":
        chosen["format"] = kind
        if options["batch_rows"] is not None:
            chosen["batchRows"] = options["batch_rows"]
        if options["statistics"]:
            chosen["statistics"] = "true"
    if kind == "csv":
        chosen["header"] = "true"
    elif codec not in ("keep", "none"):
        chosen["compression"] = codec
    return chosen
