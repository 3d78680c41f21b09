"""The rows of a `RowStream` as an iterable data set of PyTorch, whose loaders require that class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from arrowipc.multifile.row_stream import RowStream


class TorchRows(IterableDataset[Any]):
    """The data set that `RowStream.to_torch` returns; its state is that of the rows."""

    def __init__(self, rows: RowStream) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the rows."""
        return self.rows.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on from a state."""
        self.rows.load_state_dict(state)
