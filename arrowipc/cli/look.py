"""`schema` and `messages`: print the schema and the messages of a source without decoding batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

import arrowipc as ipc
from arrowipc.cli.sources import about, opened, source
from arrowipc.cli.terminal import FILE, json_option, metadata_json, say_json, say_line, width
from arrowipc.errors import printable
from arrowipc.values.preview import counted, shorten

if TYPE_CHECKING:
    from arrowipc.inspection.message_layout import Located
    from arrowipc.types import DataType, Field

# -- schema --------------------------------------------------------------------------------------------------


@click.command()
@FILE
@json_option
def schema(file: str, as_json: bool) -> None:
    """Print the schema of FILE as a tree.

    JSON: {"format", "endianness", "fields", "metadata", "file_metadata"}; a field is
    {"name", "type", "nullable", "children", "metadata", "dictionary"?, "extension"?}.
    """
    with opened(file, ensure_native_endian=False) as reader:
        found = reader.schema
        kind = "file" if isinstance(reader, ipc.RecordBatchFileReader) else "stream"
        own = reader.metadata.pairs if kind == "file" else ()
    if as_json:
        say_json(
            {
                "format": kind,
                "endianness": found.endianness,
                "fields": [_field_json(field) for field in found],
                "metadata": metadata_json(found.metadata.pairs),
                "file_metadata": metadata_json(own),
            }
        )
        return
    order = "" if found.endianness == "little" else f", {found.endianness}-endian"
    say_line(f"{kind} of {counted(len(found), 'column')}{order}", bold=True)
    for i, field in enumerate(found):
        _say_field(field, "", i == len(found) - 1)
    for title, pairs in (("schema metadata", found.metadata.pairs), ("file metadata", own)):
        if pairs:
            say_line(title, bold=True)
            for line in _pair_lines(pairs):
                say_line("  " + line)


def _say_field(field: Field, before: str, last: bool) -> None:
    """Print a field and, below it, its metadata and its children."""
    from arrowipc.types import Dictionary

    kind = field.type
    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
    name = shorten(printable(field.name), 60) or '""'
    words = _type_word(kind) + ("" if field.nullable else " not null")
    if field.extension_name is not None:
        words = f"{shorten(printable(field.extension_name), 60)} <{words}>"
    say_line(before + branch + click.style(name, bold=True) + ": " + click.style(words, fg="cyan"))
    children = (kind.value_type if isinstance(kind, Dictionary) else kind).children
    for line in _pair_lines(field.metadata.pairs):
        say_line(before + below + ("│  " if children else "   ") + line, dim=True)
    for i, child in enumerate(children):
        _say_field(child, before + below, i == len(children) - 1)


def _type_word(kind: DataType) -> str:
    """Return the text of a type without its children, which are printed on their own lines."""
    from arrowipc import types

    if isinstance(kind, types.Dictionary):
        order = ", ordered" if kind.ordered else ""
        values = _type_word(kind.value_type)
        return f"dictionary {kind.dictionary_id} of {values}, indices {kind.index_type}{order}"
    if isinstance(kind, types.FixedSizeList):
        return f"fixed_size_list[{kind.list_size}]"
    if isinstance(kind, types.Map):
        return "map" + (", keys sorted" if kind.keys_sorted else "")
    if isinstance(kind, types.Union):
        return f"{kind.mode}_union, codes {', '.join(map(str, kind.type_codes))}"
    if kind.children:
        return str(kind).partition("<")[0]
    return str(kind)


def _pair_lines(pairs: tuple[tuple[bytes, bytes], ...]) -> Iterator[str]:
    for key, value in pairs[:50]:
        text = printable(value[:400].decode("utf-8", "backslashreplace"))
        name = printable(key[:100].decode("utf-8", "backslashreplace"))
        yield f"{name} = {shorten(text, max(width() - 20 - len(name), 20))}"
    if len(pairs) > 50:
        yield f"... and {len(pairs) - 50:,} more"


def _field_json(field: Field) -> dict[str, Any]:
    from arrowipc.types import Dictionary

    kind = field.type
    out: dict[str, Any] = {"name": field.name, "type": str(kind), "nullable": field.nullable}
    if isinstance(kind, Dictionary):
        out["dictionary"] = {
            "id": kind.dictionary_id,
            "index_type": str(kind.index_type),
            "value_type": str(kind.value_type),
            "ordered": kind.ordered,
        }
        kind = kind.value_type
    if field.extension_name is not None:
        out["extension"] = field.extension_name
    out["children"] = [_field_json(child) for child in kind.children]
    out["metadata"] = metadata_json(field.metadata.pairs)
    return out


# -- messages ------------------------------------------------------------------------------------------------

HEADER = f"{'#':>6} {'offset':>14} {'kind':<15} {'metadata':>9} {'body':>14} {'rows':>11} {'codec':<5}"


@click.command()
@FILE
@json_option
def messages(file: str, as_json: bool) -> None:
    """List the messages of FILE with offset, kind and size.

    Of a file, these are its schema and the messages that its footer lists. Nothing is decoded.

    JSON: one line per message: {"index", "offset", "kind", "version", "metadata_length", "body_length",
    "rows", "codec", "dictionary_id", "is_delta", "nodes", "buffers", "custom_metadata"}.
    """
    from arrowipc.inspection.message_layout import locate_messages

    with about(file):
        if not as_json:
            say_line(HEADER + " remarks", bold=True)
        count = rows = size = 0
        for count, located in enumerate(locate_messages(source(file)), 1):
            entry = _message_json(count - 1, located)
            rows += entry["rows"] or 0 if entry["kind"] == "RecordBatch" else 0
            size += located.metadata_length + located.body_length
            if as_json:
                say_json(entry, line=True)
            else:
                say_line(_message_line(entry))
    if not as_json:
        say_line(f"{counted(count, 'message')}, {counted(rows, 'row')}, {size:,} bytes", dim=True)


def _message_json(number: int, located: Located) -> dict[str, Any]:
    from arrowipc.inspection.message_layout import outline_of

    message = located.message
    found = outline_of(message)
    return {
        "index": number,
        "offset": located.offset,
        "kind": message.kind,
        "version": message.version,
        "metadata_length": located.metadata_length,
        "body_length": located.body_length,
        "rows": None if found is None else found.num_rows,
        "codec": None if found is None else found.codec,
        "dictionary_id": None if found is None else found.dictionary_id,
        "is_delta": found is not None and found.is_delta,
        "nodes": 0 if found is None else len(found.nodes),
        "buffers": 0 if found is None else len(found.buffers),
        "custom_metadata": metadata_json(message.custom_metadata.pairs),
    }


def _message_line(entry: dict[str, Any]) -> str:
    remarks = [] if entry["version"] == "V5" else [entry["version"]]
    if entry["dictionary_id"] is not None:
        remarks.append(f"{'delta of ' if entry['is_delta'] else ''}dictionary {entry['dictionary_id']}")
    if entry["custom_metadata"]:
        names = ", ".join([printable(pair["key"]) for pair in entry["custom_metadata"]])
        remarks.append("metadata: " + shorten(names, 40))
    rows = "" if entry["rows"] is None else f"{entry['rows']:,}"
    line = (
        f"{entry['index']:>6} {entry['offset']:>14,} {entry['kind']:<15} {entry['metadata_length']:>9,} "
        f"{entry['body_length']:>14,} {rows:>11} {entry['codec'] or '':<5} {'; '.join(remarks)}"
    )
    return line.rstrip()
