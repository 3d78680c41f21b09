"""The folder that a job writes to, local or of fsspec: its files, and which of them may be removed."""

import os
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from arrowipc.errors import UsageError
from arrowipc.sources.files import ARROW_SUFFIXES, check_link, is_hidden, is_local
from arrowipc.sources.remote import find_system
from arrowipc.spark.options import USE_THE_JAR, Options

#: A file system of pyarrow, which has no types for them.
Folder: TypeAlias = Any


def open_folder(options: Options) -> Folder:
    """The folder that the option ``path`` names, which need not exist, as a file system of its own."""
    if not options.paths:
        raise UsageError(
            'arrowipc needs a path: df.write.format("arrowipc").mode("append").save("directory"); saveAsTable and '
            f"bucketBy: {USE_THE_JAR}"
        )
    path = options.paths[0]
    root = unquote(urlsplit(path).path) if path.lower().startswith("file:") else path
    base: fs.FileSystem = fs.LocalFileSystem()
    if "://" in root:
        system, root = find_system(path, options.storage)
        if not is_local(system):
            system.invalidate_cache()
            base = fs.PyFileSystem(fs.FSSpecHandler(system))
    else:
        check_link(root)
        root = os.path.abspath(root)
    if base.get_file_info(root).type == fs.FileType.File:
        raise UsageError(f"{path}: expected a directory or nothing, found a file; tasks write a file each")
    return fs.SubTreeFileSystem(root, base)


def exists(folder: Folder, name: str = "") -> bool:
    """Whether there is a file or directory of that name."""
    return bool(folder.get_file_info(name).type != fs.FileType.NotFound)


def names_in(folder: Folder, directory: str = "") -> dict[str, Any]:
    """The names in a directory, and what they are; none where there is no directory."""
    found = folder.get_file_info(fs.FileSelector(directory, allow_not_found=True))
    return {info.base_name: info for info in found}


def replaceable(folder: Folder) -> list[str]:
    """The names of the files that an overwrite replaces; a UsageError where a folder holds anything else not hidden."""
    found = {name: info for name, info in names_in(folder).items() if not is_hidden(name)}
    for name, info in found.items():
        if info.type != fs.FileType.File or not name.lower().endswith(ARROW_SUFFIXES):
            raise UsageError(
                f"{folder.base_path}{name}: overwriting a folder in which there are folders, such as those of "
                f"partitions, or files other than {', '.join(ARROW_SUFFIXES)}: {USE_THE_JAR}; or remove this first"
            )
    return [*found]


def remove_file(folder: Folder, name: str) -> None:
    """Remove a file; no error when it is not there."""
    if exists(folder, name):
        folder.delete_file(name)


def remove_tree(folder: Folder, name: str, only_empty: bool = False) -> None:
    """Remove a directory and all in it, or only if that is nothing; no error when it is not there."""
    if exists(folder, name) and not (only_empty and names_in(folder, name)):
        folder.delete_dir(name)
