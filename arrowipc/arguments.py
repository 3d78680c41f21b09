"""What callers give: checks of arguments, the frozen base of values made of them, metadata, options of pyarrow."""

from __future__ import annotations

from _collections_abc import Mapping  # loaded by now; `collections.abc` also loads `collections`

from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, ClassVar, NoReturn, Self, TypeAlias, TypeVar, overload

    T = TypeVar("T")

    #: Whether extension types become what they mean; a mapping from their names to functions of a stored value.
    Extensions: TypeAlias = "bool | Mapping[str, Callable[[Any], Any]] | None"
    MetadataLike: TypeAlias = "Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None"

#: How immutable objects fill their private slots, which remember what follows from the others.
note: Callable[[object, str, object], None] = object.__setattr__


def filled(cls: type[T], *values: object, **private: object) -> T:
    """Make an immutable object of what its slots hold, in the order of ``__match_args__``; nothing else fills them."""
    self = object.__new__(cls)
    for put, value in zip(cls._setters.values(), values, strict=True):  # type: ignore[attr-defined]
        put(self, value)
    for name, value in private.items():
        note(self, name, value)
    return self


class Immutable:
    """Base of the values that describe data: slots named by ``__match_args__``, filled once.

    They are shared, so nothing changes them: they are made in ``__new__``, there is no ``__init__`` to call again, and
    ``object.__setattr__`` finds properties. Copying with changes follows the protocol of :func:`copy.replace`; pickling
    rebuilds through the constructor, so that the checks run again.
    """

    __slots__ = ("__weakref__",)
    __match_args__: tuple[str, ...] = ()
    __class__ = property(type)

    _setters: ClassVar[dict[str, Callable[[object, object], None]]] = {}

    def __init_subclass__(cls) -> None:
        slots = {name: vars(cls)[name] for name in cls.__match_args__ if name in vars(cls)}
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


def described(value: object) -> str:
    """Kind and look of something unexpected, short enough for a message."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"


def refuse_async(value: object, methods: Iterable[str], instead: str) -> None:
    """Refuse a source or sink of an event loop, which has such coroutine functions or is an async iterator."""
    for name in methods:
        method = getattr(value, name, None)
        # CO_COROUTINE; the module `inspect` takes longer to import than most streams to read.
        flags = getattr(getattr(method, "__code__", None), "co_flags", 0)
        if method is not None and (name == "__aiter__" or flags & 0x80):
            raise UsageError(f"{type(value).__name__} belongs to an event loop: {instead}")


def repeated(names: Iterable[str]) -> list[str]:
    """Those that occur more than once, in the order in which they first do."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return [name for name, count in counts.items() if count > 1]


def check_integer(what: str, value: int, low: int, high: int) -> int:
    """Return an argument that must be an int, no bool, from `low` to `high`; else a `UsageError`."""
    if type(value) is not int or not low <= value <= high:
        raise UsageError(f"{what} must be an integer from {low} to {high}, found {described(value)}")
    return value


