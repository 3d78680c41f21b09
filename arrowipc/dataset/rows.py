"""Rows of files as a map-style data set, from which loaders of training data take samples and batches."""

from __future__ import annotations

import os
import pickle

from arrowipc.arguments import check_choice, items_of
from arrowipc.dataset.dataset import Dataset, open_dataset
from arrowipc.dataset.hugging_face import saved_files
from arrowipc.datatypes import FloatingPoint, Int, LargeList, List
from arrowipc.errors import FormatError, NotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, Literal

    import numpy.typing as npt

    from arrowipc.arguments import Extensions
    from arrowipc.columns.array import Array
    from arrowipc.limits import Limits
    from arrowipc.schema import Schema

__all__ = ["RowDataset"]


class RowDataset:
    """The rows of Arrow files and streams, by number: what ``torch.utils.data.DataLoader`` calls a map-style data set.

    ``dataset[i]`` is a sample; ``dataset[[3, 1, 2]]``, and ``__getitems__``, which loaders call with the rows of a
    whole batch, decode each record batch that is needed once. Nothing else is read. A pickle holds the paths and the
    options, and after a fork the files are opened again: processes share the pages of the files and nothing else.

    Parameters
    ----------
    source : path, URL, pattern, folder, list of them, or Dataset
        What `open_dataset` takes; also a folder that Hugging Face's ``save_to_disk`` wrote, whose ``state.json`` says
        which shards it has, and an index of rows if there is one. Streams get an index of their batches.
    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    split : str, optional
        Which part of a saved ``DatasetDict`` is meant.
    indices : sequence of int, array or path, optional
        Rows that the data set has, in this order; a path leads to a file or stream whose first column has them, as
        ``shuffle(indices_cache_file_name=...)`` of Hugging Face writes it. It stays a file, which processes share.
    window : sequence of int, optional
        A sample is not row `i`, but the rows ``i + delta``, one value of each column for each delta.
    edges : {"error", "clip"}
        What happens to a window that crosses the first or last row: an IndexError, or that row is repeated.
    format : {"python", "numpy", "arrow"}
        What samples and batches are made of; see the notes.
    transform : callable, optional
        What is called with each sample of Python values, or each sample or batch of another format, and returns what
        takes its place. Processes that are spawned need one that can be pickled.
    extensions : bool or mapping, default False
        As in :meth:`arrowipc.RecordBatch.to_pylist`; of Python values only.
    validate : {"full", "none", "strict"}
        As in `open`.
    limits : Limits, optional
        As in `open`.

    Raises
    ------
    UsageError
        The options contradict each other, or the folder holds several splits.
    FormatError, LimitError, UnsupportedError
        The bytes cannot be decoded; files differ in schema; an index names a row that does not exist.
    IndexError
        When a row is asked for that is not there.
    OSError
        A file cannot be read; a shard is missing.

    Notes
    -----
    ========  ================================  ==================================================================
    format    a sample                          a batch
    ========  ================================  ==================================================================
    python    dict of Python values             list of samples, as torch's default ``collate_fn`` takes it
    numpy     dict of NumPy scalars and arrays  one dict of arrays with one value per row, first axis: the rows
    arrow     `RecordBatch` of one row          `RecordBatch`, whose columns know DLPack
    ========  ================================  ==================================================================

    With a window, Python values are lists and arrays have one axis more, of the deltas; batches of Arrow have the rows
    of one window after those of the other. Lists of numbers become arrays with one axis more where all are of one
    length, else each one an array. Values that NumPy has no type for are Python objects.

    Examples
    --------
    >>> import tempfile, arrowipc as ipc
    >>> path = tempfile.mkdtemp() + "/rows.arrow"
    >>> with ipc.new_file(path, batch := ipc.RecordBatch.from_pydict({"x": [1.5, 2.5], "y": ["a", "b"]})) as writer:
    ...     writer.write_batch(batch)
    ...     writer.write_batch(batch)
    >>> dataset = ipc.RowDataset(path)
    >>> len(dataset), dataset[3], dataset[[2, -3]]
    (4, {'x': 2.5, 'y': 'b'}, [{'x': 1.5, 'y': 'a'}, {'x': 2.5, 'y': 'b'}])
    >>> ipc.RowDataset(path, columns="x", window=[-1, 0], edges="clip", format="numpy")[[0, 3]]
    {'x': array([[1.5, 1.5],
           [1.5, 2.5]])}
    """

    __slots__ = ("__weakref__", "_deltas", "_options", "_order", "_pid", "_rows", "_size")

    def __init__(
        self,
        source: Any,
        *,
        columns: Iterable[str | int] | str | int | None = None,
        split: str | None = None,
        indices: Any = None,
        window: Sequence[int] | None = None,
        edges: Literal["error", "clip"] = "error",
        format: Literal["python", "numpy", "arrow"] = "python",
        transform: Callable[[Any], Any] | None = None,
        extensions: Extensions = False,
        validate: Literal["none", "full", "strict"] = "full",
        limits: Limits | None = None,
    ) -> None:
        check_choice("format", format, ("python", "numpy", "arrow"))
        check_choice("edges", edges, ("error", "clip"))
        self._options: dict[str, Any] = {
            "format": format,
            "edges": edges,
            "transform": transform,
            "extensions": extensions,
        }
        source, order = _absolute(source), indices
        saved = saved_files(source, split) if isinstance(source, str) and os.path.isdir(source) else None
        if saved is None and split is not None:
            raise UsageError("split is for folders that Hugging Face's save_to_disk wrote")
        source, listed = (source, []) if saved is None else saved
        if listed and order is not None:
            raise UsageError("indices: the folder has some of its own; give its shards instead, to use others")
        given: dict[str, Any] = {"validate": validate, "limits": limits}
        if saved is not None:
            given |= {"partitioning": None, "on_missing": "error"}
        if not isinstance(source, Dataset):
            source = open_dataset(source, columns=columns, **given)
        elif columns is not None:
            source = source.select(columns)
        names = source.schema.names
        if format != "arrow" and len(set(names)) < len(names):
            raise UsageError('columns share a name: choose some by number, or format="arrow", which is no dict')
        self._rows: Dataset = source
        self._pid = os.getpid()
        self._size: int = source.count_rows()
        self._order: Any = None
        if listed or isinstance(order, (str, os.PathLike)):
            self._order = open_dataset(listed or _absolute(order), columns=[0], **given | {"partitioning": None})
            self._size = self._order.count_rows()
        elif order is not None:
            self._order = _rows_of(order, self._size, "indices: the source")
            self._size = len(self._order)
        self._deltas = None if window is None else _integers(window, "window").clip(-self._size, self._size)
        if self._deltas is not None and not len(self._deltas):
            raise UsageError("window: expected at least one delta, such as [0]")

    @property
    def schema(self) -> Schema:
        """Schema: of the rows, after projection; its metadata has Hugging Face's description of the features."""
        return self._rows.schema

    def _here(self) -> Dataset:
        """The rows for this process: after a fork no lock, descriptor or connection is shared with the parent."""
        if self._pid != (here := os.getpid()):
            if isinstance(self._order, Dataset):
                self._order = pickle.loads(pickle.dumps(self._order))
            # What is known of the files goes along: a file that is another one meanwhile is an error.
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
        given, transform = self._options, self._options["transform"]
        if given["format"] == "python" and self._deltas is None:
            place = i if self._order is None else int(self._places([i])[0])
            sample = self._here().row(place, extensions=given["extensions"])
            return sample if transform is None else transform(sample)
        batch = self._batch([i])
        if given["format"] == "numpy":
            batch = {name: values[0] for name, values in batch.items()}
        elif given["format"] == "python":
            return batch[0]
        return batch if transform is None else transform(batch)

    def __getitems__(self, rows: Sequence[int] | npt.NDArray[Any]) -> Any:
        """Return the batch of some rows, in this order; what loaders call and give to their ``collate_fn``."""
        batch, transform = self._batch(rows), self._options["transform"]
        return batch if transform is None or self._options["format"] == "python" else transform(batch)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))  # an IndexError of a window must not look like the end

    def _batch(self, rows: Any) -> Any:
        """A batch in its format; of Python values each is transformed already."""
        given = self._options
        taken = self._here().take(rows if self._order is None and self._deltas is None else self._places(rows))
        width = 0 if self._deltas is None else len(self._deltas)
        if given["format"] == "arrow":
            return taken
        if given["format"] == "numpy":
            arrays = {name: _values(taken.column(i)) for i, name in enumerate(taken.schema.names)}
            if width:
                count = taken.num_rows // width
                arrays = {name: each.reshape(count, width, *each.shape[1:]) for name, each in arrays.items()}
            return arrays
        if width:
            lists = taken.to_pydict(extensions=given["extensions"])
            starts = range(0, taken.num_rows, width)
            samples = [{name: values[k : k + width] for name, values in lists.items()} for k in starts]
        else:
            samples = taken.to_pylist(extensions=given["extensions"])
        return samples if given["transform"] is None else list(map(given["transform"], samples))

    def _places(self, rows: Any) -> npt.NDArray[Any]:
        """Numbers of rows in the source that some of ours stand for, those of a window one after the other."""
        size = self._size
        places = _rows_of(rows, size, "the data set")
        if self._deltas is not None:
            whole = places[:, None] + self._deltas
            clipped = whole.clip(0, max(size - 1, 0))
            if self._options["edges"] == "error" and (wrong := (whole != clipped).any(axis=1)).any():
                raise NotFoundError(
                    f"the window of row {places[wrong.argmax()]} crosses an end of the data set, which has "
                    f'{size:,} rows: choose others with a sampler, or edges="clip"'
                )
            places = clipped.reshape(-1)
        if not isinstance(self._order, Dataset):
            return places if self._order is None else self._order[places]
        total = self._here().count_rows()  # and now the index, too, is this process's own
        found = _integers(self._order.take(places).column(0), "indices")
        if (wrong := (found < 0) | (found >= total)).any():
            k = wrong.argmax()
            raise FormatError(f"indices: row {places[k]} is row {found[k]}, and the source has {total:,}")
        return found

    def __repr__(self) -> str:
        return f"<RowDataset: {len(self):,} rows, format {self._options['format']!r}>\n{self.schema}"


