"""The options of a read, the files that it finds, and the opening of one of them."""

from collections.abc import Sequence
from typing import Any

import arrowipc
from arrowipc.errors import UsageError
from arrowipc.sources.file_objects import file_path
from arrowipc.sources.files import FoundFile, find_files, is_url, root_of
from arrowipc.sources.remote import RemoteSource, find_system
from arrowipc.sources.source import map_file
from arrowipc.spark.options import USE_THE_JAR, Options
from arrowipc.spark.types import TypeOptions

#: Files of up to so many bytes are read completely, which is faster than mapping them.
SMALL = 1 << 16


class ReadOptions(Options):
    """The options of a read, checked, and what they find."""

    @property
    def types(self) -> TypeOptions:
        """TypeOptions: how types become those of Spark."""
        return TypeOptions(self["nanoseconds"], self["unsupported"], self["extensions"])

    def files(self) -> list[FoundFile]:
        """Return the files to read; an empty directory has none.

        As in Spark, files in folders that are not ``key=value`` are read only with ``recursiveFileLookup``, and then no
        folder is a key. ``below`` of a file contains the folders that may be keys.
        """
        if not self.paths:
            raise UsageError(
                'arrowipc needs a path: spark.read.format("arrowipc").load("directory or file or pattern")'
            )
        for path in self.paths:
            if is_url(path) and file_path(path) is None:
                try:
                    find_system(path, self.storage)
                except UsageError as error:
                    raise UsageError(f"{error}; {USE_THE_JAR}") from error
        found = find_files(
            self.paths, self["pathGlobFilter"], self["ignoreMissingFiles"], self.storage, True, may_be_empty=True
        )
        root = self["basePath"] and root_of(self["basePath"], self.storage).rstrip("/") + "/"
        files = []
        for file in found:
            if root and not file.path.startswith(root):
                raise UsageError(f"option basePath: {file.path} is not below {root}")
            below = file.path[len(root) :] if root else file.below
            if self["recursiveFileLookup"]:
                files.append(file._replace(below=""))
            elif all("=" in part for part in below.split("/")[:-1]):
                files.append(file._replace(below=below))
        if found and not files:
            raise UsageError(
                f"{found[0].path} lies in a folder that is no key: add recursiveFileLookup=true to read it"
            )
        return files

    def source(self, path: str, size: int | None = None) -> Any:
        """Return the source for a path: the map of a local file, the bytes of a small one, or a `RemoteSource`."""
        if is_url(path):
            return RemoteSource(path, self.storage, size=size)
        with open(path, "rb", buffering=0) as file:
            small = size is not None and size <= SMALL
            return memoryview(file.readall() if small else map_file(file))

    def open(self, source: Any, columns: Sequence[int | str] | None = None) -> Any:
        """Open a `source` with the reader of arrowipc for its format."""
        openers: dict[str, Any] = {"auto": arrowipc.open, "file": arrowipc.open_file, "stream": arrowipc.open_stream}
        return openers[self["format"]](source, columns=columns, validate=self["validate"])
