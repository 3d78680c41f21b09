"""Rows of files as a map-style data set, from which loaders of training data take samples and batches."""

from __future__ import annotations

import os
import pickle
import sys

from arrowipc.arguments import Hints, MadeOnce, add_hints, by_name, check_choice, described, items_of
from arrowipc.datatypes import FloatingPoint, Int, LargeList, List
from arrowipc.errors import UsageError
from arrowipc.multifile.dataset import Dataset, open_dataset
from arrowipc.options import with_advice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Literal

    import numpy.typing as npt

    from arrowipc.arguments import Extensions
    from arrowipc.columns.array import Array
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.limits import Limits
    from arrowipc.schemas import Schema


class ArrayBatch(dict[str, "Any"]):
    """A batch of arrays by column; row 0 is ``batch[0]``, by which torch's default ``collate_fn`` recognises the batch.

    That function is made for lists of samples, and looks at the first one.
    """

    __slots__ = ()

    def __missing__(self, name: Any) -> ArrayRow:
        collating = sys.modules.get("torch.utils.data._utils.collate")
        if collating is None or name != 0:
            raise KeyError(name)
        collating.default_collate_fn_map[ArrayRow] = lambda batch, **_: collating.default_convert(dict(batch))
        return ArrayRow({name: values[0] for name, values in self.items()})


class ArrayRow(dict[str, "Any"]):
    """Row 0 of an `ArrayBatch`."""

    __slots__ = ()


#: What data sets for loaders have -> the names that other libraries have for it.
_INSTEAD = by_name(
    {
        'load_state_dict({**state_dict(), "epoch": number})': "set_epoch",
        "rows[[0, 2]]": "take",
        "schema": "features",
        "RowDataset(open_dataset(path, filter=...))": "filter",
        "RowStream(source, batch_size=..., shuffle=..., rank=...) has it": (
            "batch batch_size load_state_dict repeat shard shuffle skip split state_dict"
        ),
        "schema.names": "column_names columns names",
        "select(columns) of a Dataset, columns=...": "select",
        "torch.utils.data.DataLoader takes it": "collate_fn num_workers prefetch",
        "transform=... and format=...": "map set_format with_format with_transform",
    }
)


class Samples(MadeOnce, Hints):
    """Base of data sets for loaders: makes samples and batches in one of the formats."""

    __slots__ = ("_extensions", "_format", "_transform")

    _extensions: Extensions
    _format: str
    _transform: Callable[[Any], Any] | None

    def _become(self, format: str, transform: Callable[[Any], Any] | None, extensions: Extensions) -> None:
        self._format = check_choice("format", format, ("python", "numpy", "arrow"))
        self._transform, self._extensions = transform, extensions

    def _formatted(self, taken: RecordBatch) -> Any:
        """Return a batch in the format."""
        if self._format == "python":
            return taken.to_pylist(extensions=self._extensions)
        if self._format == "numpy":
            return ArrayBatch({name: _values(taken.column(i)) for i, name in enumerate(taken.schema.names)})
        return taken

    def _transformed(self, batch: Any) -> Any:
        """Return a batch, or its samples, after the transform."""
        transform = self._transform
        if transform is None:
            return batch
        return list(map(transform, batch)) if self._format == "python" else transform(batch)


add_hints(Samples, _INSTEAD)


