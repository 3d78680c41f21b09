"""Validation of a batch's values; see ``read/validate.pyx``."""

from typing import Any

def check_values(columns: Any, known: dict[int, Any]) -> None: ...
