"""Arrow's golden data: where it is, and how a reading is compared with its JSON."""

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.integration_json import differences, read_json

from arrowipc.types import Null, Union

#: The part of Arrow's test data that is in the repository.
PART = Path(__file__).resolve().parents[1] / "data/arrow-testing"
#: Files that we made with other libraries.
WRITERS = PART.with_name("writers")


def data_root() -> Path:
    """Where Arrow's test data is: $ARROW_TEST_DATA, beside the repository, or the part of it in the repository."""
    named = os.environ.get("ARROW_TEST_DATA")
    if named:
        return Path(named)
    beside = PART.parents[2].parent / "shared/data/arrow-testing/data"
    return beside if beside.is_dir() else PART


#: Whether all of Arrow's test data is there.
WHOLE = data_root() != PART
# How many golden data sets each folder must hold: a folder that lost one is a failure, not a shorter run.
FOLDERS = {
    "0.14.1": 9 if WHOLE else 8,
    "0.17.1": 1,
    "1.0.0-bigendian": 22 if WHOLE else 11,
    "2.0.0-compression": 4,
    "4.0.0-shareddict": 1,
    "cpp-21.0.0": 32 if WHOLE else 24,
}
# How many inputs that once broke a reader each folder must hold.
HOSTILE = {"arrow-ipc-stream": 40 if WHOLE else 10, "arrow-ipc-file": 19 if WHOLE else 5}


def cases() -> list[Path]:
    """The golden data sets, as paths without suffix."""
    found = data_root().glob("arrow-ipc-stream/integration/*/*.json.gz")
    return sorted(path.with_name(path.name.removesuffix(".json.gz")) for path in found)


def name_of(case: Path) -> str:
    """Folder and name of a data set."""
    return f"{case.parent.name}/{case.name}"


@dataclass(frozen=True)
class Golden:
    """One golden data set: the parsed JSON and the two IPC forms of it."""

    json: dict[str, Any]
    stream: Path
    file: Path

    def form(self, form: str) -> Path:
        """The stream or the file."""
        return self.stream if form == "stream" else self.file


def load(case: Path) -> Golden:
    with gzip.open(case.with_name(case.name + ".json.gz")) as source:
        return Golden(
            json.load(source),
            case.with_name(case.name + ".stream"),
            case.with_name(case.name + ".arrow_file"),
        )


def assert_matches(content: dict[str, Any], schema: Any, batches: list[Any]) -> None:
    """Check that the schema and the batches are those of the JSON."""
    assert differences(read_json(content), (schema, batches)) == []
    for batch, expected in zip(batches, content["batches"], strict=True):
        assert len(batch) == expected["count"]
        for array, column in zip(batch.columns, expected["columns"], strict=True):
            if "VALIDITY" in column and not isinstance(array.type, Null | Union):
                assert array.null_count == column["VALIDITY"].count(0)