def check_choice(what: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    """Return an argument that must be one of the allowed; else a `UsageError` that lists them."""
    if value not in allowed:
        raise UsageError(f"{what} must be {' or '.join(map(repr, allowed))}, found {described(value)}")
    return value


def check_text(what: str, value: str) -> str:
    """Return an argument that must be a str that UTF-8 can encode; else a `UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{what} must be a str, found {described(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise UsageError(f"{what} must be text that UTF-8 can hold, found {value!r}") from None
    return value


def checked_names(names: Iterable[str] | None, ndim: int) -> tuple[str, ...] | None:
    """Return names of a tensor's dimensions as a tuple, one for each; None if there are none or all are empty."""
    if names is None:
        return None
    if isinstance(names, str):
        raise UsageError(f"dim_names must be a sequence of str, found {described(names)}")
    checked = tuple([check_text("dim_names: each name", name) for name in names])
    if len(checked) != ndim:
        raise UsageError(f"{ndim} dimensions need as many dim_names, found {len(checked)}: {checked}")
    return checked if any(checked) else None


class KeyValueMetadata(Immutable, Mapping[bytes, bytes]):
    """Metadata of a schema, a field, a message or a file: a read-only mapping that keeps order and duplicates.

    Parameters
    ----------
    metadata : mapping or pairs of str or bytes
        Text becomes UTF-8.

    Raises
    ------
    UsageError
        If a key or a value is neither str nor bytes-like.

    Notes
    -----
    ``pairs`` are all keys and values as they are stored. As a mapping, a key that repeats has its first value;
    ``m["key"]`` is ``m[b"key"]``. ``==`` knows other mappings too, and looks at the order of equal keys only.

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
        items = metadata.items() if isinstance(metadata, Mapping) else metadata or ()
        pairs = []
        for pair in items:
            try:
                key, value = pair
            except (TypeError, ValueError):
                raise UsageError(f"metadata must be (key, value) pairs, found {described(pair)}") from None
            pairs.append((_metadata_bytes(key), _metadata_bytes(value)))
        return filled(cls, tuple(pairs), _values=None)

    def _mapping(self) -> dict[bytes, bytes]:
        # Made once: who asks for n keys of somebody else's file must not walk n pairs for each.
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
        return self._mapping()[key.encode(errors="surrogatepass") if isinstance(key, str) else key]

    def __iter__(self) -> Iterator[bytes]:
        return iter(dict.fromkeys([key for key, _ in self.pairs]))

    def __len__(self) -> int:
        return len(self._mapping())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KeyValueMetadata):
            return self.pairs == other.pairs or _sorted(self.pairs) == _sorted(other.pairs)
        if isinstance(other, Mapping):
            return len(self) == len(self.pairs) and self._mapping() == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs))

    def __repr__(self) -> str:
        unique = len(self) == len(self.pairs)
        return f"KeyValueMetadata({dict(self.pairs) if unique else list(self.pairs)})"


def _sorted(pairs: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return sorted(pairs, key=lambda pair: pair[0])


#: What nearly all fields have.
NO_METADATA = KeyValueMetadata()


def metadata_of(metadata: MetadataLike) -> KeyValueMetadata:
    """Metadata as people give it, as one object; none makes no object."""
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


def printable(text: str) -> str:
    """`text` with control characters escaped, so that names from a file cannot drive a terminal."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


# -- options and codecs of pyarrow --------------------------------------------------------------------------------

#: Attributes of pyarrow's IpcWriteOptions -> our keywords.
_WRITE = {
    "allow_64bit": "allow_64bit",
    "compression": "compression",
    "emit_dictionary_deltas": "dictionary_deltas",
    "metadata_version": "metadata_version",
    "unify_dictionaries": "unify_dictionaries",
    "use_legacy_format": "legacy",
    "use_threads": "use_threads",
}


def read_keywords(options: Any) -> tuple[list[int] | None, bool, bool]:
    """`columns`, `use_threads` and `ensure_native_endian` of a ``pyarrow.ipc.IpcReadOptions``."""
    if not hasattr(options, "included_fields"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcReadOptions, found {described(options)}: pass others as keywords"
        )
    # There the fields come in the order of the schema, each once; and buffers are always aligned here.
    return sorted(set(options.included_fields)) or None, options.use_threads, options.ensure_native_endian


def write_keywords(options: Any) -> dict[str, Any]:
    """The keywords of `new_stream` for a ``pyarrow.ipc.IpcWriteOptions``."""
    if not hasattr(options, "use_legacy_format"):
        raise UsageError(
            f"options: expected a pyarrow.ipc.IpcWriteOptions, found {described(options)}: pass others as keywords"
        )
    found = {ours: getattr(options, theirs) for theirs, ours in _WRITE.items()}
    found["metadata_version"] = f"V{options.metadata_version + 1}"
    return found


def codec_and_level(codec: Any, level: int | None) -> tuple[Any, int | None]:
    """A codec as its name, None for none: from text in any case, or from a ``pyarrow.Codec``, which has a level."""
    if hasattr(codec, "compression_level"):
        return codec.name, codec.compression_level if level is None else level
    if isinstance(codec, str):
        lower = codec.lower()
        return None if lower == "uncompressed" else lower, level
    return codec, level
