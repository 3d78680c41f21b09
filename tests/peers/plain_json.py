"""Schemas and values as plain JSON, the same for every implementation: what the programs beside print.

Integers, decimals (unscaled) and temporal values are their stored numbers as text, floats the bits of the
double as 16 hexadecimal digits ("nan" for every NaN), bytes hexadecimal; dictionaries and runs are decoded; a
struct is the list of its members, a map a list of [key, value], a union [type code, value].
"""

import itertools
import struct
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Plain = Any  # what json.loads returns


def reading(schema: pa.Schema, batches: list[pa.RecordBatch]) -> Plain:
    """A whole stream or file, as the programs beside print it."""
    return {
        "schema": {"fields": [field(f) for f in schema], "metadata": _words(schema.metadata)},
        "batches": [{"rows": b.num_rows, "columns": columns(b)} for b in batches],
    }


def columns(batch: pa.RecordBatch) -> list[list[Plain]]:
    kinds, shown = batch.schema.types, batch
    if _BARE.keys() & set(map(str, kinds)):
        schema = pa.schema([pa.field(f.name, _BARE.get(str(f.type), f.type)) for f in batch.schema])
        shown = pa.RecordBatch._import_from_c_capsule(schema.__arrow_c_schema__(), batch.__arrow_c_array__()[1])
    found = []
    for kind, array in zip(kinds, shown.columns, strict=True):
        rows = values(array)
        if str(kind) == "day_time_interval":
            rows = [row and [str(part) for part in struct.unpack("<ii", bytes.fromhex(row))] for row in rows]
        found.append(rows)
    return found


# pyarrow carries these types but shows no arrays of them: they are looked at as others of the same width.
_BARE = {"month_interval": pa.int32(), "day_time_interval": pa.binary(8)}


# Types.

_NAMES = {
    "halffloat": "float16",
    "float": "float32",
    "double": "float64",
    "string": "utf8",
    "large_string": "large_utf8",
    "string_view": "utf8_view",
    "date32[day]": "date[day]",
    "date64[ms]": "date[ms]",
    "month_interval": "interval[year_month]",
    "day_time_interval": "interval[day_time]",
    "month_day_nano_interval": "interval[month_day_nano]",
}


def field(described: pa.Field) -> Plain:
    kind, dictionary = described.type, None
    metadata = dict(described.metadata or {})
    if isinstance(kind, pa.BaseExtensionType):  # pyarrow took its name out of the metadata
        metadata |= {b"ARROW:extension:name": kind.extension_name.encode()}
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        dictionary = {"index": str(kind.index_type), "ordered": kind.ordered}
        kind = kind.value_type
    return {
        "name": described.name,
        "type": _type(kind),
        "nullable": described.nullable,
        "dictionary": dictionary,
        "metadata": _words(metadata),
        "children": [field(child) for child in _children(kind)],
    }


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [pa.field("entries", pa.struct([kind.key_field, kind.item_field]), False)]
    if pa.types.is_run_end_encoded(kind):
        return [pa.field("run_ends", kind.run_end_type, False), pa.field("values", kind.value_type)]
    return [kind.field(i) for i in range(kind.num_fields)]


def _type(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list[{kind.list_size}]"
    if pa.types.is_map(kind):
        return "map[sorted]" if kind.keys_sorted else "map"
    if pa.types.is_union(kind):
        return f"{kind.mode}_union[{','.join(map(str, kind.type_codes))}]"
    if pa.types.is_decimal(kind):
        return f"decimal{kind.bit_width}({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}, {kind.tz}]" if kind.tz else f"timestamp[{kind.unit}]"
    name = str(kind).partition("<")[0]  # types with children have theirs behind it
    return _NAMES.get(name, name)


def _words(metadata: dict[bytes, bytes] | None) -> Plain:
    return {key.decode(): value.decode() for key, value in (metadata or {}).items()}


def without_map_names(described: Plain) -> Plain:
    """A field with the standard names inside its maps: the format leaves them open, pyarrow replaces them."""
    children = [without_map_names(child) for child in described["children"]]
    if described["type"].startswith("map"):
        (entries,) = children
        key, value = entries["children"]
        named = [{**key, "name": "key"}, {**value, "name": "value"}]
        children = [{**entries, "name": "entries", "children": named}]
    return {**described, "children": children}


# Values.


def values(array: pa.Array) -> list[Plain]:
    """The logical values of an array."""
    kind = array.type
    if not len(array):  # pyarrow cannot show the type codes of an empty union
        return []
    if isinstance(kind, pa.BaseExtensionType):
        return values(array.storage)
    if pa.types.is_dictionary(kind):
        return values(array.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return values(pc.run_end_decode(array))
    if pa.types.is_union(kind):
        return _chosen(array)
    if pa.types.is_null(kind):
        return [None] * len(array)
    valid = array.is_valid().to_pylist()
    return [item if ok else None for ok, item in zip(valid, _stored(array, kind), strict=True)]


def _chosen(array: pa.Array) -> list[Plain]:
    kind, codes = array.type, array.type_codes.to_pylist()
    members = {code: values(array.field(i)) for i, code in enumerate(kind.type_codes)}
    at = array.offsets.to_pylist() if kind.mode == "dense" else range(len(array))
    return [[code, members[code][i]] for code, i in zip(codes, at, strict=True)]


def _stored(array: pa.Array, kind: pa.DataType) -> list[Plain]:
    """One value per row, whatever it is where the row is null."""
    if pa.types.is_struct(kind):
        members = [values(array.field(i)) for i in range(kind.num_fields)]
        return [[member[row] for member in members] for row in range(len(array))]
    if pa.types.is_map(kind):
        pairs = [list(pair) for pair in zip(values(array.keys), values(array.items), strict=True)]
        return [pairs[a:b] for a, b in itertools.pairwise(array.offsets.to_pylist())]
    if pa.types.is_fixed_size_list(kind):
        below, size, start = values(array.values), kind.list_size, array.offset
        return [below[(start + i) * size : (start + i + 1) * size] for i in range(len(array))]
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        below = values(array.values)
        return [below[a : a + n] for a, n in zip(array.offsets.to_pylist(), array.sizes.to_pylist(), strict=True)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        below = values(array.values)
        return [below[a:b] for a, b in itertools.pairwise(array.offsets.to_pylist())]
    return _scalars(array, kind)


_WIDTHS = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


def _scalars(array: pa.Array, kind: pa.DataType) -> list[Plain]:
    if kind in (pa.bool_(), pa.string(), pa.large_string(), pa.string_view()):
        return array.to_pylist()
    if pa.types.is_integer(kind):
        return [str(v) for v in array.to_pylist()]
    if pa.types.is_floating(kind):
        return [_bits(v) for v in array.to_pylist()]
    if pa.types.is_decimal(kind):
        return [None if v is None else str(_unscaled(v, kind.scale)) for v in array.to_pylist()]
    if kind == pa.month_day_nano_interval():
        return [v and [str(part) for part in v] for v in array.to_pylist()]
    if pa.types.is_temporal(kind):
        return [str(v) for v in array.view(_WIDTHS[kind.bit_width // 8]).to_pylist()]
    return [None if v is None else v.hex() for v in array.to_pylist()]


def _bits(value: float | None) -> str | None:
    if value is None:
        return None
    return "nan" if value != value else struct.pack(">d", value).hex()


def _unscaled(value: Any, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    assert exponent == -scale
    return (-1 if sign else 1) * int("".join(map(str, digits)))
