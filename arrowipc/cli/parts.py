"""`split` and `merge`: one source into several files, and files of several schemas into one."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.foreign import ENDINGS
from arrowipc.cli.outputs import (
    KINDS,
    Batches,
    batch_writer,
    checked_output,
    compression_options,
    named_batches,
    output_options,
    refuse_overwriting,
    size_in,
    stored_batches,
    write_batches,
)
from arrowipc.cli.sources import about, opened, size_of
from arrowipc.cli.terminal import (
    FILE,
    Progress,
    column_option,
    columns_of,
    counted,
    json_option,
    say_json,
    say_note,
    say_written,
)

#: Files that are open at a time, one for each value of a column.
MOST_VALUES = 500
#: Rows of a batch of these, as long as there are so many.
COALESCED = 65_536
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


@click.command()
@FILE
@click.argument("folder", metavar="FOLDER", type=click.Path())
@click.option("--rows", type=click.IntRange(1), metavar="N", help="N rows in each part.")
@click.option("--bytes", "size", metavar="SIZE", help="About so many bytes in each part: 500000, 64MB, 1GiB.")
@click.option("--by", metavar="COLUMN", help="A folder COLUMN=VALUE for each value of a column.")
@click.option("--to", "kind", type=click.Choice(KINDS), default="file", show_default=True, help="Format of the parts.")
@click.option("--force", is_flag=True, help="Also into a folder that holds something; overwrite what is there.")
@compression_options
@json_option
def split(file: str, folder: str, rows: int | None, size: str | None, by: str | None, **options: Any) -> None:
    """Split FILE into parts below FOLDER, by exactly one of --rows, --bytes and --by.

    Parts are named as FILE, with a number; rows keep their order. With --by, the column is left out of the parts:
    it is in the names of their folders, as `open_dataset`, Spark and others read them (an empty text as null).
    Each part appears when it is complete.

    \b
    Example:
      arrowipc split taxi.arrow by-vendor --by vendor

    JSON: {"rows", "parts", "written", "format"}.
    """
    if sum([each is not None for each in (rows, size, by)]) != 1:
        raise click.UsageError("split needs one of --rows, --bytes and --by")
    kind, force, as_json = options.pop("kind"), options.pop("force"), options.pop("as_json")
    most = None if size is None else _bytes(size)
    if not force and os.path.isdir(folder) and os.listdir(folder):
        raise click.UsageError(f"{folder} is there already, and not empty: --force writes into it")
    # Names that begin with . or _ are ignored where folders are read.
    stem = os.path.splitext(os.path.basename(file.partition("?")[0]))[0].lstrip("-._") or "part"
    ending = next((ending for ending, known in ENDINGS.items() if known == kind), ".arrows")
    with opened(file) as reader, Progress("splitting", size_of(file)) as progress:
        parts = _Parts(file, kind, force, options)
        stored = _counted(named_batches(file, stored_batches(reader, options)), progress)
        if by is not None:
            parts.by_column(stored, reader.schema, by, folder, f"{stem}-00000{ending}")
        else:
            cut = _Cut(stored, rows, most)
            while parts.count == 0 or cut.more():
                path = os.path.join(folder, f"{stem}-{parts.count:05}{ending}")
                parts.write(path, reader.schema, cut.part())
    if as_json:
        say_json({"rows": parts.rows, "parts": parts.count, "written": folder, "format": kind})
    else:
        say_note(f"{folder}: {counted(parts.rows, 'row')} in {counted(parts.count, 'part')}")


def _counted(stored: Batches, progress: Progress) -> Batches:
    for message, batch in stored:
        yield message, batch
        progress.advance(size_in(message, batch))


def _bytes(text: str) -> int:
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]i?)?b?\s*", text, re.IGNORECASE)
    try:
        size = int(float(found[1]) * UNITS[(found[2] or "").lower()]) if found else 0
    except (ValueError, OverflowError):
        size = 0
    if size < 1:
        raise click.UsageError(f"--bytes: expected a size such as 500000, 64MB or 1GiB, found {text!r}")
    return size


class _Parts:
    """The files that a source is split into."""

    def __init__(self, source: str, kind: str, force: bool, options: dict[str, Any]) -> None:
        self.rows: int = 0
        self.count: int = 0
        self._source, self._kind, self._force = source, kind, force
        self._options = options

    def begin(self, path: str) -> None:
        """Count a part, and make its folder."""
        with about(path):
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        refuse_overwriting(path, self._force, [self._source])
        self.count += 1

    def write(self, path: str, schema: ipc.Schema, batches: Batches) -> None:
        """Write one part."""
        self.begin(path)
        with about(path):
            self.rows += write_batches(path, self._kind, schema, batches, None, self._options)[0]

    def by_column(self, stored: Batches, schema: ipc.Schema, column: str, folder: str, part: str) -> None:
        """Write a part for each value, in a folder of its own."""
        from arrowipc.dataset.partitioning import folder_name

        if schema.names.count(column) != 1 or len(schema) < 2:
            raise click.UsageError(f"--by: expected one of several columns, {schema.names[:20]}, found {column!r}")
        rest = [i for i, name in enumerate(schema.names) if name != column]
        left = schema.__replace__(fields=[schema.fields[i] for i in rest])
        writers: dict[Any, Any] = {}
        options = self._options | {"coalesce_rows": COALESCED}
        with ExitStack() as stack:
            for _, batch in stored:
                for value, numbers in _by_value(batch.column(column)).items():
                    if value not in writers:
                        if len(writers) == MOST_VALUES:
                            raise click.UsageError(f"--by: {column!r} has more than {MOST_VALUES} values")
                        name = os.path.join(folder, folder_name(column, value), part)
                        self.begin(name)
                        with about(name):
                            writer = batch_writer(name, self._kind, left, options)
                        writers[value] = stack.enter_context(writer)
                    writers[value].write_batch(batch.select(rest).take(numbers))
                self.rows += len(batch)


def _by_value(column: Any) -> dict[str | None, list[int]]:
    """The rows of each value, which is spelled as a folder's name has it."""
    from arrowipc import types

    kind = getattr(column.type, "value_type", column.type)
    if not isinstance(kind, (types.Int, types.Bool, types.Date, types.Utf8, types.LargeUtf8, types.Utf8View)):
        raise click.UsageError(f"--by: values of type {column.type} are no names of folders")
    found: dict[str | None, list[int]] = {}
    spelled: dict[Any, str | None] = {None: None, "": None}  # Hive has no other name for an empty text
    for row, value in enumerate(column.to_pylist()):
        if value not in spelled:
            spelled[value] = str(value).lower() if isinstance(value, bool) else str(value)
        found.setdefault(spelled[value], []).append(row)
    return found


