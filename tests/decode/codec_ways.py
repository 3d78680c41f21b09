"""Codecs as a process finds them that has used none yet."""

import pytest

from arrowipc.decode import decompress


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let codecs be looked for when they are needed next."""
    monkeypatch.setattr(decompress, "pools", [None] * 4)
