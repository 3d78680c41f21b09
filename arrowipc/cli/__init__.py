"""The command line `arrowipc`: each command loads when it is called."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of ``sys.argv``, and return the exit code."""
    missing = []
    for name in ("click", "rich"):
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    if missing:
        needed = f"package{'s' if len(missing) > 1 else ''} {' and '.join(missing)}"
        print(
            f"arrowipc: the command line needs the {needed}:\n  python -m pip install 'arrowipc[cli]'", file=sys.stderr
        )
        return 2
    from arrowipc.cli.app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
