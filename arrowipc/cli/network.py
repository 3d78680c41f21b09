"""`serve` and `fetch`: serve files as dissociated streams (Dissociated IPC), and write such streams to files."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.outputs import checked_output, codec_option, output_options
from arrowipc.cli.sources import PLACE, about, sink
from arrowipc.cli.terminal import (
    Progress,
    column_option,
    columns_of,
    json_option,
    say_json,
    say_line,
    say_written,
)
from arrowipc.errors import UsageError, printable


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PLACE)
@click.option(
    "--transport",
    type=click.Choice(["tcp", "unix", "shm", "ucx"]),
    default="tcp",
    show_default=True,
    help="Transport; shm = shared memory of this machine.",
)
@click.option("--address", metavar="ADDRESS", help="HOST:PORT or the path of a Unix socket; default: a free one.")
@column_option
@json_option
def serve(files: tuple[str, ...], transport: str, address: str | None, columns: str | None, as_json: bool) -> None:
    """Serve FILEs under their names until Ctrl-C.

    Prints the URI for `arrowipc fetch`. Everybody who can reach the address can read the files: there is no password
    and no encryption.

    JSON: one line: {"uri", "names"}.
    """
    from arrowipc.dissociated.served import StoredFile
    from arrowipc.dissociated.server import Server

    if "-" in files:
        raise UsageError("standard input cannot be served: it can be read only once")
    chosen = columns_of(columns)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    options = {} if chosen is None else {"columns": chosen}
    named: dict[str, StoredFile] = {}
    for file in files:
        name = os.path.basename(file)
        if name in named:
            raise UsageError(f"two files are named {name!r}; give them different names, or serve them apart")
        with about(file):
            named[name] = StoredFile(file, **options)
    with Server(named, transport, address) as server:
        if as_json:
            say_json({"uri": str(server.uri), "names": list(named)}, line=True)
        else:
            say_line(str(server.uri), bold=True)
            for name in named:
                say_line(f"  arrowipc fetch '{server.uri}' {printable(name)} -o COPY")
        sys.stdout.flush()
        done.wait()


@click.command()
@click.argument("uri", metavar="URI")
@click.argument("name", metavar="NAME")
@output_options(("file", "stream"))
@codec_option("none")
@json_option
def fetch(uri: str, name: str, output: str, kind: str | None, force: bool, compression: str, as_json: bool) -> None:
    """Write the stream NAME of the server at URI to a file.

    JSON (on stderr where the output goes to standard output): {"rows", "batches", "written", "format"}.
    """
    from arrowipc.dissociated.client import connect

    kind = checked_output(output, kind, force, (), ("file", "stream"))
    options: dict[str, Any] = {"compression": None if compression == "none" else compression}
    if kind == "file":  # a file has one dictionary per column
        options["unify_dictionaries"] = True
    begin = ipc.new_file if kind == "file" else ipc.new_stream
    rows = batches = 0
    with (
        about(uri),
        Progress("fetching") as progress,
        connect(uri, name) as reader,
        begin(sink(output), reader.schema, **options) as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
            rows, batches = rows + len(batch), batches + 1
            progress.advance(batch.nbytes)
    say_written(output, kind, rows, batches, as_json)
