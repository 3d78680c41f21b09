"""Data sets: many Arrow files and streams that are read as one; no more is read of them than is needed."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple
from weakref import proxy

import numpy as np

from arrowipc.arguments import (
    Hints,
    add_hints,
    check_choice,
    check_flag,
    check_integer,
    columns_of,
    described,
    instance_of,
)
from arrowipc.columns.truncate import compact
from arrowipc.errors import FormatError, UsageError
from arrowipc.limits import Limits
from arrowipc.multifile.fragments import SMALL, Fragment, Opener, Unreadable
from arrowipc.multifile.partitioning import key_type, key_value, keys_of
from arrowipc.multifile.unify import FileMapping, SchemaUnion, without_ids
from arrowipc.options import with_advice
from arrowipc.reader import instead_of_rows, open_stream
from arrowipc.schemas import Field, Schema
from arrowipc.sources.files import find_files, is_url, naming
from arrowipc.tables import Table
from arrowipc.types import as_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Literal, TypeAlias, TypeVar

    from arrowipc.arguments import Extensions
    from arrowipc.columns.record_batch import RecordBatch
    from arrowipc.filters.pruning import Pruner
    from arrowipc.filters.row_filters import RowFilter
    from arrowipc.multifile.fragments import Lengths
    from arrowipc.options import Columns, Validate
    from arrowipc.values.row_reader import RowReader

    T = TypeVar("T")
    #: A function to call, and whether calling it ahead in a thread is worth the cost.
    Task: TypeAlias = tuple[Callable[[], T], bool]

NO_ROWS: Lengths = np.zeros(0, np.int64)
#: How many batches are decoded ahead.
WORKERS = 4
#: Seconds that it takes to wake a thread and to get its result.
WAKING = 100e-6
#: How many remote files' ends are fetched at the same time: their cost is waiting.
FETCHES = 16


class _Plan(NamedTuple):
    """How files of one schema are read."""

    columns: tuple[str | int, ...] | None
    mapping: FileMapping
    pruner: Pruner | None
    #: Columns of the data set that the file does not have.
    missing: dict[str, None]


class Dataset(Hints):
    """Many files and streams as one; made by `open_dataset`.

    Iterating gives the batches of all files in order. Rows are numbered, from 0, through all batches that `filter`
    keeps. Any number of threads may use it. A pickle has the files, what is known of them, and the options.

    Examples
    --------
    >>> import tempfile
    >>> import arrowipc as ipc
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name, rows in (("a", {"x": [1, 2]}), ("b", {"x": [3], "y": ["new"]})):
    ...     with ipc.new_file(f"{folder.name}/{name}.arrow", ipc.RecordBatch.from_pydict(rows)) as writer:
    ...         writer.write(rows)
    >>> dataset = ipc.open_dataset(folder.name)
    >>> dataset.count_rows(), dataset.row(-1), [batch.num_rows for batch in dataset]
    (3, {'x': 3, 'y': 'new'}, [2, 1])
    >>> dataset.take([2, 0]).to_pydict(), dataset.slice(1, 1).to_pylist(), dataset.head(1).to_pylist()
    ({'x': [3, 1], 'y': ['new', None]}, [{'x': 2, 'y': None}], [{'x': 1, 'y': None}])
    >>> dataset.select("x").read_all().to_pydict(), dataset.schema.names, len(dataset.files), len(dataset.fragments)
    ({'x': [1, 2, 3]}, ['x', 'y'], 2, 2)
    >>> sum(batch.num_rows for batch in dataset.filter([("y", "is_null")]).to_batches()), dataset.skipped
    (2, {})
    >>> folder.cleanup()
    """

    __slots__ = {
        **dict.fromkeys(("__weakref__", "_by_keys", "_columns", "_exact", "_filter", "_loose", "_numbers")),
        **dict.fromkeys(("_options", "_plans", "_rows", "_unfiltered")),
        "fragments": "tuple of Fragment: the files, in order.",
        "schema": "Schema: of all batches.",
    }

    schema: Schema
    fragments: tuple[Fragment, ...]

    def __init__(
        self,
        fragments: Iterable[Fragment],
        options: _Options,
        columns: tuple[str | int, ...] | None,
        filter: Any,
        exact: Any = None,
    ) -> None:
        instance_of("Dataset: options", options, _Options, "; open_dataset() makes data sets")
        self.fragments, self._options, self._columns = tuple(fragments), options, columns
        #: The filter that rules out files and batches, and the filter that rows have to pass.
        self._filter, self._exact = filter, exact
        self._unfiltered: tuple[Dataset, RowFilter] | None = None
        #: The same without validation.
        self._loose: Dataset | None = None
        self.schema = _projected(options.schema, columns)
        self._plans: dict[bytes, _Plan] = {}
        self._numbers: dict[Fragment, list[int]] = {}
        self._rows: RowReader | None = None
        #: Decides by keys alone; making it raises an error if the filter is wrong.
        self._by_keys = None if filter is None else self._pruner(options.schema, True)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self.fragments, self._options, self._columns, self._filter, self._exact)

    @property
    def files(self) -> list[str]:
        """List of str: paths and URLs of the files, in order."""
        return [fragment.path for fragment in self.fragments]

    @property
    def skipped(self) -> dict[str, str]:
        """dict: path of each file from which something was skipped so far (`on_error`) -> the first reason."""
        return dict(self._options.opener.skipped)

    def select(self, columns: Columns) -> Dataset:
        """Return the data set of some columns, by name, index or dotted path; a NotFoundError where there is none."""
        wanted = None if columns is None else columns_of(columns)
        if wanted is not None:
            _projected(self.schema, wanted)  # raises an error if they are wrong
            names = self.schema.names
            if len(set(names)) == len(names):
                wanted = tuple([names[each] if isinstance(each, int) else each for each in wanted])
            known = self._columns
            if known is not None:
                wanted = tuple(chain.from_iterable([_within(known, each) for each in wanted]))
        return self._select(self._columns if wanted is None else wanted)

    def _select(self, columns: Iterable[str | int] | None) -> Dataset:
        wanted = None if columns is None else tuple(columns)
        return Dataset(self.fragments, self._options, wanted, self._filter, self._exact)

    @with_advice
    def filter(self, filter: Any) -> Dataset:
        """Return the data set of the rows that pass `filter`, and earlier filters; nothing is read.

        Files are left out by their hive keys and batches by their statistics before any row is looked at. A null passes
        ``is_null`` and nothing else; NaN is above all numbers. A UsageError says what is wrong with the filter.
        """
        exact = _both(self._exact, filter)
        return Dataset(self.fragments, self._options, self._columns, _both(self._filter, filter), exact)

    def prune(self, filter: Any) -> Dataset:
        """Return the data set without the files and batches in which no row passes `filter`; nothing is read.

        As `filter`, for callers who filter rows themselves: rows of the batches that are left need not pass.
        """
        return Dataset(self.fragments, self._options, self._columns, _both(self._filter, filter), self._exact)

    # -- batches in order --

    def __iter__(self) -> Iterator[RecordBatch]:
        tasks = self._tasks()
        return (batch for batch in _in_order(tasks, self._options.workers) if batch is not None)

    @with_advice
    def to_batches(self) -> Iterator[RecordBatch]:
        """Iterate over the batches of all files, in order.

        A file that is damaged or does not fit raises an ArrowIpcError when it is reached, and a file that is gone or
        was replaced raises an OSError.
        """
        return iter(self)

    @with_advice
    def read_all(self) -> Table:
        """Read all batches into a `Table`."""
        return Table(self.schema, self)

    @with_advice
    def head(self, n: int = 5) -> Table:
        """Return the first `n` rows; no more batches are read than have them."""
        check_integer("head: n", n, 0, 2**63 - 1)
        found: list[RecordBatch] = []
        batches = iter(self)
        while n > 0 and (batch := next(batches, None)) is not None:
            found.append(batch.slice(0, n))
            n -= batch.num_rows
        return Table(self.schema, found)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand all batches over the Arrow C stream interface, one at a time; `requested_schema` is ignored."""
        from arrowipc.cdata.export import export_stream

        return export_stream(self.schema, iter(self), requested_schema)

    def __arrow_c_device_stream__(self, requested_schema: object | None = None, **kwargs: object) -> object:
        """Export the same as a stream of batches on the CPU: an ``arrow_device_array_stream`` PyCapsule."""
        from arrowipc.cdata.export import export_device_stream

        return export_device_stream(self.schema, iter(self), requested_schema, **kwargs)

    def _tasks(self) -> Iterator[Task[RecordBatch | None]]:
        """Yield a task for each batch of all files, in order; its result is None if the batch is left out."""
        if self._exact is not None:
            source, test = self._source()
            yield from ((partial(self._passing, task, test), worth) for task, worth in source._tasks())
            return
        opener = self._options.opener
        for fragment in self.fragments:
            if self._rules_out(fragment):
                continue
            try:
                plan = self._plan(fragment)
                numbers = self._kept(fragment, plan)
                if numbers is not None and not len(numbers):
                    continue
                reader = opener.open(fragment, plan.columns)
            except Unreadable as error:
                opener.skip(fragment.path, error)
                continue
            numbers = range(reader.num_record_batches) if numbers is None else numbers
            if is_url(fragment.path):
                reader.expect(numbers)  # so that several are fetched at once
            worth = fragment.size is None or fragment.size > SMALL
            for i in numbers:
                yield partial(self._decode, fragment, reader, plan, i), worth
        opener.report()

    def _decode(self, fragment: Fragment, reader: Any, plan: _Plan, i: int) -> RecordBatch | None:
        try:
            with naming(fragment.path):
                return plan.mapping(reader.get_batch(i), fragment.keys)
        except Unreadable as error:
            self._options.opener.skip(fragment.path, error)
            return None

    def _source(self) -> tuple[Dataset, RowFilter]:
        """Return the data set whose rows are filtered, with all columns that this requires, and the filter."""
        if self._unfiltered is None:
            from arrowipc.filters.row_filters import RowFilter

            columns, names, tested = self._columns, self._options.schema.names, self._tested()
            if columns is not None:
                plain = all(each in names for each in columns)
                columns = (*columns, *[each for each in tested if each not in columns]) if plain else None
            source = Dataset(self.fragments, self._options, columns, self._filter)
            self._unfiltered = source, RowFilter(self._exact, source.schema)
        return self._unfiltered

    def _tested(self) -> list[str]:
        """Return the names of the columns that decide about rows."""
        from arrowipc.filters.pruning import columns_at

        schema = self._options.schema
        return columns_at(tuple(schema), self._pruner(schema, True).columns)

    def _passing(self, task: Callable[[], RecordBatch | None], test: RowFilter) -> RecordBatch | None:
        batch = task()
        return None if batch is None else self._filtered(batch, test)

    def _filtered(self, batch: RecordBatch, test: RowFilter) -> RecordBatch:
        rows = test.apply(batch)
        return rows if self._columns is None else rows.select(self._columns)

    # -- rows by their number --

    @with_advice
    def count_rows(self) -> int:
        """Return the number of rows: from metadata alone, or by reading the columns of a filter."""
        if self._exact is not None:
            return sum([batch.num_rows for batch in self._select(self._tested())])
        if self._filter is None:
            return sum([int(lengths.sum()) for lengths in self._lengths()])
        return int(self._located()[1].sum())

    def batch_lengths(self) -> Any:
        """Return the rows of each batch as a NumPy array: from metadata alone, or by reading what a filter tests."""
        return self._located()[1]

    def take(self, rows: Any) -> RecordBatch:
        """Return rows in any order and number, as one batch; negative ones count from the end.

        Raise an IndexError if there is no such row. Other errors are those of `to_batches`, whatever `on_error`
        says: rows that were counted cannot be left out.
        """
        return self._reader().take(rows)

    def slice(self, offset: int = 0, length: int | None = None, *, alone: bool = False) -> Table:
        """Return rows ``[offset, offset + length)``; rows past the end are left out. Errors are those of `take`.

        `alone`: copy these rows and validate no others, which pays for few rows of large batches that are read once.
        """
        opener = self._options.opener
        if check_flag("alone", alone) and opener.validate == "full":
            if self._loose is None:
                options = self._options._replace(opener=opener.unvalidated())
                self._loose = Dataset(self.fragments, options, self._columns, self._filter, self._exact)
            with suppress(FormatError):  # the error of a whole batch says more
                found = Table(self.schema, map(compact, self._loose._reader().slice(offset, length)))
                found.validate(full=True)
                return found
        return Table(self.schema, self._reader().slice(offset, length))

    def row(self, i: int, *, extensions: Extensions = None) -> dict[str, Any]:
        """Return one row; see :meth:`arrowipc.RecordBatch.iter_rows` for `extensions`. Errors are those of `take`."""
        return self._reader().row(i, extensions=extensions)

    def _lengths(self) -> Iterator[Lengths]:
        """Yield the rows of each batch, for each fragment."""
        opener = self._options.opener

        def counted(fragment: Fragment) -> Lengths:
            if self._rules_out(fragment):
                return NO_ROWS
            try:
                return opener.count(fragment)
            except Unreadable as error:
                opener.skip(fragment.path, error)
                fragment.lengths = NO_ROWS
                return NO_ROWS

        yield from _of_each(counted, self.fragments, any(fragment.lengths is None for fragment in self.fragments))
        opener.report()

    def _located(self) -> tuple[Any, Any]:
        """Return, for each batch that the filter keeps, its fragment and number; and the rows of these batches."""
        if self._exact is not None:
            where, lengths = self._source()[0]._located()
            narrow = self._select(self._tested())
            return where, np.array([narrow._load(where, i).num_rows for i in range(len(lengths))], np.int64)
        places, lengths = [np.zeros((0, 2), np.int64)], [NO_ROWS]
        for f, counts in enumerate(self._lengths()):
            numbers = None
            if self._filter is not None and len(counts):
                numbers = self._kept(self.fragments[f], self._plan(self.fragments[f]))
            kept = np.arange(len(counts)) if numbers is None else np.array(numbers, np.int64)
            places.append(np.stack([np.full(len(kept), f), kept], axis=1))
            lengths.append(counts[kept])
        return np.concatenate(places), np.concatenate(lengths)

    def _reader(self) -> RowReader:
        """Return the object that finds rows by their number; it is made once."""
        if self._rows is None:
            from arrowipc.values.row_reader import RowReader

            where, lengths = self._located()
            # A proxy avoids a reference cycle: the files are closed with the last reference to the data set.
            load: Callable[[int], RecordBatch] = partial(Dataset._load, proxy(self), where)
            if not len(lengths):
                nothing = Table(self.schema, [])
                lengths, load = np.zeros(1, np.int64), lambda _: nothing.combine()
            cache_bytes = (self._options.opener.limits or Limits()).row_cache_bytes
            self._rows = RowReader(lengths, load, cache_bytes=cache_bytes)
        return self._rows

    def _load(self, where: Any, i: int) -> RecordBatch:
        """Read batch `i` of those that the filter keeps."""
        if self._exact is not None:
            source, test = self._source()
            return self._filtered(source._load(where, i), test)
        f, number = where[i].tolist()
        fragment = self.fragments[f]
        plan = self._plan(fragment)
        with naming(fragment.path):
            return plan.mapping(self._options.opener.open(fragment, plan.columns).get_batch(number), fragment.keys)

    # -- how a file is read --

    def _plan(self, fragment: Fragment) -> _Plan:
        """Return how a file is read; the plan is the same for all files of one schema."""
        options = self._options
        options.opener.read_schema(fragment)
        schema = fragment.schema
        assert schema is not None
        plan = self._plans.get(schema.serialize())
        if plan is None:
            with naming(fragment.path):
                plan = self._plans[schema.serialize()] = self._planned(schema)
        return plan

    def _planned(self, schema: Schema) -> _Plan:
        options = self._options
        keys = options.keys
        files = [field for field in options.schema if field.name not in keys]
        columns: tuple[str | int, ...] | None
        if list(schema) == files:  # also where names repeat
            names = options.schema.names
            columns = self._columns and tuple(
                [each for each in self._columns if (names[each] if isinstance(each, int) else each) not in keys]
            )
        else:
            wanted = dict.fromkeys([field.name for field in self.schema if field.name not in keys])
            columns = tuple(chain.from_iterable([schema.get_all_field_indices(name) for name in wanted]))
        have = _projected(schema, columns)
        most = (options.opener.limits or Limits()).decompressed_bytes
        mapping = FileMapping(have, self.schema, keys, most, options.on_missing)
        missing = {field.name: None for field in files if field.name not in schema}
        pruner = None
        if self._filter is not None:
            others = [field for field in options.schema if field.name in keys or field.name in missing]
            pruner = self._pruner(schema.__replace__(fields=[*_without(schema, keys), *others]), False)
        return _Plan(columns, mapping, pruner, missing)

    def _pruner(self, schema: Schema, strict: bool) -> Pruner:
        from arrowipc.filters.pruning import Pruner

        return Pruner(self._filter, schema, strict=strict)

    def _rules_out(self, fragment: Fragment) -> bool:
        """Whether no row of a file can pass the filter, by its keys."""
        return self._by_keys is not None and bool(fragment.keys) and not self._by_keys.keeps(None, fragment.keys)

    def _kept(self, fragment: Fragment, plan: _Plan) -> Any:
        """Return the numbers of the batches that the filter keeps; None: all of them."""
        pruner = plan.pruner
        if pruner is None:
            return None
        keys = {**dict.fromkeys(self._options.keys), **fragment.keys, **plan.missing}
        if not pruner.keeps(None, keys):
            return ()
        if keys.keys() >= set(pruner.columns):
            return None
        numbers = self._numbers.get(fragment)
        if numbers is None:
            from arrowipc.sources.file_statistics import file_statistics

            reader = self._options.opener.open(fragment, plan.columns)
            with naming(fragment.path):
                found = file_statistics(reader, pruner.columns)
            numbers = self._numbers[fragment] = [i for i, known in enumerate(found) if pruner.keeps(known, keys)]
        return numbers

    def __repr__(self) -> str:
        return f"<Dataset: files: {len(self.fragments):,}>\n{self.schema}"


