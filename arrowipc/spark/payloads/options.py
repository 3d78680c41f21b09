"""The options of payload functions: they are checked once, on the driver, and sent to the tasks as one object."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, get_args

import arrowipc
from arrowipc.arguments import check_choice, check_flag, check_integer, columns_of
from arrowipc.errors import UsageError
from arrowipc.options import unexpected
from arrowipc.spark.types import TypeOptions

if TYPE_CHECKING:
    from typing import TypeAlias

OnError: "TypeAlias" = Literal["raise", "skip", "null"]
Validate: "TypeAlias" = Literal["none", "full", "strict"]
Engine: "TypeAlias" = Literal["auto", "jvm", "python"]

#: Bytes of the identifier at the end of a prefix.
ID_BYTES = 4

# More rows per batch are not faster, and 16 MiB of them keep a worker small: it holds its input, the decoded rows
# and the rows for Spark at the same time.
ROWS_PER_BATCH = 10_000
BYTES_PER_BATCH = 16 << 20
BYTES_PER_PAYLOAD = 64 << 20


class _Keywords:
    __slots__ = ()

    @classmethod
    def of_call(cls, function: Callable[..., Any], given: Mapping[str, Any]) -> Self:
        """Make options from the keywords of a call; for an unknown one, raise a TypeError with a similar name."""
        known = signature(cls).parameters
        for name in given:
            if name not in known:
                own = [each for each in signature(function).parameters if each != "options"]
                raise unexpected(function.__name__, name, [*own, *known])
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions(_Keywords, TypeOptions):
    """How payload columns are decoded: the options of :func:`decode_payloads` and similar functions.

    They are those of :class:`TypeOptions`, about values that Spark cannot hold, and:

    Parameters
    ----------
    columns : sequence of str or int, optional
        The names (``a.b`` for a field of a struct) or indices of the columns wanted, among those of an Arrow schema or
        of the first payloads.
    keep : str, or sequence of str
        Columns of the data frame to repeat with each row of their payload; they come first. Column functions
        have no such option: a query keeps the columns that it selects.
    on_error : {"raise", "skip", "null"}
        Stop at a payload that cannot be read, leave it out entirely, or put one row of nulls in its place,
        with its kept columns. A column function cannot leave a payload out; there "null" gives a null array.
    error_column : str, optional
        With ``on_error="null"``, a last column with the reason why a payload could not be read; else null.
    validate : {"full", "none", "strict"}
        As in :func:`arrowipc.open`.
    verify : bool or None, default False
        As in :func:`arrowipc.open`: compare each payload with its checksums.
    prefix : int, default 0
        Bytes of each cell before its first message: 5 for the magic byte and the identifier of a schema registry.
    id_column : str, optional
        A further column that is kept: the last four bytes of the prefix as a bigint, the most significant one first.
        Only for :func:`decode_payloads`.
    engine : {"auto", "jvm", "python"}
        Where payloads are decoded. "auto" is the JVM in a session that has the jar, unless ``validate="strict"``,
        ``verify=True`` or ``extensions=True`` is given, which only Python has. The rows are the same, and the JVM needs
        less time.
    rows_per_batch, bytes_per_batch : int
        Most rows, and about the most bytes, that Python passes to Spark at once; larger payloads come in several
        batches.
    """

    columns: Sequence[str | int] | str | int | None = None
    keep: Sequence[str] = ()
    on_error: OnError = "raise"
    error_column: str | None = None
    validate: Validate = "full"
    verify: bool | None = False
    prefix: int = 0
    id_column: str | None = None
    engine: Engine = "auto"
    rows_per_batch: int = ROWS_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH

    def __post_init__(self) -> None:
        TypeOptions.__post_init__(self)
        if isinstance(self.keep, str):
            object.__setattr__(self, "keep", (self.keep,))
        if self.columns is not None:
            object.__setattr__(self, "columns", columns_of(self.columns))
        if self.verify is not None:
            check_flag("verify", self.verify)
        check_choice("on_error", self.on_error, get_args(OnError))
        check_choice("validate", self.validate, get_args(Validate))
        check_choice("engine", self.engine, get_args(Engine))
        check_integer("prefix", self.prefix, 0, 2**31 - 1)
        if self.id_column is not None and self.prefix < ID_BYTES:
            raise UsageError(f"id_column needs a prefix of at least {ID_BYTES} bytes, found prefix={self.prefix}")
        if self.error_column is not None and self.on_error != "null":
            raise UsageError(f'error_column needs on_error="null": with {self.on_error!r} no row holds a reason')
        _check_counts(self, "rows_per_batch", "bytes_per_batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodecOptions(_Keywords):
    """How each payload is written: the options of :func:`to_arrow`.

    Parameters
    ----------
    with_schema : bool, default True
        Begin each payload with its schema. Without it, cells are bare messages, which
        ``decode_payloads(..., schema=payload_schema(df, ...))`` reads.
    compression, compression_level, checksum
        As for :func:`arrowipc.encode_payloads`.
    engine : {"auto", "jvm", "python"}
        Where payloads are made. "auto" is the JVM for :func:`to_arrow` in a session that has the jar, unless
        `compression_level`, `checksum` or Spark's ``useLargeVarTypes`` is set, which only Python has; schemas and
        values are the same, and the JVM needs less time. It refuses texts that are not UTF-8. All other functions
        always use Python.
    """

    with_schema: bool = True
    compression: Literal["lz4", "zstd"] | None = None
    compression_level: int | None = None
    checksum: bool = False
    engine: Engine = "auto"

    def __post_init__(self) -> None:
        check_choice("engine", self.engine, get_args(Engine))
        # Encode no rows, so that options that the encoder refuses are refused here.
        arrowipc.encode_payloads(arrowipc.RecordBatch.from_pydict({"x": []}), rows_per_payload=1, **self.codec)

    @property
    def codec(self) -> dict[str, Any]:
        """The arguments of the kernel that do not depend on the data."""
        return {name: getattr(self, name) for name in ("with_schema", "compression", "compression_level", "checksum")}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeOptions(CodecOptions):
    """How rows are encoded as payloads: the options of :func:`encode_payloads` and :func:`encode_payload_batches`.

    They are those of :class:`CodecOptions`, about how each payload is written, and (one of the first two is needed):

    Parameters
    ----------
    rows_per_payload : int, optional
        Rows of every payload but the last of a partition, across the borders of batches. With `group_by`, the
        most rows of one payload.
    group_by : str or sequence of str, optional
        Key columns: one payload per group, in one row with its keys.
    column : str, default "payload"
        Name of the binary column.
    keep_keys : bool, default False
        Leave the key columns in the payloads too.
    dictionary_columns : str or sequence of str
        Columns to be encoded as dictionaries; this saves bytes for texts that repeat within a payload.
    bytes_per_payload : int, default 64 MiB
        With `group_by`, about the most bytes of rows in a payload: a larger group gets several payloads with the
        same keys. A task also holds at most so many bytes of a group.
    rows_per_batch, bytes_per_batch : int
        Most payloads, and about the most bytes, that are passed to Spark at once.
    """

    rows_per_payload: int | None = None
    group_by: str | Sequence[str] | None = None
    column: str = "payload"
    keep_keys: bool = False
    dictionary_columns: str | Sequence[str] = ()
    bytes_per_payload: int = BYTES_PER_PAYLOAD
    rows_per_batch: int = ROWS_PER_BATCH
    bytes_per_batch: int = BYTES_PER_BATCH

    def __post_init__(self) -> None:
        if self.rows_per_payload is None and not self.keys:
            raise UsageError("give rows_per_payload= or group_by=: which rows make up a payload?")
        counted = () if self.rows_per_payload is None else ("rows_per_payload",)
        _check_counts(self, *counted, "bytes_per_payload", "rows_per_batch", "bytes_per_batch")
        CodecOptions.__post_init__(self)
        if self.engine == "jvm":
            raise UsageError(
                "engine: Python alone cuts rows into payloads of bounded memory; where all rows of a group fit into "
                "memory, the JVM makes its payload: df.groupBy(...).agg(to_arrow(F.collect_list(F.struct(...))))"
            )

    @property
    def keys(self) -> list[str]:
        """The names of the key columns."""
        return names_of(self.group_by)


def names_of(columns: str | Sequence[str] | None) -> list[str]:
    """The names of columns, none, one or several."""
    return [columns] if isinstance(columns, str) else list(columns or ())


def _check_counts(options: Any, *names: str) -> None:
    for name in names:
        check_integer(name, getattr(options, name), 1, 2**63 - 1)


# -- the same as keywords, for type checkers -------------------------------------------------------------------


class DecodeKeywords(TypedDict, total=False):
    """:class:`DecodeOptions` as keyword arguments."""

    nanoseconds: Literal["error", "truncate", "long"]
    unsupported: Literal["error", "drop", "string"]
    extensions: bool
    columns: Sequence[str | int] | str | int | None
    keep: str | Sequence[str]
    on_error: OnError
    error_column: str | None
    validate: Validate
    verify: bool | None
    prefix: int
    id_column: str | None
    engine: Engine
    rows_per_batch: int
    bytes_per_batch: int


class CodecKeywords(TypedDict, total=False):
    """:class:`CodecOptions` as keyword arguments."""

    with_schema: bool
    compression: Literal["lz4", "zstd"] | None
    compression_level: int | None
    checksum: bool
    engine: Engine


class EncodeKeywords(CodecKeywords, total=False):
    """:class:`EncodeOptions` as keyword arguments."""

    rows_per_payload: int | None
    group_by: str | Sequence[str] | None
    column: str
    keep_keys: bool
    dictionary_columns: str | Sequence[str]
    bytes_per_payload: int
    rows_per_batch: int
    bytes_per_batch: int
