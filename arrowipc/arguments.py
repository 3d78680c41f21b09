"""Checks of arguments, base classes, metadata, and the translation of pyarrow's options."""

from __future__ import annotations

from _collections_abc import Mapping  # always loaded; `collections.abc` would also load `collections`
from _operator import index
from sys import version_info

from arrowipc.errors import ArrowIpcError, NotFoundError, UnsupportedError, UsageError, showable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar, Literal, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar, overload

    T = TypeVar("T")

    #: Whether values of extension types are converted, or a mapping: name of the type -> function of a stored value.
    Extensions: TypeAlias = "bool | Mapping[str, Callable[[Any], Any]] | None"
    #: What maps become: lists of pairs, or dicts. A repeated key is an error, or its last value counts ("lossy").
    MapsAsDicts: TypeAlias = "Literal['strict', 'lossy'] | None"
    Order: TypeAlias = Literal["ascending", "descending"]
    Nulls: TypeAlias = Literal["at_end", "at_start"]
    MetadataLike: TypeAlias = "Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None"

#: The indentation of docstrings at run time; since Python 3.13 the compiler strips it.
MARGIN = "" if version_info >= (3, 13) else "    "

#: Sets a private slot of an immutable object; these slots hold values computed from the others.
note: Callable[[object, str, object], None] = object.__setattr__


def filled(cls: type[T], *values: object, **private: object) -> T:
    """Make an immutable object from the values of its slots, in the order of ``__match_args__``."""
    self = object.__new__(cls)
    for put, value in zip(cls._setters.values(), values, strict=True):  # type: ignore[attr-defined]
        put(self, value)
    for name, value in private.items():
        note(self, name, value)
    return self


class Immutable:
    """Base of the values that describe data: slots named by ``__match_args__``, filled once.

    They are shared, so nothing may change them. ``__new__`` fills them, there is no ``__init__`` that could be called
    again, and properties hide the slots from ``object.__setattr__``. Copying with changes follows the protocol of
    :func:`copy.replace`. Unpickling calls the constructor, so that the checks run again.
    """

    __slots__ = ("__weakref__",)
    __match_args__ = ()
    __class__ = property(type)

    _setters: ClassVar[dict[str, Callable[[object, object], None]]] = {}

    def __init_subclass__(cls) -> None:
        names: tuple[str, ...] = cls.__match_args__
        slots = {name: vars(cls)[name] for name in names if name in vars(cls)}
        cls._setters = cls._setters | {name: slot.__set__ for name, slot in slots.items()}
        for name, slot in slots.items():
            setattr(cls, name, property(slot.__get__))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: make another, do not set {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: {name!r} cannot be deleted")

    def _parameters(self) -> dict[str, Any]:
        names: tuple[str, ...] = self.__match_args__
        return {name: getattr(self, name) for name in names}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._parameters().values())

    def __replace__(self, /, **changes: Any) -> Self:
        return type(self)(**{**self._parameters(), **changes})


def entries_of(text: str) -> dict[str, list[str]]:
    """Return the entries "name : kind" of a docstring: name -> the lines of the entry, without margin."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        line = line.removeprefix(MARGIN)
        if " : " in line and line[0] != " ":
            lines = found[line.partition(" : ")[0]] = []
        elif not line.strip():
            lines = []  # lines that belong to no entry
        lines.append(line)
    return found


def with_field_docs(cls: type[T]) -> type[T]:
    """Decorate a named tuple: the entry of each field in the class docstring becomes the docstring of the field."""
    for names, (first, *others) in entries_of(cls.__doc__ or "").items():
        for name in names.split(", "):
            getattr(cls, name).__doc__ = " ".join([f"{first.partition(' : ')[2]}:", *map(str.strip, others)])
    return cls


def described(value: object) -> str:
    """Return type and value of an unexpected argument as text, short enough for a message."""
    text = showable(repr(value))
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def as_integer(value: Any) -> int | None:
    """Return the integer that an object of the caller returned; None for anything else, also for True and False."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def bytes_taken(sink: object, size: int, answer: object) -> int:
    """Return how many of `size` bytes a sink took. `answer` is what its `write` or `send` returned; None means all."""
    count = size if answer is None else as_integer(answer)
    if count is None or not 0 < count <= size:
        raise OSError(
            f"the sink {described(sink)} was given {size:,} bytes and returned {described(answer)}: expected how many "
            "it took, or None for all of them"
        )
    return count


