"""The command line `arrowipc`: each command loads when it is called."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default ``sys.argv[1:]``.

    Returns
    -------
    int
        The exit code; `arrowipc --help` lists what they mean.
    """
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ImportError as error:
        print(
            f"arrowipc: the command line needs the package {error.name}:\n  python -m pip install 'arrowipc[cli]'",
            file=sys.stderr,
        )
        return 2
    from arrowipc.cli.app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
