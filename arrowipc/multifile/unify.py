"""Makes one schema for files with different schemas, and converts their batches to it.

A column has the type that holds the values of all files: the wider integer (signed if one is), the wider float,
text and binary with 64-bit offsets if their kinds differ, the values of a dictionary if dictionaries are not of one
type, the union of the fields of structs, and any type in place of null. Nothing is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from arrowipc import datatypes as at
from arrowipc.arguments import repeated
from arrowipc.columns.array import Array
from arrowipc.columns.record_batch import RecordBatch
from arrowipc.decode.from_buffers import add_parts
from arrowipc.errors import ArrowIpcError, FormatError, LimitError, UsageError
from arrowipc.metadata.schema_tables import dictionaries_of
from arrowipc.schemas import Schema, numbered_field, numbered_type, renumbered
from arrowipc.values.to_numpy import stored_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import TypeVar

    import numpy.typing as npt

    Integers = npt.NDArray[np.integer[Any]]
    T = TypeVar("T", bound=ArrowIpcError)

#: Bytes of one value, by the precision of a floating-point type.
FLOATS = {"half": 2, "single": 4, "double": 8}
BINARY = (at.Binary, at.LargeBinary, at.BinaryView)
LISTS = (at.List, at.LargeList)
#: Types whose offsets have 64 bits -> the same types with 32 bits.
WIDENED: dict[type[at.DataType], type[at.DataType]] = {
    at.LargeUtf8: at.Utf8,
    at.LargeBinary: at.Binary,
    at.LargeList: at.List,
}


# -- schemas -------------------------------------------------------------------------------------------------


class SchemaUnion:
    """The columns of all files, in the order in which they first occur, each with the first file that has it."""

    def __init__(self, most_columns: int) -> None:
        self._most = most_columns
        #: Column -> the field so far, the first file that has it, and in how many schemas it is.
        self._fields: dict[str, tuple[at.Field, str, int]] = {}
        self._seen: dict[bytes, tuple[Schema, str]] = {}

    def add(self, schema: Schema, path: str) -> None:
        """Add the schema of one more file; raise an error if no type holds all values of a column."""
        stored = schema.serialize()
        if stored in self._seen:
            return
        self._seen[stored] = schema, path
        if len(self._seen) == 1:
            return  # as long as all files have one schema, its names may repeat
        for each, origin in [*self._seen.values()] if not self._fields else [(schema, path)]:
            for name, field in by_name(each).items():
                self._fields[name] = self._merged(name, field, origin)

    def _merged(self, name: str, field: at.Field, path: str) -> tuple[at.Field, str, int]:
        """Return a column for the files so far and this one."""
        if name not in self._fields:
            if len(self._fields) >= self._most:
                raise LimitError(
                    f"with column {name!r} the files have more than {self._most:,} columns together: give schema=, or "
                    "allow more with Limits(dataset_columns=)"
                )
            return _without_ids(field), path, 1
        known, origin, count = self._fields[name]
        both = _common_field(known, field)
        if both is None:
            raise refused(
                name,
                f"is {_spelt(field)}, and in {origin} {_spelt(known)}: no type holds the values of both without loss; "
                "give schema= with columns that fit, or read such files apart",
            )
        return both, origin, count + 1

    @property
    def schema(self) -> Schema:
        """Schema: that of all files if they have only one, else the union, with the metadata of the first file."""
        first = next(iter(self._seen.values()))[0]
        if not self._fields:
            return first
        return first.__replace__(
            fields=[
                field if count == len(self._seen) else field.__replace__(nullable=True)
                for field, _, count in self._fields.values()
            ]
        )


def by_name(schema: Schema) -> dict[str, at.Field]:
    """Return the fields by their names; raise a UsageError if names repeat."""
    fields = {field.name: field for field in schema}
    for name in repeated(schema.names) if len(fields) < len(schema) else ():
        raise refused(name, "is there more than once: such files are read together only if all have the same schema")
    return fields


def refused(column: str, text: str, kind: type[T] = UsageError) -> T:  # type: ignore[assignment]
    """Return an error about a column; the caller, which knows the file, adds the file's name."""
    error = kind(f"column {column!r} {text}")
    error.column = column
    return error