def equals_foreign(mine: Any, other: object) -> bool:
    """Return whether an object equals one of another library; an object that cannot be read is not equal."""
    try:
        return bool(mine.equals(other))
    except (ArrowIpcError, TypeError, ValueError):
        if isinstance(other, type(mine)):
            raise
        return False


def refuse_async(value: object, methods: Iterable[str], instead: str) -> None:
    """Refuse a source or sink of an event loop: one of `methods` is a coroutine function, or is ``__aiter__``."""
    for name in methods:
        method = getattr(value, name, None)
        # 0x80 is CO_COROUTINE; importing `inspect` takes longer than reading most streams.
        flags = getattr(getattr(method, "__code__", None), "co_flags", 0)
        if method is not None and (name == "__aiter__" or flags & 0x80):
            raise UsageError(f"{type(value).__name__} belongs to an event loop: {instead}")


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in the order of their first occurrence."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def instance_of(what: str, value: T, kind: type | tuple[type, ...], instead: str = "") -> T:
    """Return an argument that must be an instance of `kind`; else raise a `UsageError`."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(["None" if each is type(None) else f"a {each.__name__}" for each in kinds])
        raise UsageError(f"{what} must be {names}, found {described(value)}{instead}")
    return value


def iterator_of(what: str, values: Iterable[T]) -> Iterator[T]:
    """Return an iterator over an argument that must be iterable; else raise a `UsageError`."""
    try:
        return iter(values)
    except TypeError:
        raise UsageError(f"{what} must be a sequence, found {described(values)}") from None


def items_of(what: str, values: Iterable[T]) -> list[T]:
    """Return the items of an argument that must be iterable as a list; else raise a `UsageError`."""
    return list(iterator_of(what, values))


def columns_of(columns: Iterable[str | int] | str | int) -> tuple[str | int, ...]:
    """Return an argument that names one column or several as a tuple of names and indices; else a `UsageError`."""
    found = (columns,) if isinstance(columns, (str, int)) else tuple(items_of("columns", columns))
    for each in found:
        if isinstance(each, bool) or not isinstance(each, (str, int)):
            raise UsageError(f"columns: expected names, indices or dotted paths, found {described(each)}")
    return found


def integer_of(what: str, value: SupportsIndex, instead: str = "") -> int:
    """Return an argument that must be an integer of any class as an int; else raise a `UsageError`."""
    try:
        return index(value)
    except TypeError:
        raise UsageError(f"{what} must be an integer, found {described(value)}{instead}") from None


def batch_number(i: SupportsIndex, count: int) -> int:
    """Return the number of batch `i` of `count`, counted from the beginning; a negative `i` counts from the end."""
    number = integer_of("the number of a batch", i, "; read_all() has the columns")
    if not -count <= number < count:
        raise NotFoundError(f"record batch {i} is out of range: there are {count}")
    return number + count if number < 0 else number


def order_of(what: str, axes: Iterable[SupportsIndex], ndim: int) -> tuple[int, ...]:
    """Return an order of axes as a tuple; it must name each of `ndim` axes once, else raise a `UsageError`."""
    order = tuple([integer_of(f"{what}: each axis", axis) for axis in items_of(what, axes)])
    if sorted(order) != list(range(ndim)):
        raise UsageError(f"{what} must name each of 0..{ndim - 1} once, found {order}")
    return order


def check_flag(what: str, value: Any) -> bool:
    """Return an argument that must be True or False, also NumPy's, as a bool; else raise a `UsageError`."""
    if value is True or value is False:
        return value
    kind = type(value)
    if kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"):
        return bool(value)
    raise UsageError(f"{what} must be True or False, found {described(value)}")


def check_callable(what: str, value: object) -> None:
    """Check that an argument is None or can be called; else raise a `UsageError`."""
    if value is not None and not callable(value):
        raise UsageError(f"{what} must be a function or None, found {described(value)}")


