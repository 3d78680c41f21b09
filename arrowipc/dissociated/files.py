"""Files as dissociated streams, and streams as files: what the command line does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from arrowipc.arguments import check_choice
from arrowipc.dissociated.client import connect
from arrowipc.dissociated.served import StoredFile
from arrowipc.dissociated.server import Server
from arrowipc.errors import UsageError
from arrowipc.writer import new_file, new_stream

if TYPE_CHECKING:
    from typing import Literal

    Format = Literal["file", "stream"]

__all__ = ["Fetched", "fetch", "serve_files"]

#: Names of files that hold streams; all others hold the file format.
STREAM_ENDINGS = (".arrows", ".stream")


def serve_files(
    paths: Iterable[str | os.PathLike[str]],
    transport: str = "tcp",
    address: Any = None,
    *,
    read_options: dict[str, Any] | None = None,
    **options: Any,
) -> Server:
    """Serve Arrow IPC files and streams under their names.

    Parameters
    ----------
    paths : iterable of path
        The last part of each is the name to ask for. A file is opened anew for each request, so it may be
        replaced in between.
    transport, address
        See `Server`. "file" is for one path: clients get the positions of its bodies.
    read_options : dict, optional
        Of `arrowipc.open`, for example ``{"columns": ["x"]}``.
    **options
        Of `Server`.

    Returns
    -------
    Server
        Already serving; close it, or use it as a context manager.

    Raises
    ------
    UsageError
        Two files have the same name, or there are none; or several with "file".
    OSError
        A file is not there, or cannot be read.
    FormatError
        It is no Arrow file.

    Examples
    --------
    >>> import os, tempfile
    >>> import arrowipc as ipc
    >>> from arrowipc.dissociated.files import fetch, serve_files
    >>> from arrowipc.types import field, int64
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, two = os.path.join(folder, "one.arrow"), os.path.join(folder, "two.arrow")
    ...     with ipc.new_file(one, ipc.Schema([field("x", int64())])) as writer:
    ...         writer.write({"x": [1, 2, 3]})
    ...     with serve_files([one]) as server:
    ...         print(fetch(server.uri, "one.arrow", two).num_rows)
    ...     with ipc.open(two) as reader:
    ...         reader.read_all().to_pydict()
    3
    {'x': [1, 2, 3]}
    """
    named: dict[str, StoredFile] = {}
    for path in paths:
        name = os.path.basename(os.fspath(path))
        if name in named:
            raise UsageError(f"two of the files are named {name!r}: no client could ask for the second")
        named[name] = StoredFile(path, **(read_options or {}))
    if not named:
        raise UsageError("there are no files to serve")
    return Server(named, transport, address, **options)


class Fetched:
    """What `fetch` wrote.

    Attributes
    ----------
    num_batches, num_rows : int
    num_bytes : int
        Of the batches' buffers, without compression.
    """

    def __init__(self) -> None:
        self.num_batches = 0
        self.num_rows = 0
        self.num_bytes = 0

    def __repr__(self) -> str:
        return f"<Fetched: {self.num_rows:,} rows in {self.num_batches:,} batches>"


def fetch(
    uri: Any,
    ident: str | bytes,
    target: Any,
    *,
    format: Format | None = None,
    write_options: dict[str, Any] | None = None,
    on_batch: Callable[[Fetched], object] | None = None,
    **options: Any,
) -> Fetched:
    """Write a dissociated stream into an Arrow IPC file or stream.

    Parameters
    ----------
    uri, ident
        See `arrowipc.dissociated.connect`.
    target : path, URL, file object or bytearray
        See `arrowipc.new_file`. A path is there when everything is, and on the disk then; whatever goes wrong
        before leaves what was there.
    format : {"file", "stream"}, optional
        Default: "stream" for paths that end with .arrows or .stream, else "file".
    write_options : dict, optional
        Of `arrowipc.new_file` or `arrowipc.new_stream`, for example ``{"compression": "zstd"}``.
    on_batch : callable, optional
        Called after each batch with what is written so far, to show progress.
    **options
        Of `arrowipc.dissociated.connect`.

    Returns
    -------
    Fetched

    Raises
    ------
    FormatError, UnsupportedError, TimeoutError, OSError
        See `arrowipc.dissociated.connect`; or the target cannot be written.
    """
    if format is None:
        path = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
        format = "stream" if str(path).endswith(STREAM_ENDINGS) else "file"
    begin = new_file if check_choice("format", format, ("file", "stream")) == "file" else new_stream
    done = Fetched()
    chosen = dict(write_options or {})
    if begin is new_file:
        # A stream may replace its dictionaries, a file has one per column.
        chosen.setdefault("unify_dictionaries", True)
    with connect(uri, ident, **options) as reader, begin(target, reader.schema, **chosen) as writer:
        for batch in reader:
            writer.write_batch(batch)
            done.num_batches += 1
            done.num_rows += len(batch)
            done.num_bytes += batch.nbytes
            if on_batch is not None:
                on_batch(done)
    return done