def _spelt(field: at.Field) -> str:
    extension = f" (extension {field.extension_name})" if field.extension_name else ""
    return f"{field.type}{extension}"


def without_ids(schema: Schema) -> Schema:
    """Return the schema without ids of dictionaries: columns that share one in some file need not do so in others."""
    return renumbered(schema, lambda _: None)


def _exact(schema: Schema) -> tuple[Any, ...]:
    """Return what equal schemas may differ in: extension types, and which columns share a dictionary."""
    ids = [each.dictionary_id for each in dictionaries_of(schema.fields)]
    return _tags(schema), [i if each is None else ids.index(each) for i, each in enumerate(ids)]


def _without_ids(field: at.Field) -> at.Field:
    """Return the field without ids of dictionaries, which have a meaning only within one file."""
    return numbered_field(field, lambda _: None)


def _common_field(one: at.Field, other: at.Field) -> at.Field | None:
    """Return the field that holds the values of both, or None."""
    nullable = one.nullable or other.nullable
    if isinstance(one.type, at.Null) or isinstance(other.type, at.Null):
        field = other if isinstance(one.type, at.Null) else one
        return _without_ids(field).__replace__(name=one.name, nullable=True)
    if (one.extension_name, one.extension_metadata) != (other.extension_name, other.extension_metadata):
        return None
    kind = _common(one.type, other.type)
    return None if kind is None else one.__replace__(type=kind, nullable=nullable)


def _common(one: at.DataType, other: at.DataType) -> at.DataType | None:
    """Return the type that holds the values of both, or None."""
    if one == other:
        return one if _tags(one.children) == _tags(other.children) else None
    if isinstance(one, at.Dictionary) or isinstance(other, at.Dictionary):
        plain = [kind.value_type if isinstance(kind, at.Dictionary) else kind for kind in (one, other)]
        both = _common_field(*[at.Field("", numbered_type(kind, lambda _: None)) for kind in plain])
        # Unions and run-end encoded values have no nulls of their own.
        return None if both is None or isinstance(both.type, (at.Union, at.RunEndEncoded)) else both.type
    if isinstance(one, at.Int) and isinstance(other, at.Int):
        return _common_integer(one, other)
    if isinstance(one, at.FloatingPoint) and isinstance(other, at.FloatingPoint):
        return max(one, other, key=lambda kind: FLOATS[kind.precision])
    if isinstance(one, at.TEXT) and isinstance(other, at.TEXT):
        return at.LargeUtf8()
    if isinstance(one, BINARY) and isinstance(other, BINARY):
        return at.LargeBinary()
    if isinstance(one, at.Struct) and isinstance(other, at.Struct):
        return _common_struct(one, other)
    if isinstance(one, LISTS) and isinstance(other, LISTS):
        child = _common_field(one.value_field, other.value_field)
        return None if child is None else (at.List if type(one) is type(other) is at.List else at.LargeList)(child)
    if not _same_lists(one, other):
        return None
    other = _named_as(other, one)
    children = [_common_field(*pair) for pair in zip(one.children, other.children, strict=True)]
    found = [child for child in children if child is not None]
    return at.with_children(one, found) if len(found) == len(children) else None


def _same_lists(one: at.DataType, other: at.DataType) -> bool:
    """Whether these are lists or maps that differ only in their children."""
    alike = type(one) is type(other) and isinstance(one, (at.FixedSizeList, at.ListView, at.LargeListView, at.Map))
    return alike and all(
        getattr(one, name, None) == getattr(other, name, None) for name in ("list_size", "keys_sorted")
    )


def _named_as(kind: at.DataType, like: at.DataType) -> at.DataType:
    """Rename the entries of a map as in another map: these names mean nothing, but structs are matched by names."""
    if not (isinstance(kind, at.Map) and isinstance(like, at.Map)):
        return kind
    pairs = zip(kind.entries.type.children, like.entries.type.children, strict=True)
    entries = at.Struct([mine.__replace__(name=theirs.name) for mine, theirs in pairs])
    return kind.__replace__(entries=like.entries.__replace__(type=entries))


def _tags(fields: Iterable[at.Field]) -> list[Any]:
    """Return the extension types of fields and of their children; comparing types ignores them."""
    return [(field.extension_name, field.extension_metadata, _tags(field.type.children)) for field in fields]