def _absolute(source: Any) -> Any:
    """Paths as another process finds them; URLs and data sets as they are."""
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return path if "://" in path else os.path.abspath(path)
    return source if isinstance(source, Dataset) else [_absolute(each) for each in items_of("source", source)]


def _integers(values: Any, name: str) -> npt.NDArray[Any]:
    """Whole numbers as an array of int64."""
    import numpy as np

    found = np.asarray(values)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and len(found)):
        raise UsageError(f"{name}: expected whole numbers in a row, found {found.dtype} of shape {found.shape}")
    if found.dtype == np.uint64:
        found = np.minimum(found, np.uint64(1 << 62))  # no row has such a number: it must not become a negative one
    return found.astype(np.int64)


def _rows_of(values: Any, size: int, name: str) -> npt.NDArray[Any]:
    """Numbers of rows, negative ones from the end, as ones that count from the beginning."""
    found = _integers(values, "rows")
    if (wrong := (found < -size) | (found >= size)).any():
        raise NotFoundError(f"row {found[wrong.argmax()]} is out of range: {name} has {size:,}")
    found[found < 0] += size
    return found


def _values(array: Array) -> npt.NDArray[Any]:
    """One value for each row; lists of numbers as arrays, together as one where all are of one length."""
    import numpy as np

    kind, count = array.type, len(array)
    if not isinstance(kind, (List, LargeList)) or array.null_count or not count or kind.children[0].type.children:
        return _copied(array)
    offsets = array.buffers()[1]
    assert offsets is not None  # there are rows
    width = np.int32 if isinstance(kind, List) else np.int64
    ends = np.frombuffer(offsets, width)[array.offset : array.offset + count + 1].astype(np.int64)
    first, length = int(ends[0]), int(ends[1] - ends[0])
    items = _copied(array.children[0].slice(first, int(ends[-1]) - first))
    if items.dtype != object and (ends[1:] - ends[:-1] == length).all():
        return items.reshape(count, length)
    out, starts = np.empty(count, object), (ends - first).tolist()
    for k in range(count):
        out[k] = items[starts[k] : starts[k + 1]]
    return out


def _copied(array: Array) -> npt.NDArray[Any]:
    """Values that may be written to, as torch wants to have them."""
    import numpy as np

    if isinstance(array.type, (Int, FloatingPoint)) and not array.null_count:
        return np.array(memoryview(array))  # in a quarter of the time
    return array.to_numpy(copy=True)
