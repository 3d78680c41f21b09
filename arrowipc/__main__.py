"""``python -m arrowipc``: the command line."""

import sys

from arrowipc.cli import main

if __name__ == "__main__":
    sys.exit(main())
