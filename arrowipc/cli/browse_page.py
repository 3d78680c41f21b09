"""What `browse` shows of a source, and its page: one file that loads nothing, with what its size allows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import arrowipc as ipc
from arrowipc.arguments import printable
from arrowipc.cli.terminal import Progress, json_text
from arrowipc.errors import ArrowIpcError
from arrowipc.values.preview import NULL, shorten, size_text, type_text, value_text

if TYPE_CHECKING:
    from arrowipc.cli.layout import Anatomy
    from arrowipc.limits import Limits

__all__ = ["Browsed", "page_of"]

#: Of each end in a page: rows, columns of rows, batches; columns that are listed.
ROWS, WIDE, BATCHES, COLUMNS = 100, 40, 100, 2000
#: Characters of a value.
CELL = 200
#: Messages at each end whose parts are in a page.
MESSAGES = 8


class Browsed:
    """A source, and what is shown of it: documents of bounded size, whose texts are all printable.

    Raises
    ------
    FormatError, UnsupportedError
        There is no schema in it that can be read, so there is nothing to show.
    """

    def __init__(self, name: str, data: Any, limits: Limits | None = None) -> None:
        self.name: str = printable(name)
        self.buffer: memoryview = memoryview(data).cast("B")
        self.size: int = len(self.buffer)
        self._options: dict[str, Any] = {"validate": "none", "limits": limits}
        self.error: str | None = None
        self._saved: Any = None
        try:
            self._reader: Any = ipc.open(self.buffer, **self._options)
        except ArrowIpcError as error:
            self.error = printable(str(error))
            with ipc.recover(self.buffer, limits=limits) as saved:  # raises where there is nothing at all
                self._reader = self._saved = ipc.Table(saved.schema, list(saved))
        self.schema: ipc.Schema = self._reader.schema

    @cached_property
    def rows_by_number(self) -> Any:
        """What finds rows; of a stream, its messages are gone through once."""
        return self._saved or ipc.open(self.buffer, index=True, **self._options)

    @cached_property
    def anatomy(self) -> Anatomy:
        """Positions of messages."""
        from arrowipc.cli.layout import anatomy_of

        with Progress("reading", self.size) as progress:
            return anatomy_of(self.buffer, progress.advance)

    # -- the parts of a page --

    def overview(self) -> dict[str, Any]:
        """What is known at once, without a look at more than the beginning and the end."""
        kind = "file" if bytes(self.buffer[:6]) == b"ARROW1" else "stream"
        count = self._reader.num_record_batches if isinstance(self._reader, ipc.RecordBatchFileReader) else None
        columns = [
            [printable(shorten(field.name, CELL)), type_text(field.type, CELL), field.nullable]
            for field in self.schema.fields[:COLUMNS]
        ]
        return {
            "name": self.name,
            "kind": kind,
            "size": self.size,
            "size_text": size_text(self.size),
            "batches": count,
            "num_columns": len(self.schema),
            "columns": columns,
            "error": self.error,
        }

    def rows(self, start: int = 0) -> dict[str, Any]:
        """Some rows of the first columns."""
        fields = range(min(WIDE, len(self.schema)))
        total = self.rows_by_number.num_rows if self._saved else self.rows_by_number.count_rows()
        start = max(min(start, total - 1), 0)
        found = self.rows_by_number.slice(start, ROWS).batches
        cells = [[_cell(batch.column(i), row) for i in fields] for batch in found for row in range(len(batch))]
        return {"start": start, "total": total, "rows": cells}

    def layout(self) -> dict[str, Any]:
        """The whole source as pieces."""
        found = self.anatomy
        return {
            "pieces": [each._asdict() for each in found.pieces],
            "rows": found.rows,
            "batches": found.batches,
            "messages": len(found.offsets),
            "error": found.error,
        }

    def message(self, start: int = 0) -> dict[str, Any]:
        """One message with its parts."""
        from arrowipc.cli.layout import message_of

        return message_of(self.buffer, self.anatomy, start)

    def batches(self, start: int = 0) -> dict[str, Any]:
        """Some messages, with what the metadata says of them."""
        found = [self.message(i) for i in range(start, min(start + BATCHES, len(self.anatomy.offsets)))]
        return {"start": start, "batches": [{**each, "parts": len(each["parts"]), "columns": 0} for each in found]}

    def statistics(self) -> dict[str, Any]:
        """What each column holds; reads all values."""
        from arrowipc.cli.stat import TITLES, cells_of, survey

        found = survey(self.buffer)
        rows = [list(cells_of(found, column).values()) for column in found.columns[:COLUMNS]]
        return {"titles": TITLES, "rows": rows}

    def faults(self) -> dict[str, Any]:
        """What is wrong; reads all values."""
        from arrowipc.cli.check import checked

        with Progress("checking"):
            found = checked(self.buffer)
        for name, text in (("damage", "reason"), ("remarks", "words")):
            found[name] = [{**each, text: printable(each[text][:1000])} for each in found[name][:ROWS]]
        for each in found["damage"]:
            each["column"] = None if each["column"] is None else printable(str(each["column"]))[:CELL]
        return found

    def tried(self, part: Callable[..., dict[str, Any]], **options: int) -> dict[str, Any]:
        """A part, or the error in its place."""
        try:
            return part(**options)
        except (ArrowIpcError, OSError, MemoryError, IndexError) as error:
            return {"error": printable(str(error) or type(error).__name__)}

    def document(self) -> dict[str, Any]:
        """All that a page holds."""
        layout = self.tried(self.layout)
        last = layout.get("messages", 0)
        ends = sorted({*range(min(MESSAGES, last)), *range(max(last - MESSAGES, 0), last)})
        first = self.tried(self.rows)
        total = first.get("total") or 0
        return {
            "overview": self.overview() | {"batches": layout.get("batches")},
            "rows": [first] + ([self.tried(self.rows, start=max(total - ROWS, ROWS))] if total > ROWS else []),
            "layout": layout,
            "message": {number: self.tried(self.message, start=number) for number in ends},
            "batches": [
                self.tried(self.batches, start=start) for start in sorted({0, max(last - 1, 0) // BATCHES * BATCHES})
            ],
            "statistics": self.tried(self.statistics),
            "faults": self.tried(self.faults),
        }


def _cell(column: Any, row: int) -> str | None:
    text = value_text(column, row, CELL, quotes=False)
    return None if text is NULL else text


def page_of(document: dict[str, Any]) -> str:
    """The page: nothing in the document can be code, and nothing but the page's own code runs."""
    from hashlib import sha256
    from importlib.resources import files

    text = files("arrowipc.cli").joinpath("browse.html").read_text("utf-8")
    for tag in ("style", "script"):
        code = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
        text = text.replace(f"{{{{{tag}-hash}}}}", b64encode(sha256(code.encode()).digest()).decode())
    data = json_text(document, ascii_only=True).replace("<", "\\u003c")
    title = escape(str(document["overview"]["name"]))
    return text.replace("{{title}}", title).replace("{{data}}", data)  # in this order: data may hold any word