_INSTEAD = {"paths": "files", "scan": "arrowipc.scan_polars(dataset)", "where": "filter(conditions)"}
_INSTEAD |= dict.fromkeys(("batch", "shuffle"), "RowStream(dataset, batch_size=..., shuffle=...)")
add_hints(Dataset, {**instead_of_rows(), **_INSTEAD})


class _Options(NamedTuple):
    """The parts that data sets of the same files share: the schema of all columns, and how files are opened."""

    schema: Schema
    #: Names of the columns that are hive keys.
    keys: frozenset[str]
    on_missing: Literal["null", "error"]
    workers: int
    opener: Opener


def _both(known: Any, filter: Any) -> Any:
    """Combine two filters; None lets all pass."""
    return filter if known is None else known if filter is None else ("and", known, filter)


def _without(schema: Schema, names: frozenset[str]) -> list[Field]:
    return [field for field in schema if field.name not in names]


def _within(known: tuple[str | int, ...], column: str | int) -> Iterable[str | int]:
    """Return those of the columns read that a column of the result means: all parts of a struct, for instance."""
    if isinstance(column, int):
        return (known[column],)
    if column in known:
        return (column,)
    parts = [each for each in known if str(each).startswith(f"{column}.")]
    return parts or (column,)


def _projected(schema: Schema, columns: tuple[str | int, ...] | None) -> Schema:
    """Return the schema of these columns, chosen by the rules of readers."""
    if columns is None:
        return schema
    most = Limits(metadata_bytes=2**31 - 1)
    with open_stream(schema.serialize(), columns=columns, limits=most) as reader:
        return reader.schema


