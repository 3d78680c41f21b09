"""How batches, tables, arrays, schemas, messages and tensors look in a terminal and in a notebook.

Everything here costs the same for a million columns as for twenty: the first few columns and rows are looked
at, long text is cut, and what is missing is counted. Text from data is escaped, for terminals and for HTML.
"""

from __future__ import annotations

import sys
from html import escape

from arrowipc.arguments import printable
from arrowipc.types import (
    DataType,
    Decimal,
    Dictionary,
    Field,
    FloatingPoint,
    Int,
)
from arrowipc.values.preview import CUT, NULL, shorten, size_text, type_text, value_text, values_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from arrowipc.schemas import Schema

__all__ = [
    "array_html",
    "array_text",
    "batch_html",
    "batch_text",
    "message_text",
    "schema_html",
    "schema_text",
    "shaped",
    "table_html",
    "table_text",
]

# Text: columns shown, widths of their parts, values looked at.
TEXT_COLUMNS = 30
TEXT_FIELDS = 200
NAME_WIDTH = 24
TYPE_WIDTH = 32
LINE_WIDTH = 110
VALUES = 10
ARRAY_HEAD = 8
ARRAY_TAIL = 3

# HTML: columns and rows shown (half of them from the end), characters per cell, columns of batches that are measured.
HTML_COLUMNS = 20
HTML_FIELDS = 100
HTML_ROWS = 10
CELL_WIDTH = 50
MEASURED = 20_000

# Metadata: pairs shown, characters of a value; children per level and levels that are looked at for more.
PAIRS = 20
PAIR_WIDTH = 66
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
    ".arrowipc td.s{min-width:4em;line-height:2}"
    ".arrowipc td.s{background:linear-gradient(#4285f4,#4285f4) no-repeat 0 100%/0 3px content-box}"
    ".arrowipc td.s.n{background-position:100% 100%}"
    ".arrowipc .n{text-align:right}"
    ".arrowipc .i{opacity:.7}"
    ".arrowipc .z{opacity:.7;font-style:italic}"
    ".arrowipc p{margin:.4em 0;opacity:.75}"
    "</style>"
)


# Text.


def batch_text(batch: Any) -> str:
    """Return the header line, one line per column with its first values, and the metadata of the message."""
    rows = _counted(batch.num_rows, "row")
    lines = [f"RecordBatch: {rows} x {_counted(len(batch.schema), 'column')}"]
    lines += _column_lines(batch.schema, batch if batch.num_rows else None)
    lines += _pair_lines(batch.custom_metadata.pairs, "-- batch metadata --", "")
    return "\n".join(lines)


def table_text(table: Any) -> str:
    """Return the header line, and one line per column with values of the first batch that has rows."""
    shape = f"{_counted(table.num_rows, 'row')} x {_counted(len(table.schema), 'column')}"
    lines = [f"Table: {shape} in {_counted(len(table.batches), 'batch', 'batches')}"]
    lines += _column_lines(table.schema, _first_filled(table))
    return "\n".join(lines)


def array_text(array: Any) -> str:
    """Return the type, length and number of nulls of an array, with its first and last values below."""
    length = len(array)
    nulls = f", {array.null_count:,} null" if array.null_count else ""
    lines = [f"Array: {type_text(array.type, LINE_WIDTH)}, {_counted(length, 'value')}{nulls}"]
    if length <= ARRAY_HEAD + ARRAY_TAIL:
        shown = list(range(length))
    else:
        shown = [*range(ARRAY_HEAD), *range(length - ARRAY_TAIL, length)]
    for before, i in zip([-1, *shown], shown, strict=False):
        if i != before + 1:
            lines.append(f"  {CUT}")
        lines.append(f"  {value_text(array, i, LINE_WIDTH - 2)}")
    return "\n".join(lines)


def schema_text(schema: Schema) -> str:
    """Return one line per field, with metadata of the field and of its children below it, like pyarrow."""
    lines: list[str] = []
    for field in schema.fields[:TEXT_FIELDS]:
        lines += _field_lines(field, "", "")
    if len(schema) > TEXT_FIELDS:
        lines.append(f"{CUT} and {_counted(len(schema) - TEXT_FIELDS, 'more field')}")
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
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        start = f"  {name:<{name_width}}  {kind:<{type_width}}"
        if batch is None:
            yield start.rstrip()
        elif not _readable(schema):
            yield f"{start}  <{schema.endianness}-endian>"
        else:
            yield f"{start}  {values_text(batch.column(i), LINE_WIDTH - len(start) - 2, VALUES)}"
    if len(schema) > len(fields):
        yield f"  {CUT} and {_counted(len(schema) - len(fields), 'more column')}"


def _field_lines(field: Field, prefix: str, indent: str) -> Iterator[str]:
    name = shorten(printable(field.name), LINE_WIDTH)
    yield f"{indent}{prefix}{name}: {_typed(field, LINE_WIDTH)}"
    yield from _pair_lines(field.metadata.pairs, "-- field metadata --", indent + "  ")
    for position, child in enumerate(_children(field.type)):
        # The type names the children already; they get a line of their own for the sake of their metadata.
        if _has_metadata(child, LEVELS):
            yield from _field_lines(child, f"child {position}, ", indent + "  ")