class RowDataset(Samples):
    """The rows of Arrow files and streams, by number: what ``torch.utils.data.DataLoader`` calls a map-style data set.

    ``dataset[i]`` is a sample; ``dataset[[3, 1, 2]]``, and ``__getitems__``, which loaders call with the rows of a
    whole batch, decode each record batch that is needed once. Nothing else is read. A pickle holds the paths and the
    options, and after a fork the files are opened again: processes share the pages of the files and nothing else.

    Parameters
    ----------
    source : path, URL, pattern, folder, list of them, or Dataset
        What `open_dataset` takes. Streams get an index of their batches.
    format : {"python", "numpy", "arrow"}
        What samples and batches are made of; see the notes.
    transform : callable, optional
        A function that is called with each sample of Python values, or each sample or batch of another format, and
        returns its replacement. Processes that are spawned need one that can be pickled.
    extensions : bool or mapping, optional
        As in :meth:`arrowipc.RecordBatch.to_pylist`; of Python values only.
    columns, validate, limits
        As in `open_dataset`.

    Raises
    ------
    UsageError
        The options contradict each other; else errors are those of `open_dataset` and `Dataset.take`.

    Notes
    -----
    ========  ================================  ==================================================================
    format    a sample                          a batch
    ========  ================================  ==================================================================
    python    dict of Python values             list of samples, as torch's default ``collate_fn`` takes it
    numpy     dict of NumPy scalars and arrays  one dict of arrays with one value per row, first axis: the rows;
                                                torch's default ``collate_fn`` makes tensors of them
    arrow     `RecordBatch` of one row          `RecordBatch`, whose columns know DLPack
    ========  ================================  ==================================================================

    Lists of numbers, also nested ones, become arrays with an axis more for each depth where all are of one length;
    else each list of numbers is an array. Values that NumPy has no type for are Python objects.

    Examples
    --------
    >>> import tempfile, arrowipc as ipc
    >>> path = tempfile.mkdtemp() + "/rows.arrow"
    >>> with ipc.new_file(path) as writer:
    ...     writer.write({"x": [1.5, 2.5], "y": ["a", "b"]})
    >>> dataset = ipc.RowDataset(path)
    >>> len(dataset), dataset[1], dataset[[0, -2]]
    (2, {'x': 2.5, 'y': 'b'}, [{'x': 1.5, 'y': 'a'}, {'x': 1.5, 'y': 'a'}])
    >>> ipc.RowDataset(path, columns="x", format="numpy")[[0, 1]]
    {'x': array([1.5, 2.5])}
    """

    __slots__ = ("__weakref__", "_pid", "_rows", "_size")

    @with_advice
    def __init__(
        self,
        source: Any,
        *,
        columns: Iterable[str | int] | str | int | None = None,
        format: Literal["python", "numpy", "arrow"] = "python",
        transform: Callable[[Any], Any] | None = None,
        extensions: Extensions = None,
        validate: Literal["none", "full", "strict"] = "full",
        limits: Limits | None = None,
    ) -> None:
        self._make_once("_format")
        self._become(format, transform, extensions)
        if not isinstance(source, Dataset):
            source = open_dataset(_absolute(source), columns=columns, validate=validate, limits=limits)
        elif columns is not None:
            source = source.select(columns)
        names = source.schema.names
        if format != "arrow" and len(set(names)) < len(names):
            raise UsageError('columns share a name: choose some by number, or format="arrow", which is no dict')
        self._rows: Dataset = source
        self._pid = os.getpid()
        self._size: int = source.count_rows()

    @property
    def schema(self) -> Schema:
        """Schema: of the rows, after projection; its metadata has Hugging Face's description of the features."""
        return self._rows.schema

    def to_torch(self) -> Any:
        """Return this object, as ``DataLoader(rows.to_torch())`` for type checkers: torch names its own class there."""
        return self

    def here(self) -> Dataset:
        """Return the rows for this process: after a fork, nothing of the parent's is shared (locks, descriptors)."""
        if self._pid != (here := os.getpid()):
            # The pickle has size and time of the files: a file that was replaced meanwhile is an error.
            self._rows = pickle.loads(pickle.dumps(self._rows))
            self._pid = here
        return self._rows

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, i: Any) -> Any:
        """Return a sample; for a slice or several numbers, a batch."""
        if isinstance(i, slice):
            return self.__getitems__(range(len(self))[i])
        if type(i) is not int and (not hasattr(i, "__index__") or getattr(i, "ndim", 0) > 0):
            return self.__getitems__(i)
        sample: Any
        if self._format == "python":
            sample = self.here().row(i, extensions=self._extensions)
        elif self._format == "numpy":
            sample = {name: values[0] for name, values in self._batch([i]).items()}
        else:
            sample = self._batch([i])
        return sample if self._transform is None else self._transform(sample)

    def __getitems__(self, rows: Sequence[int] | npt.NDArray[Any]) -> Any:
        """Return the batch of some rows, in this order; what loaders call and give to their ``collate_fn``."""
        return self._transformed(self._batch(rows))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _batch(self, rows: Any) -> Any:
        return self._formatted(self.here().take(rows))

    def __repr__(self) -> str:
        return f"<RowDataset: {len(self):,} rows, format {self._format!r}>\n{self.schema}"


def _absolute(source: Any) -> Any:
    """Return paths as another process finds them, and URLs as they are."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return path if "://" in path else os.path.abspath(path)
    if hasattr(source, "__arrow_c_stream__"):
        raise UsageError(
            f"source: expected paths, URLs or a Dataset, found {described(source)}: write(data, path) before"
        )
    return [_absolute(each) for each in items_of("source", source)]


def _values(array: Array) -> npt.NDArray[Any]:
    """Return one value for each row; lists become one array if all at each depth have the same length, else arrays."""
    import numpy as np

    kind, count = array.type, len(array)
    if not isinstance(kind, (List, LargeList)) or array.null_count or not count:
        return _copied(array)
    offsets = array.buffers()[1]
    assert offsets is not None  # there are rows
    width = np.dtype("<i4" if isinstance(kind, List) else "<i8")
    ends = np.frombuffer(offsets, width, count + 1, array.offset * width.itemsize).astype(np.int64)
    first, length = int(ends[0]), int(ends[1] - ends[0])
    items = _values(array.children[0].slice(first, int(ends[-1]) - first))
    if items.dtype != object and (ends[1:] - ends[:-1] == length).all():
        return items.reshape(count, length, *items.shape[1:])
    if kind.children[0].type.children:
        return _copied(array)
    out, starts = np.empty(count, object), (ends - first).tolist()
    for k in range(count):
        out[k] = items[starts[k] : starts[k + 1]]
    return out


def _copied(array: Array) -> npt.NDArray[Any]:
    """Return a copy that may be written to, as torch requires."""
    import numpy as np

    if isinstance(array.type, (Int, FloatingPoint)) and not array.null_count:
        return np.array(memoryview(array))  # takes a quarter of the time
    return array.to_numpy(copy=True)
