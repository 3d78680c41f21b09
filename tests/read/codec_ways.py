"""Codecs as a process finds them that has used none yet: with the C functions of their packages, or without."""

from __future__ import annotations

import pytest

from arrowipc import codecs
from arrowipc.read import decompress


def look_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let codecs be looked for when they are needed next."""
    monkeypatch.setattr(decompress, "pools", [None] * 4)


def without_functions(monkeypatch: pytest.MonkeyPatch, *ways: tuple[int, bool]) -> None:
    """Let packages do the work of some (codec, whether it encodes), as where they export no C functions."""
    functions = codecs.functions

    def found(codec: int, encodes: bool) -> dict[str, int] | None:
        return None if (codec, encodes) in ways else functions(codec, encodes)

    monkeypatch.setattr(codecs, "functions", found)
    look_again(monkeypatch)
