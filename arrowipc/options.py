"""The keywords of readers and writers. Each is defined once, with its type, default, meaning and allowed values."""

from __future__ import annotations

from arrowipc.arguments import MARGIN, by_name, check_flag, entries_of, like, read_keywords, write_keywords
from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, TypeVar

    from arrowipc.limits import Limits

    F = TypeVar("F", bound=Callable[..., Any])

    Columns: TypeAlias = Iterable[str | int] | str | int | None
    Validate: TypeAlias = Literal["none", "full", "strict"]
    Codec: TypeAlias = Literal["lz4", "zstd"] | None
    Compression: TypeAlias = Codec | Mapping[str, Codec]

    # The keywords of functions with ``**keywords``, for editors and type checkers; a test compares them with the
    # classes below. They do not exist at run time, because importing typing takes longer than opening a stream.

    class DecodeKeywords(TypedDict, total=False):
        """The keywords of `DecodeOptions`."""

        columns: Columns
        validate: Validate
        limits: Limits | None
        use_threads: bool
        ensure_native_endian: bool
        verify: bool | None

    class ReadKeywords(DecodeKeywords, total=False):
        """The keywords of `ReadOptions`."""

        memory_map: bool
        options: Any

    class MessageKeywords(TypedDict, total=False):
        """The keywords of `MessageOptions`."""

        compression: Compression
        compression_level: int | None
        min_space_savings: float | None
        alignment: Literal[8, 64]
        legacy: bool | None
        metadata_version: Literal["V5", "V4"] | None
        use_threads: bool

    class WriteKeywords(MessageKeywords, total=False):
        """The keywords of `WriteOptions`."""

        dictionary_deltas: bool | None
        unify_dictionaries: bool
        coalesce_rows: int
        allow_64bit: bool
        statistics: bool | Iterable[str]
        checksum: bool
        durable: bool
        options: Any


#: What there is here -> the keywords that other libraries have for it; "function.keyword" is that of one function.
_INSTEAD = by_name(
    {
        "arrowipc has no memory pools": "memory_pool pool",
        "arrowipc.spark.decode_payloads(df, column, prefix=...); without Spark, give cells without it": "prefix",
        "batches are those that were written; RowStream(dataset, batch_size=...) makes others": "batch_size",
        "folders are searched to any depth": "recursive",
        "one file is written; df.write.partitionBy() of Spark makes many": "partition_by partition_cols partitioning",
        "open(path) reads; new_file(path) replaces, with append=True it continues": "mode overwrite",
        "open(source, columns=...) and select(columns) choose some": "columns",
        "options={name: value}, for Spark": "extensions nanoseconds unsupported",
        "read the batches one by one, or take head(n) of what was read": "limit n_rows nrows",
        "read(source, filter=...) and open_dataset(path, filter=...) take it": "filter filters predicate where",
        "RecordBatch.from_pandas(frame, preserve_index=...) makes rows": "index preserve_index",
        "repeat(batch, counts) repeats the rows of other columns for those of their payloads": "keep",
        "schemas are not joined here; open_dataset() and pyarrow.concat_tables() do it": "promote",
        'settings={"spark.app.name": ...}': "session.app_name session.appName session.name",
        'sort_by([("x", "ascending", "at_start")])': "na_position null_placement nulls_last",
        "the data have one; open_dataset(path, schema=...) and table(data, schema=...) cast to another": "schema",
        'the order goes with its column: sort_by([("x", "descending"), "y"])': "ascending descending reverse",
        "torch.utils.data.DataLoader takes it, and RowStream has batch_size= and shuffle=": (
            "num_workers pin_memory prefetch_factor RowDataset.batch_size RowDataset.shuffle"
        ),
        "URLs such as s3://... and file objects of any file system are sources": "filesystem fs",
    }
)
#: Our keywords -> the names of such keywords in other libraries; of several, the first that a function has is meant.
_THEIRS = {
    "columns": "names use_columns usecols",
    "columns arrays names": "columns labels mapper mapping",
    "compression": "codec compress",
    "compression_level": "level",
    "filter mask": "condition expr expression filters predicate where",
    "into": "out",
    "level": "full",
    "memory_map": "mmap use_mmap",
    "n": "limit num_rows",
    "on_error safe level": "errors ignore_errors strict",
    "rows_per_payload max_rows": "batch_rows batch_size chunksize",
    "seed": "random_state",
    "settings": "conf config options",
    "sorting group_by": "by key keys order_by",
    "source paths data": "dataset file path root",
    "target_schema": "schema",
    "type": "data_type dtype target_type to",
    "use_threads workers": "num_threads threads use_threads",
    "value": "fill_value",
    "tz": "time_zone timezone",
    "values mapping rows arrays": "data dict obj records",
    "value_type": "item_type",
    "index_type": "key_type",
    "world_size": "num_replicas num_shards",
}
_SYNONYMS = by_name(_THEIRS)


