"""`convert` and `cat`: write sources of several formats to one destination, with one batch in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.foreign import FORMATS, foreign_reader, format_of
from arrowipc.cli.outputs import (
    ARROW,
    ARROW_READERS,
    Batches,
    checked_output,
    compression_options,
    named_batches,
    output_options,
    stored_batches,
    write_batches,
)
from arrowipc.cli.sources import PLACE, Failure, about, opened, size_of
from arrowipc.cli.terminal import (
    Progress,
    column_option,
    columns_of,
    json_option,
    say_written,
)
from arrowipc.errors import UsageError


@click.command()
@click.argument("source", metavar="SOURCE", type=PLACE)
@click.argument("target", metavar="[TARGET]", required=False, type=PLACE)
@click.option("--from", "origin", type=click.Choice(FORMATS), help="Format of SOURCE; default: by content or name.")
@click.option("--batch-rows", type=click.IntRange(1), metavar="N", help="Rows per batch.")
@click.option("--dictionary", metavar="A,B", help="Columns to encode as dictionaries; * = all text columns.")
@click.option("--statistics", is_flag=True, help="Write minimum, maximum and null count of columns with each batch.")
@column_option
@compression_options
@json_option
@output_options()
def convert(
    source: str, target: str | None, output: str, kind: str | None, force: bool, columns: str | None, **options: Any
) -> None:
    """Convert SOURCE to TARGET.

    The formats are the Arrow IPC file, stream and legacy stream (the framing from before Arrow 0.15), and,
    where pyarrow is installed, Parquet, CSV and NDJSON. One batch is in memory at a time. TARGET appears when
    it is complete. It replaces an existing file only with --force.

    \b
    Examples:
      arrowipc convert taxi.arrows taxi.arrow --compression zstd
      arrowipc convert taxi.csv taxi.arrow --dictionary vendor,zone
      arrowipc convert taxi.arrow - --to ndjson -c vendor,fare | head

    JSON (on stderr where the output goes to standard output): {"rows", "batches", "written", "format"}.
    """
    if target is not None and output != "-":
        raise UsageError("give the output once, as TARGET or with -o")
    path = target if target is not None else output
    as_json = options.pop("as_json")
    kind = checked_output(path, kind, force, [source])
    with ExitStack() as stack:
        origin = options.pop("origin")
        reader = stack.enter_context(_reader(source, origin, columns_of(columns)))
        batches = named_batches(source, _prepared(stored_batches(reader, options), reader.schema, options))
        # Progress counts bytes of Arrow data, whose total is only known for Arrow sources.
        size = size_of(source) if isinstance(reader, ARROW_READERS) else None
        progress = stack.enter_context(Progress("converting", size, path))
        with about(path, True):
            rows, count = write_batches(path, kind, reader.schema, batches, progress, options)
    say_written(path, kind, rows, count, as_json)


@click.command()
@click.argument("sources", metavar="FILE...", nargs=-1, required=True, type=PLACE)
@click.option("--merge", is_flag=True, help="Match columns by name, and convert types to one that holds both.")
@column_option
@compression_options
@json_option
@output_options()
def cat(
    sources: tuple[str, ...],
    merge: bool,
    kind: str | None,
    output: str,
    force: bool,
    columns: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Concatenate the batches of several sources.

    Their schemas must be equal, unless you give --merge. Dictionaries that differ are merged in a file; in a stream
    they are replaced, or grow by deltas, as they do in the sources.

    With --merge, a FILE may also be a folder or a pattern. A column that a file lacks is null there, and folders named
    KEY=VALUE become columns.

    \b
    Examples:
      arrowipc cat monday.arrow tuesday.arrow | arrowipc head -
      arrowipc cat --merge by-vendor -o taxi.arrow

    JSON (on stderr where the output goes to standard output): {"rows", "batches", "written", "format"}.
    """
    chosen = columns_of(columns)
    files = sources
    if merge:
        if "-" in sources:
            raise UsageError("--merge reads files by name, and - is standard input")
        with about(sources[0] if len(sources) == 1 else "cat --merge"):
            dataset = ipc.open_dataset(list(sources) if len(sources) > 1 else sources[0])
        files = tuple(dataset.files)
    elif sources.count("-") > 1:
        raise UsageError("standard input can be read only once, and - is given twice")
    kind = checked_output(output, kind, force, files)
    sizes = [size_of(path) for path in files]
    size = None if None in sizes else sum(filter(None, sizes))
    with ExitStack() as stack:
        progress = stack.enter_context(Progress("writing", size, output))
        if merge:
            dataset = dataset if chosen is None else dataset.select(chosen)
            schema = dataset.schema
            batches: Batches = ((None, batch) for batch in dataset)
        else:
            first = stack.enter_context(opened(sources[0], columns=chosen))
            schema, batches = first.schema, _chained(sources, first, chosen, options)
        with about(output, True):
            rows, count = write_batches(output, kind, schema, batches, progress, options)
    say_written(output, kind, rows, count, as_json)


# -- reading -------------------------------------------------------------------------------------------------


def _reader(path: str, origin: str | None, columns: list[str] | None) -> Any:
    """Open a source of any format: an object with a schema, and iterable for batches."""
    kind = origin or format_of(path)
    if kind in (None, *ARROW, "arrow"):
        return opened(path, columns=columns)
    assert kind is not None
    return foreign_reader(path, kind, columns)


def _chained(sources: tuple[str, ...], first: Any, columns: list[str] | None, options: dict[str, Any]) -> Batches:
    """Yield the batches of all sources; raise if their schemas are not equal."""
    yield from named_batches(sources[0], stored_batches(first, options))
    for path in sources[1:]:
        with opened(path, columns=columns) as reader:
            if reader.schema != first.schema:
                words = f"its schema differs from that of {sources[0]}: see `arrowipc diff`, or use --merge"
                raise Failure(path, UsageError(words))
            yield from named_batches(path, stored_batches(reader, options))


def _prepared(stored: Batches, schema: ipc.Schema, options: dict[str, Any]) -> Batches:
    """Return the batches of a source, cut and encoded as the options say; changed ones have no messages."""
    from arrowipc.derived.dictionary_encode import dictionary_encode, rebatch

    encode, rows = columns_of(options["dictionary"]), options["batch_rows"]
    if not encode and not rows:
        return stored
    batches: Iterator[Any] = (batch for _, batch in stored)
    if rows:
        batches = rebatch(batches, rows)
    if encode:
        names = _text_columns(schema) if encode == ["*"] else encode
        options["unify"] = True
        batches = (dictionary_encode(batch, names) for batch in batches)
    return ((None, batch) for batch in batches)


def _text_columns(schema: ipc.Schema) -> list[str]:
    from arrowipc.datatypes import TEXT

    return [field.name for field in schema if isinstance(field.type, TEXT)]