def _in_order(tasks: Iterator[Task[T]], workers: int) -> Iterator[T]:
    """Yield the results of tasks in order, and errors in their place; `workers` tasks run ahead.

    Tasks run ahead only after one took longer than waking a thread: a caller who takes a single result wakes none.
    """
    for task, worth in tasks:
        start = perf_counter()
        found = task()
        is_slow = worth and perf_counter() - start > WAKING
        yield found
        if workers and is_slow:
            break
    else:
        return
    from arrowipc.codecs import HelperCall, ask

    ahead: deque[HelperCall] = deque()
    failure: BaseException | None = None
    try:
        while True:
            while failure is None and len(ahead) < workers:
                try:
                    task, worth = next(tasks)
                except BaseException as error:
                    failure = error
                    break
                ahead.append(HelperCall(task))
                if worth:
                    ask(ahead[-1], workers)
            if not ahead:
                break
            yield ahead.popleft().result()
        if failure is not None and not isinstance(failure, StopIteration):
            raise failure
    finally:
        for call in ahead:
            call.take_back()


def _of_each(function: Callable[[Fragment], T], fragments: Sequence[Fragment], at_once: bool = True) -> Iterator[T]:
    """Yield the results of a function for each fragment, in order; call it for several remote ones at the same time."""
    remote = at_once and any(is_url(fragment.path) for fragment in fragments)
    return _in_order(((partial(function, fragment), True) for fragment in fragments), FETCHES if remote else 0)


