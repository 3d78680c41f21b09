"""One dictionary out of many; see ``distinct/unifier.pyx``."""

from typing import Any

def unify(pieces: tuple[Any, ...], ordinals: set[int]) -> tuple[tuple[Any, ...], dict[int, Any]]: ...
