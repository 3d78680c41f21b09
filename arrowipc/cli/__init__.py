"""The command line `arrowipc`: the module of a command is imported when the command is called."""

from __future__ import annotations

import sys

from arrowipc.errors import missing_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of ``sys.argv``, and return the exit code."""
    try:
        missing = []
        for name in ("click", "rich"):
            try:
                __import__(name)
            except ImportError:
                missing.append(name)
        if missing:
            print(f"arrowipc: {missing_package('the command line', *missing)}", file=sys.stderr)
            return 4
        from arrowipc.cli.app import run

        return run(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while modules are imported; later, `run` handles it
        return 130
