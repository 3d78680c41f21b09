"""What is alive of ours and of our producers' memory, for tests that nothing stays behind."""

from __future__ import annotations

import gc

from arrowipc import _core
from arrowipc.cdata import export
from arrowipc.cdata.import_array import live_imports


def counts() -> dict[str, int]:
    """Arrays imported and exported, sources and memory that are not released yet."""
    return {"imports": live_imports(), "exports": export.live_exports(), **_core.live_objects()}


def more_than(before: dict[str, int]) -> dict[str, int]:
    """What there is more of; garbage of other tests may be collected at any time, so less says nothing."""
    found = {name: count for name, count in counts().items() if count > before[name]}
    if found:
        gc.collect()
        found = {name: count for name, count in counts().items() if count > before[name]}
    return found
