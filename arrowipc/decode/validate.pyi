"""Validation of a batch's values; see ``decode/validate.pyx``."""

from typing import Any

def check_values(columns: Any, known: dict[int, Any]) -> None: ...