def _common_integer(one: at.Int, other: at.Int) -> at.Int | None:
    if one.signed == other.signed:
        return max(one, other, key=lambda kind: kind.bit_width)
    signed, unsigned = (one, other) if one.signed else (other, one)
    bits = max(signed.bit_width, 2 * unsigned.bit_width)
    return at.Int(bits, True) if bits <= 64 else None


def _common_struct(one: at.Struct, other: at.Struct) -> at.Struct | None:
    mine, theirs = ({field.name: field for field in kind.fields} for kind in (one, other))
    if len(mine) < len(one.fields) or len(theirs) < len(other.fields):
        return None  # names repeat
    merged = []
    for name in [*mine, *[name for name in theirs if name not in mine]]:
        pair = mine.get(name), theirs.get(name)
        if pair[0] is not None and pair[1] is not None:
            both = _common_field(pair[0], pair[1])
        else:
            both = _without_ids(pair[0] or pair[1]).__replace__(nullable=True)  # type: ignore[arg-type]
        if both is None:
            return None
        merged.append(both)
    return at.Struct(merged)


# -- batches -------------------------------------------------------------------------------------------------


class FileMapping:
    """Converts batches of one schema to that of the data set; all files of that schema share it.

    `keys` are the columns of the data set that have one value per file; `most_bytes` limits the bytes of nulls, keys
    and decoded dictionaries of one batch. Raise a UsageError if a column does not fit, or is missing.
    """

    def __init__(self, have: Schema, want: Schema, keys: Collection[str], most_bytes: int, missing: str) -> None:
        self.most_bytes: int = most_bytes
        self._values: dict[Any, tuple[str, _Repeated]] = {}
        rest = [field for field in want if field.name not in keys]
        self._fits = have is want or (len(rest) == len(want) and have == want and _exact(have) == _exact(want))
        if self._fits:
            return
        self._want = without_ids(want)
        # Repeated names are matched by their order, if all names are in the same order.
        alike = [field.name for field in rest] == have.names
        known_places = {} if alike else {name: i for i, name in enumerate(by_name(have))}
        places = range(len(have)) if alike else [known_places.get(field.name) for field in rest]
        left = iter(places)
        #: Per column of the data set: its index in the batch (None: it is not there), and its field there.
        self._from: list[tuple[int | None, at.Field]] = []
        for field in want:
            place = None if field.name in keys else next(left)
            known = field if place is None else have.fields[place]
            if place is None and field.name not in keys and (missing == "error" or not field.nullable):
                raise refused(field.name, "is missing" + (", and schema= allows no nulls" if missing == "null" else ""))
            if not _becomes(known, field):
                raise refused(field.name, f"is {_spelt(known)}, which does not become {_spelt(field)} without loss")
            self._from.append((place, known))

    def __call__(self, batch: RecordBatch, keys: Mapping[str, Any]) -> RecordBatch:
        """Convert a batch of a file with these keys to the schema of the data set; return it if it has that already."""
        if self._fits:
            return batch
        parts = _Parts(self)
        for (place, have), want in zip(self._from, self._want, strict=True):
            if place is not None:
                parts.add(batch.column(place), have, want, want.name)
            else:
                parts.repeated(keys.get(want.name), batch.num_rows, want.type, want.name)
        return parts.batch(self._want, batch.num_rows, batch.custom_metadata)

    def value(self, value: Any, kind: at.DataType, column: str) -> _Repeated:
        """Return a value or null of a type, to be repeated; keep the last one of each column."""
        known, text = self._values.get(column), repr(value)  # -0.0 equals 0.0, and is another value
        if known is None or known[0] != text or known[1].kind != kind:  # names of members may look like columns
            known = self._values[column] = text, _Repeated(value, kind)
        return known[1]


