"""How batches, tables, arrays, schemas, messages and tensors look in a terminal and in a notebook.

Everything here costs the same for a million columns as for twenty: only the first few columns and rows are read,
long text is cut, and the number of columns and rows left out is shown. Text from data is escaped, for terminals and
for HTML.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from html import escape
from itertools import accumulate

from arrowipc.errors import printable
from arrowipc.types import DataType, Decimal, Dictionary, Field, FloatingPoint, Int
from arrowipc.values.preview import CUT, NULL, counted, shorten, type_text, value_text, values_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from arrowipc.schemas import Schema

# Text: columns shown, widths of their parts, values shown.
TEXT_COLUMNS = 30
TEXT_FIELDS = 200
NAME_WIDTH = 24
TYPE_WIDTH = 32
LINE_WIDTH = 110
VALUES = 10
ARRAY_HEAD = 8
ARRAY_TAIL = 3

# HTML: columns and rows shown (half of them from the end), characters per cell.
HTML_COLUMNS = 20
HTML_ROWS = 10
CELL_WIDTH = 50

# Metadata: pairs shown, characters of keys and values; children shown per level, and levels of nesting.
PAIRS = 20
PAIR_WIDTH = 70
KEY_WIDTH = 66
VALUE_WIDTH = 10
CHILDREN = 10
LEVELS = 3

NUMBERS = (Int, FloatingPoint, Decimal)

# Colours come from the page: text inherits, lines are half transparent, so light and dark themes both fit.
STYLE = (
    "<style>"
    ".arrowipc{overflow-x:auto}"
    ".arrowipc table{border-collapse:collapse;color:inherit;font-variant-numeric:tabular-nums}"
    ".arrowipc th,.arrowipc td{padding:.2em .7em;text-align:left;vertical-align:baseline;white-space:nowrap;"
    "border-bottom:1px solid rgba(128,128,128,.25);background:transparent;color:inherit}"
    ".arrowipc th{font-weight:600;border-bottom:0;padding-bottom:0}"
    ".arrowipc thead td{border-bottom:0;padding-top:0;padding-bottom:0}"
    ".arrowipc thead tr:last-child>*{border-bottom:2px solid rgba(128,128,128,.5);padding-bottom:.3em}"
    ".arrowipc tbody th{font-weight:400;border-bottom:1px solid rgba(128,128,128,.25);padding-bottom:.2em}"
    ".arrowipc td.t{font-family:monospace;font-size:.85em;opacity:.75;padding-left:.82em;padding-right:.82em}"
    ".arrowipc .n{text-align:right}"
    ".arrowipc .i{opacity:.7}"
    ".arrowipc .z{opacity:.7;font-style:italic}"
    ".arrowipc p{margin:.4em 0;opacity:.75}"
    "</style>"
)


# Text.


def rows_text(rows: Any) -> str:
    """Return the header line of a batch or table, a line per column with its first values, a message's metadata."""
    batches = getattr(rows, "batches", [rows])
    # This visits every batch only if all are empty, which is rare.
    first = next((batch for batch in batches if batch.num_rows), None)
    lines = [_title(rows), *_column_lines(rows.schema, first)]
    if not hasattr(rows, "batches"):
        lines += _pair_lines(rows.custom_metadata.pairs, "-- batch metadata --", "")
    return "\n".join(lines)


def _title(rows: Any) -> str:
    shape = f"{counted(rows.num_rows, 'row')} x {counted(len(rows.schema), 'column')}"
    if not hasattr(rows, "batches"):
        return f"RecordBatch: {shape}"
    return f"Table: {shape} in {counted(len(rows.batches), 'batch', 'batches')}"