def _pair_lines(pairs: tuple[tuple[bytes, bytes], ...], title: str, indent: str) -> Iterator[str]:
    """Yield `title` and the pairs of some metadata; nothing if there are none."""
    if pairs:
        yield indent + title
    for key, value in pairs[:PAIRS]:
        yield f"{indent}{_key_text(key)}: {_pair_text(value)}"
    if len(pairs) > PAIRS:
        yield f"{indent}{CUT} and {_counted(len(pairs) - PAIRS, 'more pair')}"


# HTML.


def batch_html(batch: Any) -> str:
    """Return a table of the first columns with their types, nulls and sizes, and the first and last rows."""
    shape = f"{_counted(batch.num_rows, 'row')} x {_counted(len(batch.schema), 'column')}"
    return _frame(f"RecordBatch: {shape}", _data_table(batch.schema, [batch], batch.num_rows))


def table_html(table: Any) -> str:
    """Return a table of the first columns with their types, nulls and sizes, and the first and last rows."""
    shape = f"{_counted(table.num_rows, 'row')} x {_counted(len(table.schema), 'column')}"
    caption = f"Table: {shape} in {_counted(len(table.batches), 'batch', 'batches')}"
    return _frame(caption, _data_table(table.schema, table.batches, table.num_rows))


def array_html(array: Any) -> str:
    """Return the type of an array, and its first and last values."""
    head = f"<tr><td></td>{_cell('td', type_text(array.type, CELL_WIDTH), f't {_classes(array.type)}')}</tr>"
    first, last = _ends(len(array))
    rows = [(i, [_value_cell(array, i)]) for i in (*range(first), *range(last, len(array)))]
    nulls = f", {array.null_count:,} null" if array.null_count else ""
    caption = f"Array: {_counted(len(array), 'value')}{nulls}"
    return _frame(caption, _table(head, _numbered(rows, len(array), 1, "value")))


def schema_html(schema: Schema) -> str:
    """Return a table of the fields, one row each, and the metadata of the schema below."""
    order = "" if schema.endianness == "little" else f", {schema.endianness}-endian"
    return _frame(f"Schema: {_counted(len(schema), 'field')}{order}", _fields_table(schema))


