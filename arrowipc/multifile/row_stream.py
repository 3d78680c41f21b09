"""Rows of files and streams in passes that can be continued: loaders of training data call it an iterable data set."""

from __future__ import annotations

import sys
from functools import partial
from itertools import chain, repeat

import numpy as np

from arrowipc.arguments import check_flag, check_integer, described
from arrowipc.derived.dictionary_encode import rebatch
from arrowipc.errors import UsageError, missing_package
from arrowipc.multifile.rows import RowDataset, Samples
from arrowipc.options import with_advice
from arrowipc.reader import BatchReader
from arrowipc.tables import Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal, TypeAlias

    from arrowipc.arguments import Extensions
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.limits import Limits
    from arrowipc.multifile.dataset import Dataset
    from arrowipc.schemas import Schema

    #: The number of rows of a record batch, and a function that reads it.
    Piece: TypeAlias = "tuple[int, Callable[[], Iterable[RecordBatch]]]"

#: How many samples are made at once.
SAMPLES = 1024


class RowStream(Samples):
    """The rows of Arrow files and streams in passes, which are shuffled, shared out, and go on after an interruption.

    Iterating is one pass (epoch) over the rows of this process. Each record batch belongs to one rank and one worker. A
    pass that was interrupted is continued by another object, or process, that loads its state.

    Parameters
    ----------
    source : path, URL, pattern, folder, list of them, Dataset, or reader
        What `RowDataset` takes. A reader, such as ``open_stream(path, follow=True)`` of a stream that grows, is read
        once, in its order.
    batch_size : int, optional
        Rows of a batch. None: samples.
    shuffle : int, default 0
        Rows that are in memory and mixed with each other; record batches of files then come in another order, too. 0:
        rows come in order.
    seed : int, default 0
        The same seed gives the same order in the same pass; each pass has another one.
    rank, world_size : int, optional
        Which of how many processes this is. Default: what ``torch.distributed`` says, if it is initialized.
    drop_last : bool, default False
        Leave out a batch at the end that has fewer rows.
    columns, format, transform, extensions, validate, limits
        As in `RowDataset`; a reader has its own columns, validation and limits.

    Attributes
    ----------
    epoch : int
        The number of the pass, from 0 on; it rises when a pass is over, and may be set between passes.
    schema : Schema
        Of the rows.

    Raises
    ------
    UsageError
        The options contradict each other, or the state is that of another share; else errors are those of
        `open_dataset`.

    Examples
    --------
    >>> import tempfile, arrowipc as ipc
    >>> path = tempfile.mkdtemp() + "/rows.arrow"
    >>> ipc.write([{"x": [0, 1, 2]}, {"x": [3, 4]}], path)
    >>> rows = ipc.RowStream(path, batch_size=2, format="numpy")
    >>> next(iter(rows))["x"].tolist(), rows.state_dict()
    ([0, 1], {'epoch': 0, 'rows': 2, 'share': (0, 1), 'shuffle': 0, 'seed': 0})
    >>> again = ipc.RowStream(path, batch_size=2, format="numpy")
    >>> again.load_state_dict(rows.state_dict())
    >>> [batch["x"].tolist() for batch in again], again.epoch
    ([[2, 3], [4]], 1)
    """

    __slots__ = (
        *("__weakref__", "_batch_size", "_done", "_drop_last", "_process", "_reader", "_resume", "_rows", "_seed"),
        *("_share", "_shuffle", "epoch", "schema"),
    )

    schema: Schema

    @with_advice
    def __init__(
        self,
        source: Any,
        *,
        batch_size: int | None = None,
        shuffle: int = 0,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        columns: Iterable[str | int] | str | int | None = None,
        format: Literal["python", "numpy", "arrow"] = "python",
        transform: Callable[[Any], Any] | None = None,
        extensions: Extensions = None,
        validate: Literal["none", "full", "strict"] = "full",
        limits: Limits | None = None,
    ) -> None:
        self._make_once("_format")
        self._become(format, transform, extensions)
        self._batch_size = None if batch_size is None else check_integer("batch_size", batch_size, 1, 2**31 - 1)
        self._shuffle = check_integer("shuffle", shuffle, 0, 2**40)
        self._seed = check_integer("seed", seed, 0, 2**63 - 1)
        self._drop_last = check_flag("drop_last", drop_last)
        if (rank is None) != (world_size is None):
            raise UsageError("rank and world_size belong together: give both or none")
        self._process = None
        if rank is not None and world_size is not None:
            check_integer("rank", rank, 0, check_integer("world_size", world_size, 1, 2**31 - 1) - 1)
            self._process = rank, world_size
        self._reader = source if isinstance(source, BatchReader) else None
        if self._reader is not None and (columns is not None or validate != "full" or limits is not None):
            raise UsageError("columns, validate and limits of a reader are those with which it was opened")
        options: Any = {"columns": columns, "format": format, "validate": validate, "limits": limits}
        self._rows = None if self._reader is not None else RowDataset(source, **options)
        self.schema = (self._reader or self._rows).schema  # type: ignore[union-attr]
        self.epoch: int = 0
        self._done = self._resume = 0
        self._share: tuple[int, int] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return numbers, for JSON, that another object needs to continue after the last batch or sample."""
        return {
            "epoch": self.epoch,
            "rows": self._done,
            "share": self._share,
            "shuffle": self._shuffle,
            "seed": self._seed,
        }

    def load_state_dict(self, state: Any) -> None:
        """Continue in the next pass where a pass with the same source and options was when its state was taken."""
        share = state.get("share", 0) if isinstance(state, dict) else 0
        if not (share is None or (isinstance(share, list | tuple) and len(share) == 2)):
            raise UsageError(f"a state is what state_dict() returned, found {described(state)}")
        for name, own in (("shuffle", self._shuffle), ("seed", self._seed)):
            if state.get(name, own) != own:
                raise UsageError(f"the state is of a pass with {name}={state[name]!r}, and this one has {name}={own}")
        epoch = check_integer("epoch", state.get("epoch", -1), 0, 2**63 - 1)
        rows = check_integer("rows", state.get("rows", -1), 0, 2**63 - 1)
        self.epoch, self._done, self._resume = epoch, rows, rows
        self._share = None if share is None else (share[0], share[1])

    def to_torch(self) -> Any:
        """Return a ``torch.utils.data.IterableDataset`` of the same rows; each worker of a loader has its share."""
        try:
            from arrowipc.multifile.torch_stream import TorchRows
        except ImportError as error:
            raise missing_package("to_torch", "torch") from error
        return TorchRows(self)

    def __iter__(self) -> Iterator[Any]:
        check_integer("epoch", self.epoch, 0, 2**63 - 1)
        share, skipped = _share_of(self._process), self._resume
        if skipped and self._share != share:
            raise UsageError(f"the state is that of share {self._share}, and this is {share}, as (number, of how many)")
        self._share, self._done, self._resume = share, skipped, 0
        size = self._batch_size
        for batch in rebatch(self._ordered(share, skipped), size or SAMPLES):
            if size is None:
                for sample in self._samples(batch):
                    self._done += 1
                    yield sample
            elif len(batch) == size or not self._drop_last:
                self._done += len(batch)
                yield self._transformed(self._formatted(batch))
        self.epoch += 1
        self._done, self._share = 0, None

    def _samples(self, batch: RecordBatch) -> Iterator[Any]:
        """Return the rows of a batch as samples, after the transform."""
        if self._format == "arrow":
            samples: Any = (batch.slice(i, 1) for i in range(len(batch)))
        else:
            samples = self._formatted(batch)
            if self._format == "numpy":
                rows = zip(*samples.values(), strict=True) if samples else repeat((), len(batch))
                samples = (dict(zip(batch.schema.names, row, strict=True)) for row in rows)
        return iter(samples) if self._transform is None else map(self._transform, samples)

    def _ordered(self, share: tuple[int, int], skipped: int) -> Iterator[RecordBatch]:
        """Yield the rows of a share in the order of this pass, without the first `skipped` ones."""
        window: list[Piece] = []
        number = rows = 0
        for piece in chain(self._pieces(share), [None]):
            if piece is not None:
                window.append(piece)
                rows += piece[0]
            if rows and (piece is None or rows >= self._shuffle):
                if skipped < rows:
                    yield from self._mixed(window, rows, [number, *share], skipped)
                skipped = max(skipped - rows, 0)
                number, rows, window = number + 1, 0, []
        if skipped:
            raise UsageError(f"the state is {skipped:,} rows behind the end of this source: it is of another one")

    def _mixed(self, window: list[Piece], rows: int, place: list[int], skipped: int) -> Iterator[RecordBatch]:
        """Yield the rows of some record batches, mixed with each other, without the first `skipped` ones."""
        table = Table(self.schema, [batch for _, load in window for batch in load()])
        if self._shuffle:
            table = table.take(self._chance(*place).permutation(rows)[skipped:])
        elif skipped:
            table = table.slice(skipped)
        yield from table.batches

    def _pieces(self, share: tuple[int, int]) -> Iterator[Piece]:
        """Yield the record batches of a share, in the order of this pass."""
        index, count = share
        if self._reader is not None:
            for i, batch in enumerate(self._reader):
                if i % count == index:
                    yield len(batch), partial(list, [batch])
            return
        assert self._rows is not None
        dataset = self._rows.here()
        lengths = dataset.batch_lengths()
        starts, numbers = np.cumsum(lengths) - lengths, np.arange(len(lengths))
        for i in (self._chance().permutation(numbers) if self._shuffle else numbers)[index::count].tolist():
            yield int(lengths[i]), partial(_slice, dataset, int(starts[i]), int(lengths[i]))

    def _chance(self, *place: int) -> np.random.Generator:
        return np.random.default_rng([self._seed, self.epoch, *place])

    def __repr__(self) -> str:
        return f"<RowStream: epoch {self.epoch}, rows {self._done:,}, format {self._format!r}>\n{self.schema}"


def _slice(dataset: Dataset, start: int, length: int) -> list[RecordBatch]:
    return dataset.slice(start, length).batches


def _share_of(process: tuple[int, int] | None) -> tuple[int, int]:
    """Return the share of the rows for this process, and this worker of a loader in it: (number, of how many)."""
    torch, data = sys.modules.get("torch.distributed"), sys.modules.get("torch.utils.data")
    if process is None:
        there = torch is not None and torch.is_available() and torch.is_initialized()
        process = (torch.get_rank(), torch.get_world_size()) if torch is not None and there else (0, 1)
    worker = None if data is None else data.get_worker_info()
    if worker is None:
        return process
    return process[0] * worker.num_workers + worker.id, process[1] * worker.num_workers
