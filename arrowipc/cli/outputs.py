"""The output files of commands: their format, and overwriting, which needs --force."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.foreign import ENDINGS, FORMATS, foreign_writer, format_of
from arrowipc.cli.sources import PLACE, about, sink
from arrowipc.cli.terminal import Progress

ARROW = ("file", "stream", "legacy")
ARROW_READERS = (ipc.RecordBatchFileReader, ipc.RecordBatchStreamReader)
KINDS = (*ARROW, *FORMATS[1:])

#: Pairs of the message in which a batch was stored, or None, and the batch.
Batches = Iterator[tuple[Any, Any]]


def output_options(
    kinds: Sequence[str] = KINDS, default: str | None = "-", words: str = "Output file; default: standard output."
) -> Callable[[Any], Any]:
    """Add the options of all commands that write one file: `output`, `kind` and `force`."""
    known = ", ".join([ending for ending, kind in ENDINGS.items() if kind in kinds])

    def add(command: Any) -> Any:
        to = f"Output format; default: by the name ({known}), a stream through a pipe."
        for option in (
            click.option("--force", is_flag=True, help="Overwrite existing output."),
            click.option("--to", "kind", type=click.Choice(kinds), help=to),
            click.option("-o", "--output", metavar="FILE", default=default, help=words, type=PLACE),
        ):
            command = option(command)
        return command

    return add


def codec_option(default: str) -> Callable[[Any], Any]:
    """Add the option `compression`; "keep" (the codec of the source's first batch) is only allowed as the default."""
    codecs = click.Choice(["keep", "none", "lz4", "zstd"][default != "keep" :])
    words = "Codec of the output" + ("; keep = that of the source's first batch." if default == "keep" else ".")
    return click.option("--compression", type=codecs, default=default, show_default=True, help=words)


def compression_options(command: Any) -> Any:
    """Add the options `compression`, `level` and `checksum` of `write_batches`."""
    level = click.option("--level", type=int, metavar="N", help="Compression level.")
    checksum = click.option("--checksum", is_flag=True, help="Write a checksum with each message.")
    return codec_option("keep")(level(checksum(command)))


def checked_output(
    path: str, kind: str | None, force: bool, sources: Iterable[str], kinds: Sequence[str] = KINDS
) -> str:
    """Return the format of the output, by its name if `kind` is None; raise if `path` must not be written."""
    if kind is None and path != "-":
        kind = format_of(path)
        if kind not in kinds:
            names = ", ".join([ending for ending, known in ENDINGS.items() if known in kinds])
            found = "unknown format" if kind is None else f"this command cannot write {kind}"
            raise click.UsageError(f"{path}: {found}; use --to FORMAT, or a name that ends with one of {names}")
    refuse_overwriting(path, force, sources)
    return kind or "stream"


def refuse_overwriting(path: str, force: bool, sources: Iterable[str]) -> None:
    """Raise if writing to `path` would destroy a source, also through a link, or an existing file without `force`."""
    place = _place(path, 1)
    if place is not None and any(place in (each, _place(each, 0)) for each in sources):
        name = "standard output" if path == "-" else path
        raise click.UsageError(f"{name} is the source itself; use another name")
    if not force and path != "-" and place is not None:
        raise click.UsageError(f"{path} exists; use --force to overwrite")


def _place(path: str, descriptor: int) -> object:
    """Return a key that is equal for all names of one file or URL; None if nothing exists there that could be lost."""
    if "://" in path:
        with suppress(ImportError, OSError, ValueError):
            import fsspec

            system, inner = fsspec.core.url_to_fs(path)
            return path if system.exists(inner) else None
        return None
    try:
        found = os.fstat(descriptor) if path == "-" else os.stat(path)
    except OSError:
        return path if os.path.islink(path) else None
    if stat.S_ISDIR(found.st_mode):
        return None  # opening it will raise
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


# -- batches -------------------------------------------------------------------------------------------------


def named_batches(path: str, batches: Batches) -> Batches:
    """Yield the same batches; errors while reading them name `path`."""
    with about(path):
        yield from batches


def stored_batches(reader: Any, options: dict[str, Any]) -> Batches:
    """Yield the batches of a source with the messages that contain them; put the first one's codec into `options`."""
    from arrowipc.inspection.message_layout import outline_of

    if not isinstance(reader, ARROW_READERS):
        for batch in reader:
            yield None, batch
        return
    for message, batch in reader.stored():
        if "codec" not in options:
            found = outline_of(message)
            options["codec"] = None if found is None else found.codec
        yield message, batch
        del message, batch  # so that the next body can be read into their memory


def write_batches(
    path: str, kind: str, schema: ipc.Schema, batches: Batches, progress: Progress | None, options: dict[str, Any]
) -> tuple[int, int]:
    """Write all batches, and copy their stored messages if possible; return the numbers of rows and batches.

    Options are read after the first batch, because iterating over `batches` may set some.
    """
    rows = count = 0
    found = next(batches, None)
    with _batch_writer(path, kind, schema if found is None else found[1].schema, options) as writer:
        while found is not None:
            message, batch = found
            if message is None or kind not in ARROW or not writer.write_stored(message, batch):
                writer.write_batch(batch)
            rows += len(batch)
            count += 1
            if progress is not None:
                progress.advance(batch.nbytes if message is None else message.body_length)
            del found, message, batch  # so that the next body can be read into their memory
            found = next(batches, None)
    return rows, count


def _batch_writer(path: str, kind: str, schema: ipc.Schema, options: dict[str, Any]) -> Any:
    """Open a writer of batches for any format; options as for `write_batches`."""
    codec = options.get("compression", "keep")
    if kind not in ARROW:
        if options.get("checksum"):
            raise click.UsageError(f"--checksum is for Arrow files and streams, not for {kind}")
        if path == "-" and kind == "parquet":
            sink(path)  # refuses a terminal
        codec = None if codec in ("keep", "none") else codec
        return foreign_writer(path, kind, schema, codec, options.get("level"))
    if codec == "keep":
        codec = options.get("codec")
    made: dict[str, Any] = {
        "compression": None if codec == "none" else codec,
        "compression_level": options.get("level"),
        "unify_dictionaries": options.get("unify") or kind == "file",
        "statistics": options.get("statistics", False),
        "checksum": options.get("checksum", False),
    }
    if kind == "file":
        return ipc.new_file(sink(path), schema, **made)
    return ipc.new_stream(sink(path), schema, legacy=kind == "legacy", **made)