def check_safe(what: str, safe: Any) -> None:
    """Check that `safe` is True; for False, raise an `UnsupportedError` that names the way to do it with pyarrow."""
    if not check_flag("safe", safe):
        raise UnsupportedError(
            f"{what}: values are kept; to_arrow().cast(type, safe=False) changes those that do not fit"
        )


def check_integer(what: str, value: int, low: int, high: int) -> int:
    """Return an argument that must be an int, not a bool, from `low` to `high`; else raise a `UsageError`."""
    if type(value) is not int or not low <= value <= high:
        raise UsageError(f"{what} must be an integer from {low} to {high}, found {described(value)}")
    return value


def check_choice(what: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return an argument that must be one of the allowed values; else raise a `UsageError` that lists them."""
    try:
        is_allowed = value in allowed
    except Exception:  # arrays are compared element by element
        is_allowed = False
    if not is_allowed:
        raise UsageError(f"{what} must be {' or '.join(map(repr, allowed))}, found {described(value)}")
    return value


def check_names(what: str, found: Iterable[str], known: Iterable[str]) -> None:
    """Check that all names of options are known; else raise a `UsageError` with a similar name, or with all names."""
    for name in found:
        if name not in known:
            raise UsageError(f"{what} has no option {name!r}: {like(name, sorted(known))}")


def like(name: str, known: Iterable[str]) -> str:
    """Return the advice for a name that is not known: a similar name if there is one, else all names."""
    from difflib import get_close_matches

    near = get_close_matches(str(name), known, 1)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"


def check_text(what: str, value: str) -> str:
    """Return an argument that must be a str that UTF-8 can encode, as a plain str; else raise a `UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a str, found {described(value)}")
    value = str.__str__(value)  # compiled code takes only plain str: no str of NumPy, no member of an enum
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} must be text that UTF-8 can hold, found {value!r}") from None
    return value


def checked_names(names: Iterable[str] | None, ndim: int) -> tuple[str, ...] | None:
    """Return one name per dimension of a tensor as a tuple; None if no names are given or all are empty."""
    if names is None:
        return None
    if isinstance(names, str):
        raise UsageError(f"dim_names must be a sequence of str, found {described(names)}")
    checked = tuple([check_text("dim_names: each name", name) for name in items_of("dim_names", names)])
    if len(checked) != ndim:
        raise UsageError(f"{ndim} dimensions need as many dim_names, found {len(checked)}: {checked}")
    return checked if any(checked) else None


def by_name(there_is: Mapping[str, str]) -> dict[str, str]:
    """Turn a table of texts, each with names for which it is the advice, into a dict: name -> text."""
    return {name: text for text, names in there_is.items() for name in names.split()}


#: What there is here -> the names of attributes that other libraries have for it.
_INSTEAD = by_name(
    {
        "[0] and [-1] of a column, head(1) and tail(1) of rows": "first last",
        "[:n] and [-n:]": "head tail",
        "add_column(i, name, values)": "insert_column",
        "append(field) of a schema, append_column(name, values) of rows": "add add_field",
        "append_column(name, values)": "with_column",
        "array(numpy.from_dlpack(tensor))": "from_dlpack",
        "array(series), and RecordBatch.from_pandas(frame).schema": "from_pandas",
        "array(values, types.run_end_encoded(...))": "run_end_encode",
        'array["member"]': "struct",
        "arrowipc does not compute; to_arrow(), to_polars() and to_pandas() hand the data over to libraries that do": (
            "agg aggregate apply argsort assign describe diff dt explode group_by groupby groups join join_asof "
            "map max mean melt merge min pipe pivot quantile query std str sum transpose unpivot var with_columns "
            "with_row_index"
        ),
        "arrowipc.table(frame)": "from_polars",
        "arrowipc.write(data, path)": "save to_feather write write_feather write_ipc",
        "cast(type)": "astype",
        "children, and buffers()": "child fields items keys run_ends type_codes",
        "chunks": "data",
        "chunks[i] of a column has it": "buffers children dictionary indices offsets value_lengths",
        "column(name)": "col get get_column",
        "column_names": "names",
        "combine()": "rechunk",
        "combine(), and new_stream(sink, unify_dictionaries=True)": "unify_dictionaries",
        "compute_statistics(batch)": "statistics",
        "concat_tables(tables) of rows, chunked_array(arrays) of elements, append_column(name, values)": (
            "append concat extend hstack union vstack"
        ),
        "drop_null()": "drop_nulls dropna",
        "elements are Python values: array[i]": "as_py item",
        "field.name": "name",
        "files": "get_fragments",
        "fill_null(value) of a column": "fill_null fillna",
        'filter([(name, ">", value)])': "where",
        'filter([(name, "in", values)]) of a batch or table': "is_in isin",
        "flatten()": "unnest",
        "from_pydict(mapping)": "from_dict",
        "from_pylist(rows)": "from_dicts from_rows",
        "head(n)": "limit",
        "index(value) of a column, get_field_index(name) of a schema": "index",
        "is_null()": "isna isnull",
        "is_valid()": "notna notnull",
        "iter_rows()": "iterrows itertuples row rows",
        "len() is 0": "empty is_empty",
        "len(), and num_rows of a batch or table": "count len length nrows row_count size",
        "names": "column_names columns",
        "nbytes": "estimated_size memory_usage",
        "nothing changes an object, so that it can be shared": "clone copy",
        "nullable": "is_nullable",
        "num_chunks": "n_chunks",
        "num_columns, num_rows": "height width",
        "print() shows it, and its schema": "glimpse info printSchema show",
        "read_all(), after select(columns) and filter(condition)": "to_table",
        "RecordBatch.from_buffers(schema, length, nodes, array.buffers())": "view",
        "remove(i) of a schema": "drop",
        "rename({old: new}) of rows, with_name(name) of a field": "alias rename rename_column rename_columns",
        "schema": "collect_schema",
        "schema.metadata, and field.metadata of a column": "metadata",
        "select(columns), filter(condition), to_batches()": "scanner",
        "sort_by(columns) of a batch or table": "order_by sort sort_by sort_values",
        "take(numbers), slice(offset, length), filter(condition)": "iloc loc sample",
        "Tensor(array.to_numpy())": "to_tensor",
        "the memory is that of the CPU": "copy_to device_type is_cpu",
        "the rows are in memory already": "collect compute lazy load",
        "to_arrow(), to_pandas()": "to_pyarrow toArrow toPandas",
        "to_batches(max_chunksize)": "iter_slices",
        "to_numpy() of a column, numpy.asarray(rows)": "T to_numpy values",
        "to_polars() and to_pandas() write it": "to_csv to_json to_sql write_csv write_json",
        "to_polars().write_parquet(path)": "to_parquet write_parquet",
        "to_pydict()": "to_dict",
        "to_pylist()": "to_dicts to_list tolist",
        "to_string()": "format",
        "to_struct_array()": "to_struct",
        "torch.from_dlpack(array), of one chunk without nulls": "to_torch torch",
        "type, and of rows schema.types": "data_type dataType dtype dtypes",
        "unique() of a column, to_polars() and to_pandas()": "distinct drop_duplicates n_unique nunique unique",
        "value_counts()": "false_count true_count",
        "write(data, io.BytesIO()), new_stream(sink); a batch has serialize()": "serialize to_bytes",
    }
)


def missing(owner: str, name: str, thing: object, instead: Mapping[str, str] = _INSTEAD) -> AttributeError:
    """Return the error for a name that a class or a module lacks; its text says what to use instead."""
    text = f"{owner} has no attribute {name!r}" + (f": {instead[name]}" if name in instead else "")
    # With `name` and `obj` the interpreter adds a similar name to the message.
    return AttributeError(text, name=name, obj=thing)


class _Absent:
    """Descriptor for a name that a class lacks: reading it raises an error that says what to use instead."""

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: Mapping[str, str]) -> None:
        self._name, self._instead = name, instead

    def __get__(self, thing: object, kind: type) -> Any:
        raise missing(kind.__name__, self._name, kind if thing is None else thing, self._instead)


def is_filled(thing: object, slot: str) -> bool:
    """Return whether an attribute of an object has a value; if not, `__init__` was not called."""
    try:
        object.__getattribute__(thing, slot)
    except AttributeError:
        return False
    return True


class MadeOnce:
    """Base of classes whose objects refuse a second call of ``__init__``."""

    __slots__ = ()

    def _make_once(self, slot: str) -> None:
        """Refuse a second call of ``__init__``, which fills `slot`: the object may be in use elsewhere."""
        if is_filled(self, slot):
            raise UsageError(f"this {type(self).__name__} was made already: make another one")


class Initialized(MadeOnce):
    """Base of classes whose methods raise a clear error if the object was made without a call of ``__init__``.

    CPython looks up every attribute of such an object anew, which takes some 30 ns; so readers have `Hints` instead.
    """

    __slots__ = ()

    @classmethod
    def _instead(cls) -> Mapping[str, str]:
        """Return names in other libraries -> the text that says what objects of the class have instead."""
        return _INSTEAD

    if not TYPE_CHECKING:  # with it, type checkers would accept any name

        def __getattr__(self, name):
            slots = [slot for kind in type(self).__mro__ for slot in vars(kind).get("__slots__", ())]
            if name in slots or (type(self).__dictoffset__ and not vars(self)):
                raise UsageError(f"this {type(self).__name__} cannot be used: __init__ was not called")
            raise missing(type(self).__name__, name, self, self._instead())


class _Listing(type):
    """Metaclass that leaves names that not all objects have out of ``dir``, ``help`` and completion of a class."""

    _of_some: frozenset[str] = frozenset()

    def __dir__(cls) -> list[str]:
        return [name for name in type.__dir__(cls) if hasattr(cls, name) and name not in cls._of_some]


class Hints(metaclass=_Listing):
    """Base of classes whose errors for missing attributes say what to use instead.

    The class has an `_Absent` for each such name. A ``__getattr__`` would be shorter, but CPython would then bind the
    methods of the class anew for each call, which takes some 35 ns.
    """

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if hasattr(type(self), name) or hasattr(self, name)]


def add_hints(cls: type[Hints], instead: Mapping[str, str]) -> None:
    """Let the errors for names that a class lacks say what to use instead."""
    for name in instead:
        if not hasattr(cls, name):
            setattr(cls, name, _Absent(name, instead))


add_hints(Hints, _INSTEAD)


#: Beginnings of metadata keys whose values describe the rows or the file: our keys, and polars' numbers of rows.
DESCRIPTIONS = b"arrowipc:", b"__POLARS_IPC_METADATA"


def without_descriptions(pairs: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the metadata without the entries that describe their source; the rest may go to other rows or files."""
    return tuple([pair for pair in pairs if not pair[0].startswith(DESCRIPTIONS)])


class KeyValueMetadata(Immutable, Mapping[bytes, bytes]):
    """Metadata of a schema, a field, a message or a file: a read-only mapping that keeps order and duplicates.

    Parameters
    ----------
    metadata : mapping or pairs of str or bytes
        Text becomes UTF-8.

    Notes
    -----
    ``pairs`` holds all keys and values as they are stored. As a mapping, a key that repeats has its first value, and
    ``m["key"]`` is ``m[b"key"]``. ``==`` also takes other mappings, also of text. It ignores the order of pairs, except
    that of pairs with the same key.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> m = ipc.Schema([], {"origin": "sensor 4"}).metadata
    >>> m["origin"], m.get("pandas"), m == {b"origin": b"sensor 4"}, m.pairs
    (b'sensor 4', None, True, ((b'origin', b'sensor 4'),))
    """

    __slots__ = ("_values", "pairs")
    __match_args__ = ("pairs",)

    pairs: tuple[tuple[bytes, bytes], ...]
    _values: dict[bytes, bytes] | None

    def __new__(cls, metadata: MetadataLike = None) -> Self:
        items = metadata.items() if isinstance(metadata, Mapping) else items_of("metadata", metadata or ())
        pairs = []
        for pair in items:
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise UsageError(f"metadata must be (key, value) pairs, found {described(pair)}") from None
            pairs.append((_metadata_bytes(key), _metadata_bytes(value)))
        return filled(cls, tuple(pairs), _values=None)

    def _mapping(self) -> dict[bytes, bytes]:
        # Made once, so that looking up n keys in an untrusted file does not walk over all pairs n times.
        if self._values is None:
            note(self, "_values", dict(reversed(self.pairs)))
        return self._values  # type: ignore[return-value]

    if TYPE_CHECKING:

        @overload
        def get(self, key: bytes | str, default: None = None) -> bytes | None: ...
        @overload
        def get(self, key: bytes | str, default: bytes | T) -> bytes | T: ...
        def get(self, key: bytes | str, default: Any = None) -> Any: ...

    def __getitem__(self, key: bytes | str) -> bytes:
        return self._mapping()[_encoded(key)]

    def __iter__(self) -> Iterator[bytes]:
        return iter(dict.fromkeys([key for key, _ in self.pairs]))

    def __len__(self) -> int:
        return len(self._mapping())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyValueMetadata):
            return self.pairs == other.pairs or _sorted(self.pairs) == _sorted(other.pairs)
        if isinstance(other, Mapping):
            texts = {_encoded(key): _encoded(value) for key, value in other.items()}
            return len(self) == len(self.pairs) and self._mapping() == texts
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs))

    def __repr__(self) -> str:
        unique = len(self) == len(self.pairs)
        return f"KeyValueMetadata({dict(self.pairs) if unique else list(self.pairs)})"


def _encoded(value: Any) -> Any:
    """Return text as bytes, as metadata stores it. Lone surrogates give bytes that no metadata has."""
    return value.encode(errors="surrogatepass") if isinstance(value, str) else value


def _sorted(pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return sorted(pairs, key=lambda pair: pair[0])


#: Empty metadata, shared by the many fields that have none.
NO_METADATA = KeyValueMetadata()


def metadata_of(metadata: MetadataLike) -> KeyValueMetadata:
    """Return the metadata of an argument as one object; `NO_METADATA` if the argument is empty."""
    if not metadata:
        return NO_METADATA
    return metadata if isinstance(metadata, KeyValueMetadata) else KeyValueMetadata(metadata)


def _metadata_bytes(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return check_text("metadata", value).encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise UsageError(f"metadata keys and values must be str or bytes, found {described(value)}")


# -- options and codecs of pyarrow --------------------------------------------------------------------------------


def read_keywords(options: Any) -> tuple[list[int] | None, bool, bool]:
    """Return `columns`, `use_threads` and `ensure_native_endian` for a ``pyarrow.ipc.IpcReadOptions``."""
    if not hasattr(options, "included_fields"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcReadOptions, found {described(options)}: pass others as keywords"
        )
    # Any (0) and DataTypeSpecific (-3) are true of all buffers that we read.
    if (alignment := int(getattr(options, "ensure_alignment", 0))) > 0:
        raise UnsupportedError(
            f"options: ensure_alignment asks for buffers at multiples of {alignment} bytes; arrowipc aligns them for "
            "the values of their types, to 8 at most: leave it out, or use pyarrow's reader. (Files that were written "
            "with alignment=64 and are mapped have such buffers.)"
        )
    # With these options, pyarrow returns the fields in the order of the schema, each once.
    return sorted(set(options.included_fields)) or None, options.use_threads, options.ensure_native_endian


def write_keywords(options: Any) -> dict[str, Any]:
    """Return the keywords of `new_stream` for a ``pyarrow.ipc.IpcWriteOptions``."""
    if not hasattr(options, "use_legacy_format"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcWriteOptions, found {described(options)}: pass others as keywords"
        )
    same = ("allow_64bit", "compression", "unify_dictionaries", "use_threads")
    return {
        **{name: getattr(options, name) for name in same},
        "dictionary_deltas": options.emit_dictionary_deltas,
        "legacy": options.use_legacy_format,
        "metadata_version": f"V{options.metadata_version + 1}",
    }


def codec_and_level(codec: Any, level: int | None) -> tuple[Any, int | None]:
    """Return the name of a codec, and the level. `codec` is text in any case, a ``pyarrow.Codec``, a dict or None."""
    if hasattr(codec, "compression_level"):
        return codec.name, codec.compression_level if level is None else level
    if isinstance(codec, str):
        lower = codec.lower()
        return None if lower == "uncompressed" else lower, level
    if codec is not None and not isinstance(codec, dict):
        raise UsageError(f"compression must be the name of a codec, or a dict of them, found {described(codec)}")
    return codec, level
