"""How often what may fail at random is tried: a few times in every run, more often in a campaign."""

from __future__ import annotations

import os

FULL = os.environ.get("ARROWIPC_FULL", "0") not in ("", "0")


def rounds(quick: int, full: int) -> int:
    """`full` with ``ARROWIPC_FULL=1`` (``make campaign``), else `quick`."""
    return full if FULL else quick