def open_dataset(
    paths: Any,
    *,
    columns: Columns = None,
    schema: Any = None,
    partitioning: Literal["hive"] | None = "hive",
    filter: Any = None,
    on_missing: Literal["null", "error"] = "null",
    on_error: Literal["raise", "skip"] = "raise",
    workers: int = WORKERS,
    validate: Validate = "full",
    limits: Limits | None = None,
    verify: bool | None = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """Open many Arrow files and streams as one data set.

    Parameters
    ----------
    paths : path, URL, or list of them
        Files; folders, which are searched to any depth, without names that begin with ``.`` or (except for keys) with
        ``_``; and patterns with ``*``, ``?``, ``[...]``, ``**`` and ``{a,b}``. If a folder has files named
        ``.arrow``, ``.arrows``, ``.feather`` or ``.ipc``, others are ignored. Files are in the order of the paths,
        sorted within each; one that two paths name is there twice. Files and streams may be mixed.
    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    schema : Schema, or what :func:`arrowipc.schema` takes, optional
        The schema of all batches: columns that a file lacks are null, others that it has are left out. No file is
        opened before it is needed. Default: the schema of every file is read, and the schemas are united: a column
        has the type that holds all its values (the wider integer or float, 64-bit offsets for text, binary and lists
        that differ, the values of dictionaries that differ), or there is an error.
    partitioning : {"hive", None}
        Whether folders named ``key=value`` below the paths (of files that are named one by one, in their whole paths)
        are columns after all others: int64 if all values are integers, date32 if all are dates, else text, or as
        `schema` says; ``__HIVE_DEFAULT_PARTITION__`` is null. They come before columns of that name in the files.
    filter : list, optional
        Which rows are wanted: ``[("t", ">=", x), ("carrier", "in", [...]), ("x", "is_null")]``, all of which have to
        hold, or ``("or", a, b)``, as in `Dataset.filter`: other rows are not returned. Files are left out by their
        keys and batches by their statistics.
    on_missing : {"null", "error"}
        How a column that a file lacks is treated.
    on_error : {"raise", "skip"}
        What happens with files that are damaged, gone or not Arrow data, and with batches that cannot be decoded: an
        error, or they are skipped (`Dataset.skipped` says why). `recover` saves the intact batches of a truncated file.
    workers : int, default 4
        Batches that are decoded ahead in threads; each takes the memory of one. 0: none.
    validate : {"full", "none", "strict"}
        As in `open`.
    limits : Limits, optional
        Bounds on what the bytes of one file may ask for; `dataset_columns` bounds all together.
    verify : bool or None, default False
        As in `open`: compare all messages that are read with their checksums.
    storage_options : mapping, optional
        Options of the file system of URLs, such as credentials.

    Returns
    -------
    Dataset

    Raises
    ------
    UsageError
        There is no such file; schemas, columns or the filter do not fit; an option is unknown.
    FormatError
        A file is damaged, or no Arrow data.
    OSError
        A file cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import arrowipc as ipc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for year in (2023, 2024):
    ...         os.mkdir(f"{folder}/year={year}")
    ...         with ipc.new_file(f"{folder}/year={year}/a.arrow") as writer:
    ...             writer.write({"x": [year % 100]})
    ...     ipc.open_dataset(folder, filter=[("year", ">", 2023)]).read_all().to_pylist()
    [{'x': 24, 'year': 2024}]
    """
    check_choice("partitioning", partitioning, ("hive", None))
    check_choice("on_missing", on_missing, ("null", "error"))
    check_choice("on_error", on_error, ("raise", "skip"))
    check_choice("validate", validate, ("none", "full", "strict"))
    check_integer("workers", workers, 0, 1024)
    if verify is not None:
        verify = check_flag("verify", verify)
    if schema is not None:
        schema = as_schema(schema)
    found = find_files(_paths(paths), storage=storage_options, arrow_first=True)
    texts = [keys_of(file.path, file.below) if partitioning else {} for file in found]
    names = dict.fromkeys(chain.from_iterable(texts))
    if schema is None:
        kinds = {name: key_type([each.get(name) for each in texts]) for name in names}
    else:
        kinds = {name: schema.field(name).type for name in names if name in schema}
    fragments = [
        Fragment(
            file.path,
            file.size if is_url(file.path) else None,
            {name: key_value(file.path, name, keys.get(name), kind) for name, kind in kinds.items()},
        )
        for file, keys in zip(found, texts, strict=True)
    ]
    if limits is not None:
        instance_of("limits", limits, Limits)
    opener = Opener({"validate": validate, "limits": limits, "verify": verify}, on_error, storage_options)
    if schema is None:
        schema = _united(fragments, opener, frozenset(kinds))
        if kinds:
            schema = schema.__replace__(fields=[*schema, *[Field(name, kind) for name, kind in kinds.items()]])
    else:
        schema = without_ids(schema)
    options = _Options(schema, frozenset(kinds), on_missing, workers, opener)
    return Dataset(fragments, options, None, filter, filter).select(columns)


def _paths(paths: Any) -> list[str]:
    """Return paths and URLs as a list of text."""
    try:
        given = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    except TypeError:
        given = [None]
    if not all(isinstance(path, str) for path in given):
        raise UsageError(f"expected a path, a URL or a list of them, found {described(paths)}")
    return given


def _united(fragments: list[Fragment], opener: Opener, keys: frozenset[str]) -> Schema:
    """Return the schema of all files without keys; remove files that cannot be read from the list, or raise."""

    def looked(fragment: Fragment) -> Fragment | None:
        try:
            opener.read_schema(fragment)
        except Unreadable as error:
            opener.skip(fragment.path, error)
            return None
        return fragment

    union = SchemaUnion((opener.limits or Limits()).dataset_columns)
    whole = list(_of_each(looked, fragments))
    opener.report()
    last: Schema | None = None
    for fragment in whole:
        if fragment is None:
            continue
        assert fragment.schema is not None
        if fragment.schema is not last:
            last = fragment.schema
            known = last.__replace__(fields=_without(last, keys)) if any(name in last for name in keys) else last
            with naming(fragment.path):
                union.add(known, fragment.path)
    if last is None:
        raise UsageError(f"no file can be read: {next(iter(opener.skipped.items()))}")
    fragments[:] = [fragment for fragment in whole if fragment is not None]
    return union.schema