def array_text(array: Any) -> str:
    """Return the type, length and number of nulls of an array, with its first and last values below."""
    length = len(array)
    nulls = f", {array.null_count:,} null" if array.null_count else ""
    lines = [f"Array: {type_text(array.type, LINE_WIDTH)}, {counted(length, 'value')}{nulls}"]
    if length <= ARRAY_HEAD + ARRAY_TAIL:
        shown = list(range(length))
    else:
        shown = [*range(ARRAY_HEAD), *range(length - ARRAY_TAIL, length)]
    for before, i in zip([-1, *shown], shown, strict=False):
        if i != before + 1:
            lines.append(f"  {CUT}")
        lines.append(f"  {value_text(array.slice(i, 1)._whole(), 0, LINE_WIDTH - 2)}")
    return "\n".join(lines)


def schema_text(schema: Schema) -> str:
    """Return one line per field, with metadata of the field and of its children below it, like pyarrow."""
    lines: list[str] = []
    known: dict[int, str] = {}
    for field in schema.fields[:TEXT_FIELDS]:
        _add_field(lines, field, "", 0, known)
    if len(schema) > TEXT_FIELDS:
        lines.append(f"{CUT} and {counted(len(schema) - TEXT_FIELDS, 'more field')}")
    lines += _pair_lines(schema.metadata.pairs, "-- schema metadata --", "")
    if schema.endianness != "little":
        lines.append(f"-- endianness: {schema.endianness} --")
    return "\n".join(lines)


def message_text(message: Any) -> str:
    """Return kind, version and sizes of a message, with its custom metadata below."""
    sizes = f"{len(message.metadata):,} bytes of metadata, {message.body_length:,} bytes of body"
    lines = [f"Message: {message.kind}, {message.version}, {sizes}"]
    lines += _pair_lines(message.custom_metadata.pairs, "-- message metadata --", "")
    return "\n".join(lines)


def _column_lines(schema: Schema, batch: Any | None) -> Iterator[str]:
    """Yield name, type and first values of the first columns, aligned."""
    fields = schema.fields[:TEXT_COLUMNS]
    names = [shorten(printable(field.name), NAME_WIDTH) for field in fields]
    types = [_typed(field, TYPE_WIDTH) for field in fields]
    name_width, type_width = max(map(len, names), default=0), max(map(len, types), default=0)
    readable = _readable(schema)
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        start = f"  {name:<{name_width}}  {kind:<{type_width}}"
        if batch is None:
            yield start.rstrip()
        elif not readable:
            yield f"{start}  <{schema.endianness}-endian>"
        else:
            yield f"{start}  {values_text(batch.column(i), LINE_WIDTH - len(start) - 2, VALUES)}"
    if len(schema) > len(fields):
        yield f"  {CUT} and {counted(len(schema) - len(fields), 'more column')}"


def _add_field(lines: list[str], field: Field, prefix: str, depth: int, known: dict[int, str]) -> None:
    """Append the lines of a field, of its first children and of its metadata; `known`: texts by the ids of types."""
    kind, pairs = field.type, field.metadata.pairs
    if pairs or not field.nullable:
        text = _typed(field, LINE_WIDTH)
    elif (text := known.get(id(kind), "")) == "":
        text = known[id(kind)] = _typed(field, LINE_WIDTH)
    lines.append(f"{prefix}{shorten(printable(field.name), LINE_WIDTH)}: {text}")
    if depth < LEVELS and (children := kind.children):
        for position, child in enumerate(children[:CHILDREN]):
            _add_field(lines, child, f"{' ' * (4 * depth + 2)}child {position}, ", depth + 1, known)
    if pairs:
        lines += _pair_lines(pairs, "-- field metadata --", "  " * (depth + 1))


def _pair_lines(pairs: tuple[tuple[bytes, bytes], ...], title: str, indent: str) -> Iterator[str]:
    """Yield `title` and the pairs of some metadata; nothing if there are none."""
    if pairs:
        yield indent + title
    for key, value in pairs[:PAIRS]:
        name = shorten(printable(key[: KEY_WIDTH + 1].decode("utf-8", "backslashreplace")), KEY_WIDTH)
        yield f"{indent}{name}: {_pair_text(value, max(PAIR_WIDTH - len(name), VALUE_WIDTH))}"
    if len(pairs) > PAIRS:
        yield f"{indent}{CUT} and {counted(len(pairs) - PAIRS, 'more pair')}"