def _becomes(have: at.Field, want: at.Field) -> bool:
    """Whether `_Parts` can convert the values of one field to another."""
    kind, target = have.type, want.type
    if isinstance(kind, at.Null) and kind != target:
        return want.nullable
    if (have.extension_name, have.extension_metadata) != (want.extension_name, want.extension_metadata):
        return False
    if kind == target:
        return _tags(kind.children) == _tags(target.children)
    if isinstance(kind, at.Dictionary) and not isinstance(target, (at.Dictionary, at.Union, at.RunEndEncoded)):
        return _becomes(have.__replace__(type=kind.value_type), want)
    if isinstance(kind, at.Struct) and isinstance(target, at.Struct):
        known = {child.name: child for child in kind.fields}
        return len(known) == len(kind.fields) and all(
            _becomes(known[child.name], child) if child.name in known else child.nullable for child in target.fields
        )
    if (isinstance(kind, at.TEXT) and isinstance(target, at.TEXT)) or (
        isinstance(kind, BINARY) and isinstance(target, BINARY)
    ):
        return True
    if isinstance(kind, LISTS) and isinstance(target, LISTS):
        wide = isinstance(target, at.LargeList) or isinstance(kind, at.List)
        return wide and _becomes(kind.value_field, target.value_field)
    if _same_lists(kind, target):
        kind = _named_as(kind, target)
        return all(_becomes(*pair) for pair in zip(kind.children, target.children, strict=True))
    return _common(kind, target) == target


class _Repeated:
    """One value, repeated as often as there are rows; keeps the longest array so far."""

    def __init__(self, value: Any, kind: at.DataType) -> None:
        self.kind: at.DataType = kind
        self._array = self._one = Array.from_pylist([value], kind)
        self.width: int = max(nbytes_of(self._one), 8)

    def __call__(self, rows: int) -> Array:
        array = self._array  # other threads may replace it by a shorter one
        if rows > len(array):
            array = self._array = self._one.take(np.zeros(rows, np.int64))
        return array.slice(0, rows)


class _Parts:
    """The parts of a batch, to which its columns are added in the order of the format."""

    def __init__(self, mapping: FileMapping) -> None:
        self._mapping = mapping
        self._made = 0
        self.nodes: list[tuple[int, int]] = []
        self.buffers: list[Any] = []
        self.variadic: list[int] = []
        self.dictionaries: list[Array | None] = []

    def batch(self, schema: Schema, rows: int, metadata: Any = ()) -> RecordBatch:
        """Return a batch of all that was added."""
        return RecordBatch.from_buffers(
            schema,
            rows,
            self.nodes,
            self.buffers,
            variadic=self.variadic,
            dictionaries=self.dictionaries,
            custom_metadata=metadata,
        )

    def charge(self, nbytes: int, column: str) -> None:
        """Count bytes that are added to those of the file's batch; raise a LimitError if they are too many."""
        self._made += nbytes
        if self._made > self._mapping.most_bytes:
            raise LimitError(
                f"with column {column!r} one batch would take {self._made:,} bytes more than the "
                f"file has, and Limits allow {self._mapping.most_bytes:,} (decompressed_bytes)"
            )

    def repeated(self, value: Any, rows: int, kind: at.DataType, column: str) -> None:
        """Add one value, or null, several times."""
        one = self._mapping.value(value, kind, column)
        self.charge(rows * one.width, column)
        self.same(one(rows))

    def same(self, array: Array) -> None:
        """Add an array as it is."""
        add_parts(array, self.nodes, self.buffers, self.variadic, self.dictionaries)

    def add(self, array: Array, have: at.Field, want: at.Field, column: str) -> None:
        """Add an array of the field `have`, converted to the field `want`."""
        kind, target = have.type, want.type
        if array.offset:
            array = array.take(np.arange(len(array)))  # the code below needs buffers that begin at 0
        if have.nullable and not want.nullable and array.null_count:
            raise refused(column, f"has {array.null_count:,} nulls, and schema= allows none", FormatError)
        if kind == target:
            self.same(array)
        elif isinstance(kind, at.Null):
            self.repeated(None, len(array), target, column)
        elif isinstance(kind, at.Dictionary):
            self._decoded(array, kind, want, column)
        elif isinstance(kind, (at.Int, at.FloatingPoint)):
            self._own(array, _numbers(array, kind).astype(stored_dtype(target)))
        elif WIDENED.get(type(target)) is type(kind) and not kind.children:
            self._own(array, _wide_offsets(array), array.buffers()[2])
        elif isinstance(kind, (*at.TEXT, *BINARY)):
            self.charge(nbytes_of(array), column)
            self.same(Array.from_pylist(array.to_pylist(max_values=len(array) + 1, extensions=False), target))
        elif isinstance(kind, at.Struct):
            self._own(array)
            known = {field.name: (child, field) for field, child in zip(kind.fields, array.children, strict=True)}
            for field in target.children:
                name = f"{column}.{field.name}"
                if field.name in known:
                    self.add(*known[field.name], field, name)
                else:
                    self.repeated(None, len(array), field.type, name)
        else:
            kind = _named_as(kind, target)
            wide = isinstance(target, at.LargeList) and isinstance(kind, at.List)
            self._own(array, *([_wide_offsets(array)] if wide else array.buffers()[1:]))
            for child, field, wanted in zip(array.children, kind.children, target.children, strict=True):
                self.add(child, field, wanted, column)

    def _own(self, array: Array, *buffers: Any) -> None:
        """Add the node and the validity of an array, and other buffers."""
        valid = array.buffers()[0]
        self.nodes.append((len(array), 0 if valid is None else -1))
        self.buffers += [valid, *buffers]

    def _decoded(self, array: Array, kind: at.Dictionary, want: at.Field, column: str) -> None:
        """Add the values of a dictionary in place of its indices."""
        n, values, bits = len(array), array.dictionary, array.buffers()[0]
        valid = np.ones(n, np.bool_)
        if bits is not None:
            valid = np.unpackbits(np.frombuffer(bits, np.uint8), count=n, bitorder="little").view(np.bool_)
        index = _numbers(array, kind.index_type).astype(np.int64)
        used = index[valid]
        if not len(used) or isinstance(want.type, at.Null):
            self.repeated(None, n, want.type, column)
            return
        if values is None or used.min() < 0 or used.max() >= len(values):
            raise refused(column, f"has indices outside of its dictionary of {len(values or ())} values", FormatError)
        field = want.__replace__(nullable=True)
        inner = _Parts(self._mapping)
        inner.add(values, field.__replace__(type=kind.value_type), field, column)
        plain = inner.batch(Schema([field]), len(values)).column(0)
        sizes = _sizes(plain)
        self.charge(int(sizes[used].sum()) + (n - len(used)) * int(sizes.min()), column)
        rows = Array.from_buffers(at.Int(64, True), n, [np.packbits(valid, bitorder="little"), index])
        taken = plain.take(rows)
        if not want.nullable and taken.null_count:
            raise refused(column, "has nulls, and schema= allows none", FormatError)
        self.same(taken)


