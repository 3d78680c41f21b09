"""The limits on what untrusted bytes may demand, with the reasons for them."""

from __future__ import annotations

from arrowipc.arguments import Immutable, filled, instance_of
from arrowipc.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

MIB = 1 << 20
GIB = 1 << 30


class Limits(Immutable):
    """Bounds that a reader applies before it allocates or recurses.

    Parameters
    ----------
    metadata_bytes : int, default 16 MiB
        Largest message metadata or file footer head. A schema of 10,000 columns needs about 1 MiB;
        the length field alone could claim 2 GiB.
    depth : int, default 64
        Levels of nested types. Arrow C++ and arrow-rs stop at 64 too.
    rows_per_batch : int, default 2**31 - 1
        Rows of one record batch. 232 bytes can claim 2**60 rows of the null type.
    decompressed_bytes : int, default 2 GiB
        Sum of the uncompressed buffers of one batch.
    decompressed_ratio : int, default 1000
        A batch may expand to this many times its compressed size ...
    decompressed_slack : int, default 1 GiB
        ... plus this much. Together they allow constant columns, which compress very well, and stop bombs.
    payload_slack : int, default 64 MiB
        The slack for a payload column, for all cells together: the output of one call of `decode_payloads` may have
        this many bytes beyond `decompressed_ratio` times the bytes of the cells. If dictionaries refer to dictionaries,
        so that few bytes describe many values, the ratio is 32. `decompressed_slack` is a bound here too.
    dictionary_bytes : int, default 2 GiB
        Bytes of all dictionaries that one reader holds.
    read_ahead : int, default 64 MiB
        Most memory allocated for bytes that a stream has announced and not yet delivered.
    spool_bytes : int, default 64 MiB
        Largest file from a pipe that is kept in memory; a larger one is written to a temporary file. Also the largest
        one of a server that does not say how long it is, where a copy is needed: to `recover` and to `validate` it.
    row_cache_bytes : int, default 64 MiB
        Decoded batches that a file reader keeps for `take` and `row`, for each of the last four selections of columns;
        a larger batch is kept alone. Bytes in a mapped file or in the caller's memory are not counted.
    overlap_bytes : int, default 64 MiB
        By how many bytes the buffers of a batch may exceed its body because they share bytes. Sharing is
        legal, but a thousand columns on one 2 GiB buffer are a bomb for anyone who copies them.
    dataset_columns : int, default 100,000
        Columns of a data set; each of its files may add some.

    Examples
    --------
    >>> from arrowipc import Limits
    >>> Limits(depth=8).depth
    8
    """

    metadata_bytes: int
    depth: int
    rows_per_batch: int
    decompressed_bytes: int
    decompressed_ratio: int
    decompressed_slack: int
    payload_slack: int
    dictionary_bytes: int
    read_ahead: int
    spool_bytes: int
    row_cache_bytes: int
    overlap_bytes: int
    dataset_columns: int
    __slots__ = __match_args__ = (
        "metadata_bytes",
        "depth",
        "rows_per_batch",
        "decompressed_bytes",
        "decompressed_ratio",
        "decompressed_slack",
        "payload_slack",
        "dictionary_bytes",
        "read_ahead",
        "spool_bytes",
        "row_cache_bytes",
        "overlap_bytes",
        "dataset_columns",
    )
    repairs = False

    def __new__(
        cls,
        *,
        metadata_bytes: int = 16 * MIB,
        depth: int = 64,
        rows_per_batch: int = 2**31 - 1,
        decompressed_bytes: int = 2 * GIB,
        decompressed_ratio: int = 1000,
        decompressed_slack: int = GIB,
        payload_slack: int = 64 * MIB,
        dictionary_bytes: int = 2 * GIB,
        read_ahead: int = 64 * MIB,
        spool_bytes: int = 64 * MIB,
        row_cache_bytes: int = 64 * MIB,
        overlap_bytes: int = 64 * MIB,
        dataset_columns: int = 100_000,
    ) -> Self:
        arguments = locals()
        values = {name: arguments[name] for name in cls.__match_args__}
        for name, value in values.items():
            if not isinstance(value, int) or not 0 <= value < 2**63:
                raise UsageError(f"Limits({name}=): expected an integer from 0 to 2**63 - 1, found {value!r}")
        if depth > 64:
            # Code that walks over nested types keeps one stack entry per level in a fixed C array.
            raise UsageError(f"Limits(depth=): at most 64, found {depth}")
        return filled(cls, *values.values())

    def __repr__(self) -> str:
        return "Limits(" + ", ".join(f"{name}={value}" for name, value in sorted(self._parameters().items())) + ")"

    def __eq__(self, other: object) -> bool:
        return self._parameters() == other._parameters() if isinstance(other, Limits) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._parameters().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        from functools import partial

        return partial(Limits, **self._parameters()), ()


class RecoveryLimits(Limits):
    """The limits of `recover`; with them, decoding accepts mistakes of known writers.

    If the length before a ZSTD buffer is 0, the size in its frame is used. If there are more variadicBufferCounts than
    view columns, the last ones are used.
    """

    repairs = True

    def __new__(cls, limits: Limits | None) -> Self:
        return filled(cls, *instance_of("limits", limits or Limits(), Limits)._parameters().values())