# HTML.


def rows_html(rows: Any) -> str:
    """Return a table of the first columns of a batch or table with their types, and the first and last rows."""
    batches, schema, total = getattr(rows, "batches", [rows]), rows.schema, rows.num_rows
    fields = schema.fields[:HTML_COLUMNS]
    names = [_cell("th", shorten(printable(field.name), CELL_WIDTH), _classes(field.type)) for field in fields]
    types = [_cell("td", _typed(field, CELL_WIDTH), f"t {_classes(field.type)}") for field in fields]
    if missing := len(schema) - len(fields):
        names.append(_cell("th", f"{CUT} {counted(missing, 'more column')}", "z"))
        types.append("<td></td>")
    starts = [0, *accumulate([batch.num_rows for batch in batches])]
    shown = [*range(total)] if total <= HTML_ROWS else [*range(HTML_ROWS // 2), *range(total - HTML_ROWS // 2, total)]
    lines = []
    for row in shown if fields and _readable(schema) else ():
        at = bisect_right(starts, row) - 1
        cells = [_value_cell(batches[at].column(i), row - starts[at]) for i in range(len(fields))]
        lines.append(f"<tr>{_cell('th', f'{row:,}', 'n i')}{''.join(cells)}</tr>")
    if fields and total > len(lines):
        more = f"{CUT} {counted(total - len(lines), 'more row')}"
        lines.insert(HTML_ROWS // 2, f'<tr><td></td><td class="z" colspan="{len(fields)}">{more}</td></tr>')
    head = "".join([f"<tr><td></td>{''.join(line)}</tr>" for line in (names, types)])
    table = f"<table><thead>{head}</thead><tbody>{''.join(lines)}</tbody></table>"
    return f'<div class="arrowipc" tabindex="0">{STYLE}<p>{_title(rows)}</p>{table}</div>'


def shaped(tensor: Any) -> str:
    """The shape of a tensor, and its dimensions where they have names."""
    if tensor.dim_names is None:
        return f"shape {tensor.shape}"
    return f"shape {tensor.shape}, dimensions ({', '.join([printable(n) or '-' for n in tensor.dim_names])})"


def _value_cell(array: Any, i: int) -> str:
    text = value_text(array, i, CELL_WIDTH, quotes=False)
    return _cell("td", text, f"{_classes(array.type)} {'z' if text is NULL else ''}")


def _cell(tag: str, text: str, classes: str = "") -> str:
    """One cell of a table; `text` is escaped."""
    style = f' class="{classes.strip()}"' if classes.strip() else ""
    return f"<{tag}{style}>{escape(text)}</{tag}>"


# Both.


def _typed(field: Field, width: int) -> str:
    """Return type and nullability; if the field has an extension type, its name with the storage type in brackets."""
    suffix = "" if field.nullable else " not null"
    name = field.extension_name
    if name is None:
        return type_text(field.type, width - len(suffix)) + suffix
    extension = shorten(printable(name), width // 2)
    left = max(width - len(extension) - len(suffix) - 2, 1)
    return f"{extension}<{type_text(field.type, left)}>{suffix}"


def _classes(kind: DataType) -> str:
    """Return the classes of cells with values of this type: numbers align to the right."""
    if isinstance(kind, Dictionary):
        kind = kind.value_type
    return "n" if isinstance(kind, NUMBERS) else ""


def _readable(schema: Schema) -> bool:
    return schema.endianness == sys.byteorder


def _pair_text(value: bytes, width: int) -> str:
    """Spell a metadata value: text where it is text, bytes otherwise, and how much was cut."""
    head = value[:width]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # The cut may have split a character; any other error means that the value is binary.
        if len(value) <= width or error.start < len(head) - 3:
            return repr(head) + (f" + {len(value) - len(head)}" if len(value) > len(head) else "")
        text = head[: error.start].decode()
        head = head[: error.start]
    return f"'{printable(text)}'" + (f" + {len(value) - len(head)}" if len(value) > len(head) else "")
