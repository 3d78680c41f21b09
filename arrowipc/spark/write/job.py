"""One write to a directory: its files come into place unseen, and count from one entry of the ledger on.

See `arrowipc.read.ledger` for what readers make of it. Every step is a new entry, made of the newest one:

1. `start` lists the job as started: its files do not count, wherever they are.
2. `move` brings them into place.
3. `finish` takes it off that list, and in the same entry lists what an overwrite replaces: this is the commit.
   Then the old files are removed, and no longer listed.

Who commits first wins. An append is refused if an overwrite was committed since it began, an overwrite if anything
was, and it drops the appends that are under way. Appends do not mind each other.
"""

import errno
import random
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from arrowipc.errors import UsageError
from arrowipc.read.ledger import ENDED, LARGEST, LEDGER, Ledger, entry_name, entry_number
from arrowipc.spark.write.storage import Storage
from arrowipc.spark.write.task import PartFile

__all__ = ["Job", "change", "remove_old", "without"]

#: How often to try to make the next entry: somebody succeeds each time.
ATTEMPTS = 100
#: Entries that stay, so that who reads one finds it.
KEPT = 4
#: Entries that are known by their makers' names: how many others may come first until a maker looks.
CHAIN = 64
#: Streaming queries of which it is known how far they came.
QUERIES = 1000


def change(storage: Storage, update: Callable[[Ledger], Ledger]) -> Ledger:
    """Enter what `update` makes of the newest entry; made again where others come first.

    Raises
    ------
    OSError
        The storage does not let it, or others came first all the time.
    """
    mine = uuid.uuid4().hex[:12]
    for attempt in range(ATTEMPTS):
        now = storage.ledger() or Ledger()
        # Not what `create` said: who is late finds a number free that was removed, where the newest one is higher.
        if mine in now.chain:
            with suppress(OSError):
                for name in storage.names(LEDGER):
                    # Also of entries that their makers did not finish.
                    number = entry_number(name.lstrip(".")[: len(entry_name(0))])
                    if number is not None and number <= now.number - KEPT:
                        storage.remove(f"{LEDGER}/{name}")
            return now
        new = replace(update(now), number=now.number + 1, chain=(*now.chain[1 - CHAIN :], mine))
        data = new.to_bytes()
        if len(data) > LARGEST:
            raise UsageError(
                f"{storage.root}: {len(new.replaced):,} files are more than one overwrite can replace; remove some "
                "first, or write to another directory"
            )
        storage.make_directory(LEDGER)
        if not storage.create(f"{LEDGER}/{entry_name(new.number)}", data):
            time.sleep(random.uniform(0, min(1.0, 0.001 * 2**attempt)))
    raise OSError(errno.EBUSY, "others commit all the time", storage.path(LEDGER))


def without(now: Ledger, *jobs: str) -> Ledger:
    """A ledger in which some jobs ended; `change` gives it its number."""
    return replace(
        now,
        started={job: since for job, since in now.started.items() if job not in jobs},
        dropped=tuple([job for job in now.dropped if job not in jobs]),
        ended=(*now.ended, *[(now.number + 1, job) for job in jobs])[-ENDED:],
    )


class Job:
    """One write to a directory.

    Parameters
    ----------
    storage : Storage
        The directory.
    overwrite : bool
    id : str
        32 hexadecimal digits, which the names of its files hold, and no others. Of the attempts at a micro-batch the
        first half is the same.
    began : int
        The number of the newest entry when the job began.
    """

    def __init__(self, storage: Storage, overwrite: bool, id: str, began: int) -> None:
        self._storage = storage
        self._overwrite = overwrite
        self.id = id
        self.began = began

    def start(self) -> None:
        """Let the files of the job not count.

        Raises
        ------
        UsageError
            Another job was committed that does not go with this one.
        """
        dead: list[str] = []

        def started(now: Ledger) -> Ledger:
            self._check(now)
            # An earlier attempt at the same micro-batch: whoever makes it is dead, or will not finish it.
            dead[:] = [job for job in {*now.started} - {*now.dropped} if job[:16] == self.id[:16] and job != self.id]
            return replace(now, started={**now.started, self.id: int(time.time())}, dropped=(*now.dropped, *dead))

        change(self._storage, started)
        self._remove(*dead)

    def move(self, parts: Iterable[PartFile]) -> None:
        """Bring the files into place."""
        directories = {""}
        for part in parts:
            directory = part.name.rpartition("/")[0]
            if directory not in directories:
                self._storage.make_directory(directory)
                directories.add(directory)
            self._storage.rename(part.temporary, part.name)
        for directory in directories:
            self._storage.sync(directory)

    def finish(self, query: str = "", batch: int = 0) -> None:
        """Let the files count, and for an overwrite nothing else; `batch` is the number of a micro-batch.

        Raises
        ------
        UsageError
            The job was dropped meanwhile.
        OSError
            Old files cannot be removed; they do not count, but others would read them.
        """
        storage, old = self._storage, dict[str, int]()
        if self._overwrite:
            old = {name: when for name, when in storage.replaceable().items() if self.id not in name}

        def finished(now: Ledger) -> Ledger:
            self._check(now)
            if self.id not in {*now.started} - {*now.dropped} or now.queries.get(query, -1) >= batch:
                raise self._refused("an overwrite or vacuum dropped it, or another run of the query was faster")
            new = replace(without(now, self.id), committed=now.number + 1)
            if self._overwrite:
                new = replace(new, overwritten=new.committed, dropped=(*new.started,), replaced=old)
            if query:
                others = {name: last for name, last in now.queries.items() if name != query}
                new = replace(new, queries=dict([*others.items(), (query, batch)][-QUERIES:]))
            return new

        change(storage, finished)
        if old:
            remove_old(storage, old)
            change(storage, lambda now: replace(now, replaced={n: t for n, t in now.replaced.items() if n not in old}))

    def _check(self, now: Ledger) -> None:
        if now.overwritten > self.began:
            raise self._refused("an overwrite was committed")
        if self._overwrite and now.committed > self.began:
            raise self._refused("an append was committed, whose rows the overwrite would remove")

    def _refused(self, why: str) -> UsageError:
        kind = "overwrite" if self._overwrite else "append"
        return UsageError(
            f"{self._storage.root}: this {kind} was not committed, and left nothing: while it ran, {why}; run it again"
        )

    def take_back(self) -> bool:
        """Remove what came into place of a job that will not finish; False if it did, or never started."""
        now = self._storage.ledger()
        if now is None or self.id not in now.started:
            return False
        self._remove(self.id)
        change(self._storage, lambda now: without(now, self.id))
        return True

    def _remove(self, *jobs: str) -> None:
        """Remove the files in place of some jobs, which do not count."""
        for name in self._storage.replaceable() if jobs else ():
            if any(job in name for job in jobs):
                self._storage.remove(name)


def remove_old(storage: Storage, names: Iterable[str]) -> None:
    """Remove files that do not count.

    Raises
    ------
    OSError
        The first error, after all the others were tried; its text tells people what to do.
    """
    failed: dict[str, OSError] = {}
    for name in names:
        try:
            storage.remove(name.rstrip("/"))
        except OSError as error:
            failed[storage.path(name)] = error
    if failed:
        first = next(iter(failed.values()))
        raise OSError(
            first.errno,
            f"the new files are complete, but {len(failed)} that do not count any more cannot be removed ({first}); "
            f"arrowipc does not read them, others would: remove {', '.join([*failed][:10])}",
        )