class _Cut:
    """The batches of a source in parts of so many rows, or about so many bytes."""

    def __init__(self, stored: Batches, rows: int | None, size: int | None) -> None:
        self._stored = stored
        self._rows, self._size = rows, size
        self._next: tuple[Any, Any, float] | None = None

    def more(self) -> bool:
        """Whether there is another part."""
        while self._next is None and (found := next(self._stored, None)) is not None:
            message, batch = found
            if len(batch):
                self._next = message, batch, (1 if self._rows else size_in(message, batch) / len(batch))
        return self._next is not None

    def part(self) -> Batches:
        """Yield the batches of one part: all of them before the next one is asked for."""
        whole = float(self._rows or self._size or 0)
        left = whole
        while self.more():
            assert self._next is not None
            message, batch, each = self._next
            count = len(batch) if each * len(batch) <= left else int(left / each) if each else len(batch)
            if count == 0 and left < whole:
                return
            count = max(count, 1)
            if count == len(batch):
                self._next = None
                yield message, batch
            else:
                self._next = None, batch.slice(count), each
                yield None, batch.slice(0, count)
            left -= count * each
            if left <= 0:
                return


@click.command()
@click.argument("sources", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@column_option
@compression_options
@output_options()
@json_option
def merge(
    sources: tuple[str, ...], output: str, kind: str | None, force: bool, columns: str | None, **options: Any
) -> None:
    """Write the rows of files, streams, folders and patterns as one, also where their schemas differ.

    Columns are found by name: one that a file lacks is null there, and types become one that holds both. Folders
    named KEY=VALUE become columns. (`cat` wants equal schemas, and leaves batches as they are.)

    \b
    Example:
      arrowipc merge by-vendor -o taxi.arrow

    JSON (on stderr where the output goes to standard output): {"rows", "batches", "written", "format"}.
    """
    if "-" in sources:
        raise click.UsageError("merge reads files by name: `arrowipc cat -` takes standard input")
    as_json = options.pop("as_json")
    with about(sources[0] if len(sources) == 1 else "merge"):
        dataset = ipc.open_dataset(list(sources) if len(sources) > 1 else sources[0])
    kind = checked_output(output, kind, force, dataset.files)
    if (chosen := columns_of(columns)) is not None:
        dataset = dataset.select(chosen)
    sizes = [size_of(path) for path in dataset.files]
    size = None if None in sizes or chosen else sum(filter(None, sizes))
    with Progress("merging", size, output) as progress:
        batches = ((None, batch) for batch in dataset)
        with about(output, True):
            rows, count = write_batches(output, kind, dataset.schema, batches, progress, options)
    say_written(output, kind, rows, count, as_json)
