"""Removes from a directory what jobs left there that died."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from arrowipc.read.ledger import LEDGER, Ledger
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
    dead = [job for job, since in {**ledger.started, **ledger.dropped}.items() if since <= until]
    folders = [f"{HIDDEN}/{name}" for name in sorted(storage.names(HIDDEN))]
    torn = [f"{LEDGER}/{name}" for name in sorted(storage.names(LEDGER)) if name.endswith(".tmp")]
    folders, torn = (
        [name for name in names if name[len(HIDDEN) + 1 :] in dead or 0 < storage.newest(name) <= until * 1_000_000]
        for names in (folders, torn)
    )
    if not dry_run and dead:  # one that is not dead finds that it cannot commit
        change(storage, lambda now: _dropped(now, dead))
    if not dry_run:
        for name in folders:
            storage.remove_tree(name)
        storage.remove_if_empty(HIDDEN)
    # Only now: nobody moves another file of theirs into place.
    left = [
        name
        for name, modified in (storage.replaceable() if dead or ledger.replaced else {}).items()
        if ledger.replaced.get(name) == modified or any(job in name for job in dead)
    ]
    if not dry_run:
        remove_old(storage, [*left, *torn])
    if not dry_run and (dead or ledger.replaced):
        change(storage, lambda now: _forgotten(now, dead, ledger.replaced))
    return [storage.path(name) for name in [*folders, *torn, *left]]


def _dropped(now: Ledger, jobs: list[str]) -> Ledger:
    dropped = {job: since for job, since in now.started.items() if job in jobs}
    started = {job: since for job, since in now.started.items() if job not in jobs}
    return replace(now, started=started, dropped={**now.dropped, **dropped})


def _forgotten(now: Ledger, jobs: list[str], replaced: Mapping[str, int]) -> Ledger:
    kept = {name: when for name, when in now.replaced.items() if replaced.get(name) != when}
    return replace(without(now, *jobs), replaced=kept)
