"""A writer is killed in the middle of a file: recover the complete batches, and say what is lost.

python recover_torn_file.py
"""

import tempfile
from pathlib import Path

import arrowipc as ipc
from arrowipc.types import field, int64, utf8


def main() -> None:
    """Truncate a file, validate it, recover it."""
    folder = Path(tempfile.mkdtemp())
    schema = ipc.Schema([field("id", int64()), field("word", utf8())])
    with ipc.new_file(folder / "whole.arrow", schema) as writer:
        for start in range(0, 1000, 100):
            ids = list(range(start, start + 100))
            writer.write({"id": ids, "word": [f"word {i}" for i in ids]})
    torn = folder / "torn.arrow"
    torn.write_bytes((folder / "whole.arrow").read_bytes()[:20_000])

    try:
        ipc.open_file(torn)
    except ipc.FormatError as error:
        print("open_file:", error)

    report = ipc.recover(torn, into=folder / "recovered.arrow")
    print("recover:", report)
    print("validate:", ipc.validate(folder / "recovered.arrow"))


if __name__ == "__main__":
    main()