def _numbers(array: Array, kind: at.DataType) -> Integers:
    """Return the numbers that an array stores, also those under nulls."""
    dtype = stored_dtype(kind)
    return np.frombuffer(array.buffers()[1] or b"", dtype, len(array))


def _wide_offsets(array: Array) -> Integers:
    """Convert offsets of 32 bits to 64 bits."""
    if not len(array):
        return np.zeros(1, np.int64)
    return np.frombuffer(array.buffers()[1] or b"", "<i4", len(array) + 1).astype(np.int64)


def nbytes_of(array: Array) -> int:
    """Return the bytes of all buffers of an array and of its children."""
    return sum([len(each) for each in array.buffers() if each is not None]) + sum(map(nbytes_of, array.children))


def _sizes(values: Array) -> npt.NDArray[np.int64]:
    """Return the bytes that each element takes; for some nested types, an upper bound."""
    kind, n, children = values.type, len(values), values.children
    if isinstance(kind, (at.Utf8View, at.BinaryView)):
        return np.full(n, 16)
    if isinstance(kind, at.Struct):
        return sum(map(_sizes, children), np.ones(n, np.int64))
    if isinstance(kind, at.FixedSizeList):
        sizes: npt.NDArray[np.int64] = _sizes(children[0])[: n * kind.list_size].reshape(n, kind.list_size).sum(axis=1)
        return sizes + 1
    if isinstance(kind, (*at.TEXT, *BINARY, *LISTS, at.Map)):
        width = 8 if isinstance(kind, (at.LargeUtf8, at.LargeBinary, at.LargeList)) else 4
        ends = np.frombuffer(values.buffers()[1] or bytes(8), f"<i{width}", n + 1).astype(np.int64)
        if children:
            below = np.append(0, _sizes(children[0]).cumsum())
            ends = below[ends.clip(0, len(below) - 1)]
        return np.diff(ends) + width
    return np.full(n, (nbytes_of(values) if children else nbytes_of(values) // max(n, 1)) + 1)