def unexpected(owner: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for a keyword that a function does not know; its text says what to use instead."""
    names = [each for each in known if each != "self"]
    same = [each for each in _SYNONYMS.get(name, "").split() if each in names]
    advice = f"{same[0]}=..." if same else _INSTEAD.get(f"{owner}.{name}") or _INSTEAD.get(name) or like(name, names)
    return TypeError(f"{owner + '() ' if owner else ''}got an unexpected keyword argument {name!r}: {advice}")


#: Function -> its decorated form: one object, whichever thread is first, because pickles compare it.
_ADVISED: dict[Any, Any] = {}


def with_advice(function: F) -> F:
    """Decorate a function that names all its keywords: its errors for others say what to use instead.

    This takes some 100 ns of each call. A function with ``**keywords`` is returned as it is: `Options` checks them.
    """
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x08:
        return function

    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except TypeError:
            from inspect import signature

            known = signature(function).parameters
            # Only names that are not known: then this error is that of the call itself.
            for name in keywords:
                if name not in known:
                    owner = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]
                    raise unexpected(owner, name, known) from None
            raise

    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
        if hasattr(function, name):
            setattr(call, name, getattr(function, name))
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return _ADVISED.setdefault(function, call)  # type: ignore[no-any-return]


class Options:
    """The keywords of a call as immutable attributes.

    The annotations of a class are its keywords, its attributes are their defaults, and its docstring says what they
    mean. `with_keywords` copies all this into the docstrings and signatures of functions.
    """

    #: Keyword -> its type; keyword -> its default.
    types: ClassVar[dict[str, Any]] = {}
    defaults: ClassVar[dict[str, Any]] = {}
    #: Keyword that is True or False -> the other values that it may have.
    flags: ClassVar[dict[str, tuple[None, ...]]] = {}
    #: Keyword -> its entry for a section of parameters, whose lines have no margin.
    documentation: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        cls.types = {**cls.types, **cls.__annotations__}
        cls.defaults = {name: getattr(cls, name) for name in cls.types}
        allowed: dict[str, tuple[None, ...]] = {"bool": (), "bool | None": (None,)}
        cls.flags = {name: allowed[kind] for name, kind in cls.types.items() if kind in allowed}
        entries = entries_of(cls.__doc__ or "")
        cls.documentation = cls.documentation | {name: "\n".join([*entries[name], ""]) for name in entries}

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        self.__dict__.update(self.defaults)
        self.__dict__.update(keywords)
        if len(self.__dict__) > len(self.defaults):
            name = next(name for name in keywords if name not in self.defaults)
            raise unexpected("", name, self.defaults)
        # Not items(), because CPython 3.11 crashes if memory runs out for its iterator.
        for name in keywords:
            value = keywords[name]
            if value is not True and value is not False and name in self.flags and value not in self.flags[name]:
                self.__dict__[name] = check_flag(name, value)


def with_keywords(kind: type[Options]) -> Callable[[F], F]:
    """Decorate a function that takes the keywords of `kind` as ``**keywords``.

    Its docstring gets an entry for each keyword in place of the entry for ``**keywords``, and the signature that `help`
    and notebooks show names them.
    """

    def decorate(function: F) -> F:
        if function.__doc__:
            before, _, after = function.__doc__.partition(f"{MARGIN}**keywords\n")
            after = after.partition("\n")[2]  # drop the one line that names the class of the keywords
            entries = "".join(kind.documentation.values())
            function.__doc__ = before + "".join([MARGIN + line for line in entries.splitlines(True)]) + after
        code = function.__code__
        if not code.co_flags & 0x08:  # without CO_VARKEYWORDS, the function names all its keywords itself
            return function
        own = code.co_argcount + code.co_kwonlyargcount
        names = (*code.co_varnames[:own], *kind.defaults, *code.co_varnames[own + 1 :])
        # A function that is never called, for `inspect.signature`; making a Signature here would import `inspect`.
        new: Callable[..., Any] = type(function)
        shown = new(
            code.replace(
                co_kwonlyargcount=code.co_kwonlyargcount + len(kind.defaults),
                co_varnames=names,
                co_nlocals=len(names),
                co_flags=code.co_flags & ~0x08,
            ),
            {},
            code.co_name,
            function.__defaults__,
            function.__closure__,
        )
        shown.__kwdefaults__ = {**(function.__kwdefaults__ or {}), **kind.defaults}
        shown.__annotations__ = function.__annotations__ = {**function.__annotations__, **kind.types}
        function.__wrapped__ = shown  # type: ignore[attr-defined]
        return function

    return decorate


class DecodeOptions(Options):
    """How messages are decoded.

    columns : sequence of str or int, optional
        Names, indices or dotted paths to read, in this order; other columns are never touched.
    validate : {"full", "none", "strict"}
        "full" checks that every value is safe to use; "none" checks only the structure (access from Python still checks
        values); "strict" checks what "full" does, that values are in the ranges of their types, and that the footer of
        a file lists all batches in their order.
    limits : Limits, optional
        Bounds on what the bytes may ask for.
    use_threads : bool, default True
        Decompress, validate and verify large bodies with several threads.
    ensure_native_endian : bool, default True
        Convert big-endian bodies. False leaves their buffers as stored, and `schema.endianness` is "big".
    verify : bool or None, default False
        Compare every message that is read with its checksum. A changed bit, a message that is missing or in another
        place, and a source without checksums are each a FormatError. None is the same, except that a source whose
        Schema message has no checksum is read without checks. Bodies are then read whole, even if `columns` leaves out
        some columns. A message whose metadata alone is read is not verified.
    """

    columns: Columns = None
    validate: Validate = "full"
    limits: Limits | None = None
    use_threads: bool = True
    ensure_native_endian: bool = True
    verify: bool | None = False

    def decoding(self) -> dict[str, Any]:
        """Return the keywords of a decoder."""
        return {name: getattr(self, name) for name in DecodeOptions.defaults}


class ReadOptions(DecodeOptions):
    """How a source is read.

    memory_map : bool, default True
        Map the file at a path into memory; False reads it like a file object. Nobody may cut a mapped file short while
        it is in use: touching a part that is gone, also in batches that were read before, ends the process (SIGBUS).
        Replacing it with another file, as our writers do, is fine. With False, a file cut short is a TruncatedError.
    options : pyarrow.ipc.IpcReadOptions, optional
        Replaces `columns`, `use_threads` and `ensure_native_endian`. Buffers are always aligned for the values of
        their types; an `ensure_alignment` of 64 bytes is an UnsupportedError.
    """

    memory_map: bool = True
    options: Any = None

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        super().__init__(keywords)
        if self.options is not None:
            if self.columns is not None or not self.use_threads or not self.ensure_native_endian:
                raise UsageError(
                    "options: columns, use_threads and ensure_native_endian come from it, do not give them too"
                )
            columns, use_threads, native = read_keywords(self.options)
            self.__dict__.update(columns=columns, use_threads=use_threads, ensure_native_endian=native, options=None)


class MessageOptions(Options):
    """How a message is stored.

    compression : {None, "lz4", "zstd"}, pyarrow.Codec or dict
        Codec of the buffers, also in upper case; "uncompressed" means None. A dict gives the codec of each column, with
        ``"*"`` for all others: ``{"payload": None, "*": "zstd"}``. Buffers that would grow are stored raw.
    compression_level : int, optional
        The level of the codec.
    min_space_savings : float, optional
        Buffers that compression makes smaller by less than this fraction (0 to 1) are stored raw.
    alignment : {8, 64}
        Bodies, counted from the start of the output, and the buffers in them are aligned to this many bytes.
    legacy : bool, default False
        Use the framing from before Arrow 0.15.
    metadata_version : {"V5", "V4"}
        V4 is for readers older than Arrow 1.0.
    use_threads : bool, default True
        Compress large bodies with several threads.
    """

    compression: Compression = None
    compression_level: int | None = None
    min_space_savings: float | None = None
    alignment: Literal[8, 64] = 8
    legacy: bool | None = False
    metadata_version: Literal["V5", "V4"] | None = "V5"
    use_threads: bool = True
    checksum = False  # not a keyword here, only of streams and files


class WriteOptions(MessageOptions):
    """How a stream or a file is written.

    legacy : bool, optional
        Write the framing from before Arrow 0.15. Default: whether the environment variable
        ``ARROW_PRE_0_15_IPC_FORMAT`` is 1, as in pyarrow.
    metadata_version : {"V5", "V4"}, optional
        V4 is for readers older than Arrow 1.0. Default: V4 if ``ARROW_PRE_1_0_METADATA_VERSION`` is 1, else V5.
    dictionary_deltas : bool, optional
        Write a dictionary that only grew as a delta (True), or whole (False), which costs its full size each time it
        grows. Some readers cannot read deltas. Default: dictionaries that a reader received as deltas are
        written as deltas, so that copies are as large as their sources; all others are written whole. A file has one
        dictionary per column, which can grow only with True: to copy deltas to it, use this or `unify_dictionaries`.
    unify_dictionaries : bool, default False
        Merge the dictionaries of the batches, and rewrite the indices. The one dictionary of a file is written
        when the file is closed.
    coalesce_rows : int, default 0
        Join batches of fewer rows (without metadata of their own) until they have as many together.
    allow_64bit : bool, default False
        Write batches of more than 2**31 - 1 rows, or with longer lists, which some readers cannot read.
    statistics : bool or names of columns, default False
        Write the minimum, the maximum and the number of nulls of each column into the metadata of the batch, and those
        of all batches into the footer of a file, from which readers tell whether they need the rest; see
        `arrowipc.file_statistics`.
    checksum : bool, default False
        Write a checksum into the metadata of each message and the footer of a file, so that readers find changed bits
        and missing messages (``verify=True``). A stream gets an empty batch at its end, which our readers skip.
    durable : bool, default True
        For paths: when `close` returns, the file and its name are on the disk.
    options : pyarrow.ipc.IpcWriteOptions, optional
        Replaces the keywords that it has values for.
    """

    legacy: bool | None = None
    metadata_version: Literal["V5", "V4"] | None = None
    dictionary_deltas: bool | None = None
    unify_dictionaries: bool = False
    coalesce_rows: int = 0
    allow_64bit: bool = False
    statistics: bool | Iterable[str] = False
    checksum: bool = False
    durable: bool = True
    options: Any = None

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        super().__init__(keywords)
        if self.options is not None:
            self.__dict__.update(write_keywords(self.options))


# The options of most calls. They can be shared, because nothing changes options.
_READ_AS_USUAL = ReadOptions({})
_WRITE_AS_USUAL = WriteOptions({})


def read_options(keywords: Mapping[str, Any]) -> ReadOptions:
    """Return the options of a reader."""
    return ReadOptions(keywords) if keywords else _READ_AS_USUAL


def write_options(keywords: Mapping[str, Any]) -> WriteOptions:
    """Return the options of a writer."""
    return WriteOptions(keywords) if keywords else _WRITE_AS_USUAL
