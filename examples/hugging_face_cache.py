"""Read a Hugging Face cache without its library: the parts are Arrow streams, although their names end with .arrow.

python hugging_face_cache.py [folder]        # without a folder it makes a small cache first
"""

import sys
import tempfile
from pathlib import Path

import arrowipc as ipc
from arrowipc.types import field, int64, utf8


def make_cache(folder: Path) -> None:
    """Write what `datasets` would write: one stream per part."""
    schema = ipc.Schema([field("text", utf8()), field("label", int64())])
    for part in range(3):
        with ipc.new_stream(folder / f"train-{part:05}-of-00003.arrow", schema) as writer:
            for start in range(0, 1000, 500):
                labels = [(start + i) % 4 for i in range(500)]
                writer.write({"text": [f"review {part}/{start + i}" for i in range(500)], "label": labels})


def main() -> None:
    """Count the labels of all parts, reading only that column; then write one file."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    if len(sys.argv) == 1:
        make_cache(folder)
    parts = sorted(folder.glob("*-of-*.arrow"))
    counts: dict[int, int] = {}
    for part in parts:
        with ipc.open(part, columns=["label"]) as reader:
            for batch in reader:
                for label in batch["label"]:
                    counts[label] = counts.get(label, 0) + 1
    print(len(parts), "parts, rows per label:", counts)

    whole = folder / "train.arrow"
    with ipc.new_file(whole, compression=None) as writer:
        for part in parts:
            with ipc.open(part) as reader:
                ipc.copy(reader, writer)
    with ipc.open_file(whole) as reader:
        print(reader.count_rows(), "rows in one file; the last one:", reader[-1].to_pylist()[-1])


if __name__ == "__main__":
    main()
