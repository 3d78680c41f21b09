"""What commands write: in which format, and never over what is there already unless they are told to."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.foreign import ENDINGS, FORMATS, foreign_writer, format_of
from arrowipc.cli.sources import sink
from arrowipc.cli.terminal import Progress
from arrowipc.read.sources import file_path

__all__ = ["ARROW", "KINDS", "Batches", "checked_output", "output_options", "refuse_overwriting", "write_batches"]

ARROW = ("file", "stream", "legacy")
KINDS = (*ARROW, *FORMATS[1:])

#: Batches, and the message that each came in, or None.
Batches = Iterator[tuple[Any, Any]]


def output_options(
    kinds: Sequence[str] = KINDS, default: str | None = "-", words: str = "Where it goes; default: standard output."
) -> Callable[[Any], Any]:
    """Add what all commands have that write one file: `output`, `kind` and `force`."""
    known = ", ".join([ending for ending, kind in ENDINGS.items() if kind in kinds])

    def add(command: Any) -> Any:
        to = f"Format of what is written; default: by its name ({known}), a stream through a pipe."
        for option in (
            click.option("-f", "--force", is_flag=True, help="Overwrite what is there already."),
            click.option("--to", "kind", type=click.Choice(kinds), help=to),
            click.option("-o", "--output", metavar="FILE", default=default, help=words, type=click.Path()),
        ):
            command = option(command)
        return command

    return add


def checked_output(
    path: str, kind: str | None, force: bool, sources: Iterable[str], kinds: Sequence[str] = KINDS
) -> str:
    """Tell the format of what goes to `path`, which may be -.

    Raises
    ------
    click.UsageError
        Neither `kind` nor the name says the format; and as for `refuse_overwriting`.
    """
    if kind is None and path != "-":
        kind = format_of(path)
        if kind not in kinds:
            names = ", ".join([ending for ending, known in ENDINGS.items() if known in kinds])
            found = "the name does not say the format" if kind is None else f"{kind} cannot be written here"
            raise click.UsageError(f"{path}: {found}: give --to FORMAT, or a name that ends with one of {names}")
    refuse_overwriting(path, force, sources)
    return kind or "stream"


def refuse_overwriting(path: str, force: bool, sources: Iterable[str]) -> None:
    """Raise where writing to `path` would destroy something.

    Raises
    ------
    click.UsageError
        It is a source itself, also by a link; or it is there already, is no pipe or device, and `force` is False.
    """
    place = _place(path, 1)
    if place is not None and any(place in (each, _place(each, 0)) for each in sources):
        name = "standard output" if path == "-" else path
        raise click.UsageError(f"{name} is the source itself, which would be lost: give another name")
    if not force and path != "-" and place is not None:
        raise click.UsageError(f"{path} exists already: --force overwrites it")


def _place(path: str, descriptor: int) -> object:
    """What two names share that lead to the same file, or to the same URL; None: to nothing that can be lost."""
    local = file_path(path) if "://" in path else path
    if local is None:
        with suppress(ImportError, OSError, ValueError):
            import fsspec

            system, inner = fsspec.core.url_to_fs(path)
            return path if system.exists(inner) else None
        return None
    try:
        found = os.fstat(descriptor) if path == "-" else os.stat(local)
    except OSError:
        return path if os.path.islink(local) else None
    if stat.S_ISDIR(found.st_mode):
        return None  # said by whoever opens it
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


# -- batches -------------------------------------------------------------------------------------------------


def write_batches(
    path: str, kind: str, schema: ipc.Schema, batches: Batches, progress: Progress, options: dict[str, Any]
) -> tuple[int, int]:
    """Write all batches, bodies untouched where they can be; returns their rows and their number.

    The options are those of `convert`; what is not there is its default. `batches` may put the codec of the
    source there before it yields its first batch.
    """
    rows = count = 0
    found = next(batches, None)
    with _writer(path, kind, schema if found is None else found[1].schema, options) as writer:
        while found is not None:
            message, batch = found
            if message is None or kind not in ARROW or not writer.write_stored(message, batch):
                writer.write_batch(batch)
            rows += len(batch)
            count += 1
            progress.advance(batch.nbytes if message is None else message.body_length)
            found = next(batches, None)
    return rows, count


def _writer(path: str, kind: str, schema: ipc.Schema, options: dict[str, Any]) -> Any:
    codec = options.get("compression", "keep")
    if kind not in ARROW:
        if path == "-" and kind == "parquet":
            sink(path)  # refuses a terminal
        codec = None if codec in ("keep", "none") else codec
        return foreign_writer(path, kind, schema, codec, options.get("level"))
    if codec == "keep":
        codec = options.get("codec")
    made: dict[str, Any] = {
        "compression": None if codec == "none" else codec,
        "compression_level": options.get("level"),
        "alignment": int(options.get("alignment", 8)),
        "metadata_version": "V4" if options.get("v4") else "V5",
        "unify_dictionaries": options.get("unify") or kind == "file",
        "statistics": options.get("statistics", False),
    }
    if kind == "file":
        return ipc.new_file(sink(path), schema, **made)
    return ipc.new_stream(sink(path), schema, legacy=kind == "legacy", **made)