def _fields_table(schema: Schema) -> str:
    fields = schema.fields[:HTML_FIELDS]
    described = any(field.metadata for field in fields)
    titles = ["", "name", "type", "nullable", *(["metadata"] if described else [])]
    head = f"<tr>{''.join([_cell('th', title) for title in titles])}</tr>"
    rows = []
    for position, field in enumerate(fields):
        cells = [_cell("td", str(position), "n i"), _cell("td", shorten(printable(field.name), CELL_WIDTH))]
        cells.append(_cell("td", type_text(field.type, LINE_WIDTH), "t"))
        cells.append(_cell("td", "yes" if field.nullable else "no"))
        if described:
            cells.append(f"<td>{_pairs_html(field.metadata.pairs)}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if len(schema) > len(fields):
        more = f"{CUT} and {_counted(len(schema) - len(fields), 'more field')}"
        rows.append(f"<tr><td></td>{_cell('td', more, 'z')}</tr>")
    below = f"<p>{_pairs_html(schema.metadata.pairs)}</p>" if schema.metadata else ""
    return _table(head, rows) + below


def shaped(tensor: Any) -> str:
    """The shape of a tensor, and its dimensions where they have names."""
    if tensor.dim_names is None:
        return f"shape {tensor.shape}"
    return f"shape {tensor.shape}, dimensions ({', '.join([printable(n) or '-' for n in tensor.dim_names])})"


def _data_table(schema: Schema, batches: list[Any], total: int) -> str:
    """The first and last of `total` rows of `batches`, below what is to be known about the first columns."""
    fields = schema.fields[:HTML_COLUMNS]
    missing = len(schema) - len(fields)
    classes = [_classes(field.type) for field in fields]
    names = [
        _cell("th", shorten(printable(field.name), CELL_WIDTH), kind)
        for field, kind in zip(fields, classes, strict=True)
    ]
    types = [_cell("td", _typed(field, CELL_WIDTH), f"t {kind}") for field, kind in zip(fields, classes, strict=True)]
    if missing:
        names.append(_cell("th", f"{CUT} {_counted(missing, 'more column')}", "z"))
    lines = [names, types, *_measures(schema, batches, classes)]
    head = "".join(
        [f"<tr><td></td>{''.join(line)}{'<td></td>' * (missing and line is not names)}</tr>" for line in lines]
    )
    rows: list[tuple[int, list[str]]] = []
    if _readable(schema) and fields:
        for start, batch, chosen in _ends_of(batches, total):
            columns = [batch.column(i) for i in range(len(fields))]
            rows += [(start + i, [_value_cell(column, i) for column in columns]) for i in chosen]
    return _table(head, _numbered(rows, total if fields else 0, len(fields), "row"))


def _measures(schema: Schema, batches: list[Any], classes: list[str]) -> Iterator[list[str]]:
    """Yield the line of nulls, if there are any, and that of sizes, where both are found soon."""
    if not _readable(schema) or not 0 < len(batches) * len(schema) <= MEASURED:
        return
    narrow = [batch.select(range(len(classes))) for batch in batches]
    nulls = [sum([batch.column(i).null_count for batch in narrow]) for i in range(len(classes))]
    sizes = [sum([batch.select([i]).nbytes for batch in narrow]) for i in range(len(classes))]
    if any(nulls):
        yield [_cell("td", f"{n:,} null" if n else "", f"t {kind}") for n, kind in zip(nulls, classes, strict=True)]
    largest = max(sizes) or 1
    yield [
        f'<td class="t s {kind}" style="background-size:{4 * size / largest:.2f}em 3px">{size_text(size)}</td>'
        for size, kind in zip(sizes, classes, strict=True)
    ]


def _ends(total: int) -> tuple[int, int]:
    """Return how many rows are shown from the beginning, and which is the first that is shown from the end."""
    return (total, total) if total <= HTML_ROWS else (HTML_ROWS // 2, total - HTML_ROWS // 2)


def _ends_of(batches: list[Any], total: int) -> Iterator[tuple[int, Any, range]]:
    """Yield the number of a batch's first row, the batch, and which of its rows are shown, at both ends."""
    first, last = _ends(total)
    start = 0
    for batch in batches:
        if start >= first:
            break
        yield start, batch, range(min(batch.num_rows, first - start))
        start += batch.num_rows
    found, start = [], total
    for batch in reversed(batches):
        if start <= last:
            break
        start -= batch.num_rows
        found.append((start, batch, range(max(last - start, 0), batch.num_rows)))
    yield from reversed(found)


def _numbered(rows: list[tuple[int, list[str]]], total: int, width: int, noun: str) -> list[str]:
    """Put numbers before the cells of some of `total` rows, and say how many are left out where they are."""
    lines = [f"<tr>{_cell('th', f'{i:,}', 'n i')}{''.join(cells)}</tr>" for i, cells in rows]
    if total > len(rows):
        more = f"{CUT} {_counted(total - len(rows), f'more {noun}')}"
        lines.insert(_ends(total)[0], f'<tr><td></td><td class="z" colspan="{width}">{more}</td></tr>')
    return lines


def _value_cell(array: Any, i: int) -> str:
    text = value_text(array, i, CELL_WIDTH, quotes=False)
    return _cell("td", text, f"{_classes(array.type)} {'z' if text is NULL else ''}")


def _cell(tag: str, text: str, classes: str = "") -> str:
    """One cell of a table; `text` is escaped."""
    style = f' class="{classes.strip()}"' if classes.strip() else ""
    return f"<{tag}{style}>{escape(text)}</{tag}>"


def _table(head: str, rows: list[str]) -> str:
    return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"


def _frame(caption: str, content: str) -> str:
    return f'<div class="arrowipc" tabindex="0">{STYLE}<p>{caption}</p>{content}</div>'


def _pairs_html(pairs: tuple[tuple[bytes, bytes], ...]) -> str:
    lines = [f"{escape(_key_text(key))}: {escape(_pair_text(value))}" for key, value in pairs[:PAIRS]]
    if len(pairs) > PAIRS:
        lines.append(f"{CUT} and {_counted(len(pairs) - PAIRS, 'more pair')}")
    return "<br>".join(lines)


# Both.


def _counted(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _typed(field: Field, width: int) -> str:
    """Type and nullability; the extension a field carries says more than its storage."""
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


def _first_filled(table: Any) -> Any | None:
    """Return the first batch that has rows. A table of nothing but empty batches is rare enough to walk."""
    return next((batch for batch in table.batches if batch.num_rows), None)


def _children(kind: DataType) -> tuple[Field, ...]:
    return (kind.value_type if isinstance(kind, Dictionary) else kind).children[:CHILDREN]


def _has_metadata(field: Field, levels: int) -> bool:
    if field.metadata:
        return True
    return levels > 1 and any(_has_metadata(child, levels - 1) for child in _children(field.type))


def _key_text(key: bytes) -> str:
    return shorten(printable(key[: PAIR_WIDTH + 1].decode("utf-8", "backslashreplace")), PAIR_WIDTH)


def _pair_text(value: bytes) -> str:
    """Spell a metadata value: text where it is text, bytes otherwise, and how much was cut."""
    head = value[:PAIR_WIDTH]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        # A cut may fall into the middle of a character; anything else is binary.
        if len(value) <= PAIR_WIDTH or error.start < len(head) - 3:
            return repr(head) + (f" + {len(value) - len(head)}" if len(value) > len(head) else "")
        text = head[: error.start].decode()
        head = head[: error.start]
    return f"'{printable(text)}'" + (f" + {len(value) - len(head)}" if len(value) > len(head) else "")
