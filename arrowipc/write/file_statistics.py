"""Writes the statistics of all batches into the footer of a file; `columns.statistics` describes the form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from arrowipc.filters.statistics import STATISTICS_KEY, VERSION, mark_of

if TYPE_CHECKING:
    from arrowipc.schemas import Schema

__all__ = ["FileStatistics"]

#: Where polars, which writes it on request, finds the rows up to the end of each batch: slices and counts read less.
POLARS_KEY, POLARS_ENDS = b"__POLARS_IPC_METADATA", "record_batch_cum_len"

#: Values in a footer; more are left to the batches' own metadata.
MOST_VALUES = 1 << 20
#: More text than this would crowd the footer; readers refuse an entry of more than twice as many bytes, unpacked.
MOST_BYTES = 8 << 20


class FileStatistics:
    """Collects the statistics of the batches of one file."""

    def __init__(self) -> None:
        self._mark = self._values = 0
        self._rows: list[int | None] = []
        self._columns: dict[str, dict[str, Any]] = {}
        self._lost = False
        #: Rows up to the end of each batch; None: one is missing.
        self._ends: list[int] | None = []

    def begin(self, schema: Schema) -> None:
        """Say which columns there are."""
        self._mark = mark_of(schema)

    def add(self, rows: int | None, entries: dict[str, dict[str, Any]], length: int | None = None) -> None:
        """Note one batch; `rows` is None where nothing is known of it but its `length`."""
        try:
            if self._ends is not None:
                self._ends.append((self._ends or [0])[-1] + ((rows or 0) if length is None else length))
            if not self._lost:
                self._add(rows, entries)
            self._lost |= self._values > MOST_VALUES
        except MemoryError:
            self._ends, self._lost = None, True  # the batch is written all the same

    def _add(self, rows: int | None, entries: dict[str, dict[str, Any]]) -> None:
        for path, entry in entries.items():
            column = self._columns.setdefault(path, {})
            for name, value in entry.items():
                if name == "kind":
                    column[name] = value
                else:
                    self._filled(column.setdefault(name, [])).append(value)
            self._values += len(entry)
        self._rows.append(rows)

    def _filled(self, values: list[Any]) -> list[Any]:
        """Let a list have an entry for each batch so far."""
        values += [None] * (len(self._rows) - len(values))
        return values

    def entry(self, last_block: bytes) -> tuple[tuple[bytes, bytes], ...]:
        """The entries for the metadata of the footer, ours and that of polars; none that would be very large."""
        return *self._own_entry(last_block), *self._entry_of_polars()

    def _entry_of_polars(self) -> tuple[tuple[bytes, bytes], ...]:
        """The rows of all batches as polars states them, so that it need not look at each batch."""
        text = b"" if self._ends is None else json.dumps({POLARS_ENDS: self._ends}, separators=(",", ":")).encode()
        return ((POLARS_KEY, text),) if 0 < len(text) <= MOST_BYTES else ()

    def _own_entry(self, last_block: bytes) -> tuple[tuple[bytes, bytes], ...]:
        if self._lost:
            return ()
        from binascii import b2a_base64
        from zlib import compress

        for column in self._columns.values():
            for name, values in column.items():
                if name != "kind":
                    self._filled(values)
        document = {"v": VERSION, "last_block": last_block.hex(), "names": self._mark, "rows": self._rows}
        data = json.dumps({**document, "columns": self._columns}, ensure_ascii=False, separators=(",", ":")).encode()
        text = b2a_base64(compress(data, 1), newline=False)
        return ((STATISTICS_KEY, text),) if len(text) <= MOST_BYTES and len(data) <= 2 * MOST_BYTES else ()
