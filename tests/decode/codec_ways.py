"""Codecs as a process finds them that has used none yet."""

import pytest

from arrowipc.codecs import CODECS, ZSTD
from arrowipc.decode import decompress


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let codecs be looked for when they are needed next."""
    monkeypatch.setattr(decompress, "pools", [None] * (2 * len(CODECS)))


def only(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ZSTD's library be the one in a package."""
    row = CODECS[ZSTD]
    modules = tuple(each for each in row.modules if each[0] == package)
    monkeypatch.setitem(CODECS, ZSTD, row._replace(modules=modules))
    look_again(monkeypatch)
