"""Removes from a directory what jobs left there that died."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from arrowipc.read.ledger import Ledger
from arrowipc.spark.write.job import change, remove_old, without
from arrowipc.spark.write.storage import open_storage
from arrowipc.spark.write.task import HIDDEN

__all__ = ["vacuum"]


def vacuum(
    path: str,
    retention_hours: float = 24.0,
    *,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Remove what jobs that died left in a directory to which Spark writes; nothing that arrowipc reads.

    These are the hidden files of tasks, files of commits that did not come to their end, and files that an overwrite
    replaced and did not remove. Other libraries may read the latter two, until they are gone.

    Parameters
    ----------
    path : str
        A directory, or the URL of one.
    retention_hours : float, default 24
        What is younger may belong to a job that runs, and stays. Of a job that runs for longer without a change, and
        of all with 0, the files are removed: then it fails. Where a store tells no times, files of tasks stay.
    dry_run : bool, default False
        Remove nothing, only say what.
    storage_options : mapping, optional
        What the file system of a URL wants to know, such as credentials.

    Returns
    -------
    list of str
        What was removed: files, and directories below ``_temporary``.

    Examples
    --------
    >>> import os, tempfile
    >>> from arrowipc.spark import vacuum
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     os.makedirs(f"{folder}/_temporary/a-job-that-died")
    ...     young = vacuum(folder)
    ...     [old] = vacuum(folder, retention_hours=0)
    >>> young, os.path.basename(old)
    ([], 'a-job-that-died')
    """
    options = {f"storage.{name}": json.dumps(value) for name, value in (storage_options or {}).items()}
    storage = open_storage(path, options)
    until = time.time() - retention_hours * 3600
    ledger = storage.ledger() or Ledger()
    dead = [job for job, since in ledger.started.items() if since <= until]
    folders = [f"{HIDDEN}/{name}" for name in sorted(storage.names(HIDDEN))]
    folders = [
        name for name in folders if name[len(HIDDEN) + 1 :] in dead or 0 < storage.newest(name) <= until * 1_000_000
    ]

    def left() -> list[str]:
        found = storage.replaceable().items() if dead or ledger.replaced else ()
        return [n for n, time in found if ledger.replaced.get(n) == time or any(job in n for job in dead)]

    if dry_run:
        return [storage.path(name) for name in [*folders, *left()]]
    if dead:  # one that is not dead finds that it cannot commit
        change(storage, lambda now: replace(now, dropped=(*{*now.dropped, *dead} & {*now.started},)))
    for name in folders:
        storage.remove_tree(name)
    storage.remove_if_empty(HIDDEN)
    # Only now: nobody moves another file of theirs into place.
    files = left()
    remove_old(storage, files)
    if dead or ledger.replaced:
        gone = ledger.replaced.items()
        change(storage, lambda now: replace(without(now, *dead), replaced=dict(now.replaced.items() - gone)))
    return [storage.path(name) for name in [*folders, *files]]
