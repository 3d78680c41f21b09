"""One file of a data set: what is known of it, and how it is opened; few files are open at a time."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from arrowipc._core import Descriptor
from arrowipc.decode.file_decoder import MAGIC
from arrowipc.errors import ArrowIpcError, FormatError, UsageError, showable
from arrowipc.maps.file_maps import FileMap
from arrowipc.opening import open as open_any
from arrowipc.reader import RecordBatchFileReader
from arrowipc.sources.files import ARROW_SUFFIXES, LeftOut, is_named_arrow, is_url, naming
from arrowipc.sources.remote import RemoteSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeAlias

    import numpy as np
    import numpy.typing as npt

    from arrowipc.limits import Limits
    from arrowipc.options import Columns
    from arrowipc.schemas import Schema

    #: Rows of each batch of a file.
    Lengths: TypeAlias = npt.NDArray[np.int64]

#: Files of up to so many bytes are read at once, which is quicker than mapping them.
SMALL = 1 << 16
#: Advice for a file that is not Arrow data, and has no name of Arrow data.
NO_ARROW_NAME = (
    f"without names that end with {', '.join(ARROW_SUFFIXES)}, all files of a folder count: give a pattern for the "
    'names of its Arrow data (folder/data-*), or on_error="skip"'
)
#: Opening must not wait for a pipe, which is refused.
READING = os.O_RDONLY | os.O_NONBLOCK
#: How many readers are kept open.
MOST_OPEN = 64
#: Errors for which a file may be left out: it is damaged, or not Arrow data, or gone.
Unreadable: tuple[type[Exception], ...] = (FormatError, FileNotFoundError)


class Fragment:
    """One file of a data set, which `Dataset.fragments` lists."""

    __slots__ = ("keys", "lengths", "path", "schema", "size", "version")

    #: Absolute path, or URL.
    path: str
    #: Bytes; None: not known yet.
    size: int | None
    #: The values of hive keys.
    keys: dict[str, Any]
    #: The file's own schema, once it was read.
    schema: Schema | None
    #: Rows of each batch, once they were counted.
    lengths: Lengths | None
    #: Tells the file from a later one of the same name: for a local file, the time of its last change.
    version: Any

    def __init__(self, path: str, size: int | None, keys: Mapping[str, Any]) -> None:
        self.path, self.size, self.keys = path, size, dict(keys)
        self.schema = self.lengths = self.version = None

    def __repr__(self) -> str:
        keys = "".join(f", {name}={value!r}" for name, value in self.keys.items())
        return f"<Fragment: {showable(self.path)}{keys}>"


class Opener:
    """Opens fragments, checks that they are still the same files, and keeps the last readers."""

    def __init__(self, options: dict[str, Any], on_error: str, storage: Mapping[str, Any] | None) -> None:
        self.limits: Limits | None = options["limits"]
        self.on_error: str = on_error
        self.validate: str = options["validate"]
        self._options = options
        self._storage = storage
        self._kept: dict[Any, Any] = {}
        #: Path -> why it, or some of it, was left out.
        self.skipped: dict[str, str] = {}
        self._left_out = LeftOut()

    def __reduce__(self) -> tuple[Any, ...]:
        return Opener, (self._options, self.on_error, self._storage)

    def unvalidated(self) -> Opener:
        """Return one whose readers validate nothing."""
        other = Opener({**self._options, "validate": "none"}, self.on_error, self._storage)
        other.skipped = self.skipped
        return other

    def skip(self, path: str, error: Exception) -> None:
        """Leave a file out, or a part of it; raise the error unless `on_error` is "skip"."""
        if self.on_error != "skip":
            raise error
        if path not in self.skipped:
            self.skipped[path] = str(error)
            self._left_out.add(str(error))

    def report(self) -> None:
        """Log how many files were left out, if not all are logged."""
        self._left_out.total(", Dataset.skipped names them")

    def open(self, fragment: Fragment, columns: Columns = None) -> Any:
        """Return a reader of a fragment, with random access to its batches; an OSError if it is another file now."""
        key = fragment.path, columns
        reader = self._kept.pop(key, None)
        if reader is None:
            with naming(fragment.path):
                reader = self._opened(fragment, columns)
        self._kept[key] = reader
        for oldest in list(self._kept)[:-MOST_OPEN]:
            self._kept.pop(oldest, None)  # closed when its last batch is read
        return reader

    def _opened(self, fragment: Fragment, columns: Columns) -> Any:
        source, first = self._source(fragment)
        reader: Any
        if first == MAGIC:
            reader = RecordBatchFileReader(source, columns=columns, **self._options)
        else:
            reader = open_any(source, columns=columns, index=True, **self._options)
        if isinstance(source, RemoteSource):
            fragment.size, fragment.version = source.known_size, source.version
        return reader

    def _source(self, fragment: Fragment) -> tuple[Any, bytes]:
        """Return a source that readers open, and its first bytes; for a small local file, the source is its bytes."""
        path = fragment.path
        if is_url(path):
            source = RemoteSource(path, self._storage, size=fragment.size, version=fragment.version)
            return source, source.head()[:6]
        with Descriptor(path, READING) as file:
            self._check(fragment, os.fstat(file.fileno()))
            size = fragment.size or 0
            data = os.read(file.fileno(), size if size <= SMALL else 6)
            if len(data) == size:
                return data, data[:6]
            try:
                return FileMap(file.fileno()), data[:6]
            except OSError:  # the file system has no maps, or too many files are mapped: read the file
                return path, data[:6]

    def _check(self, fragment: Fragment, found: os.stat_result) -> None:
        """Check that a local file is still the same."""
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"{fragment.path} is not a regular file: a data set needs files that can be read again")
        if fragment.version is None:
            fragment.size, fragment.version = found.st_size, found.st_mtime_ns
        elif (fragment.size, fragment.version) != (found.st_size, found.st_mtime_ns):
            text = "the file changed after the data set was opened (size or time): open it again"
            raise OSError(errno.ESTALE, text, fragment.path)

    def read_schema(self, fragment: Fragment) -> None:
        """Read the schema of a fragment, and how many rows its batches have, if that needs no more bytes."""
        if fragment.schema is None:
            try:
                # Keep the reader of a remote file, because opening it again costs requests.
                reader = self.open(fragment) if is_url(fragment.path) else self._opened(fragment, None)
                if fragment.size is not None and fragment.size <= SMALL:
                    fragment.lengths = reader.batch_lengths()
                fragment.schema = reader.schema
            except ArrowIpcError as error:
                with naming(fragment.path):
                    if isinstance(error, FormatError) and not is_named_arrow(fragment.path):
                        raise type(error)(f"{error}; {NO_ARROW_NAME}") from error
                    raise

    def count(self, fragment: Fragment) -> Lengths:
        """Return the rows of each batch."""
        if fragment.lengths is None:
            with naming(fragment.path):
                fragment.lengths = self.open(fragment).batch_lengths()
                assert fragment.lengths is not None
        return fragment.lengths
