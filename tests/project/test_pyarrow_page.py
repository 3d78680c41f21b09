"""docs/pyarrow.md line by line: every row of its tables runs in pyarrow and here, and says the truth."""

import builtins
import contextlib
import io
import pickle
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import pages

import arrowipc as ipc

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
feather = pytest.importorskip("pyarrow.feather")

PAGE = (pages.ROOT / "docs/pyarrow.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of all tables below a heading."""
    text = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0].startswith("`")]


#: Calls that the page lists as spelled alike.
ALIKE = re.findall(r"`([^`]+)`", PAGE.split("in place of `ipc`:\n", 1)[1].split("\nThese ", 1)[0])


def code(cell: str) -> str:
    (found,) = re.findall(r"^`([^`]+)`$", cell)
    return str(found)


def fixture(folder: Path, ours: bool) -> dict[str, Any]:
    """What the page says its names mean."""
    batch = pa.record_batch({"x": [1, 2, None], "y": ["a", "b", "a"]}, metadata={"k": "v"})
    stream, file, tensor = pa.BufferOutputStream(), pa.BufferOutputStream(), pa.BufferOutputStream()
    for begin in (partial(pa.ipc.new_stream, stream), partial(pa.ipc.new_file, file, metadata={"made by": "hand"})):
        with begin(schema=batch.schema) as writer:
            writer.write_batch(batch, custom_metadata={"n": "1"})
            writer.write_batch(batch.slice(1))
    pa.ipc.write_tensor(pa.Tensor.from_numpy(np.arange(6).reshape(2, 3)), tensor)
    path = folder / "x.arrow"
    path.write_bytes(file.getvalue())
    coded = [pa.record_batch({"d": pa.array(words).dictionary_encode()}) for words in (["a"], ["a", "b"], ["c"])]
    names: dict[str, Any] = {
        "pa": pa,
        "pickle": pickle,
        "feather": feather,
        "stream": stream.getvalue().to_pybytes(),
        "file": file.getvalue().to_pybytes(),
        "tensor": tensor.getvalue().to_pybytes(),
        "path": str(path),
        "theirs": batch,
        "coded": coded,
        "other": pa.record_batch({"z": [1.5]}),
        "sink": io.BytesIO() if ours else pa.BufferOutputStream(),
        "array": np.arange(6).reshape(2, 3),
        "frame": pd.DataFrame({"x": [1, 2]}),
        "ipc": ipc if ours else SimpleNamespace(**vars(pa) | vars(pa.ipc)),
    }
    own = ipc.RecordBatch.from_arrow if ours else (lambda data: data)
    names |= {"batch": own(batch), "table": ipc.Table.from_arrow(pa.table(batch)) if ours else pa.table(batch)}
    return names


def plain(value: Any, names: dict[str, Any]) -> Any:
    """What a result of either library says, in the terms of neither."""
    kind = type(value).__name__
    if kind.endswith("Writer"):
        for batch in names["coded"] if names["writes"] == "coded" else [names["theirs"]]:
            value.write_batch(batch)
        value.close()
        return [tuple(value.stats)[:5], written(names["sink"])]
    if kind.endswith("Reader"):
        read = value.read_all()
        return [plain(read, names), list(value.stats._asdict().items())[:5]]
    if kind.startswith(("ReadStats", "WriteStats")):
        return list(value._asdict().items())[:5]
    if kind == "Message":
        return [value.type, int(value.metadata_version), bytes(value.body or b"")]
    if kind in ("RecordBatch", "Table"):
        return pa.table(value).to_pydict()
    if kind.endswith("Array") and hasattr(value, "to_pylist"):
        return value.to_pylist()
    if kind == "Schema":
        return [list(value.names), [str(each) for each in value.types]]
    if kind == "Tensor":
        return np.asarray(value).tolist() if not hasattr(value, "to_numpy") else value.to_numpy().tolist()
    if kind == "DataFrame":
        return repr(value.to_dict("list"))
    if kind == "KeyValueMetadata":
        return dict(value)
    if kind == "Buffer" or isinstance(value, bytes | memoryview):
        return bytes(value)
    if isinstance(value, tuple | list):
        return [plain(each, names) for each in value]
    return written(names["sink"]) if value is None else value


def written(sink: Any) -> Any:
    """What lies in a sink, as pyarrow reads it."""
    data = sink.getvalue()
    data = data if isinstance(data, bytes) else data.to_pybytes()
    if not data:
        return None
    with contextlib.suppress(OSError, pa.ArrowInvalid):
        return pa.ipc.read_tensor(pa.py_buffer(data)).to_numpy().tolist()
    opened = (pa.ipc.open_file if data.startswith(b"ARROW1") else pa.ipc.open_stream)(data)
    return [opened.read_all().to_pydict(), getattr(opened, "metadata", None)]


def run(text: str, folder: Path, ours: bool, writes: str = "") -> Any:
    names = fixture(folder, ours) | {"writes": writes}
    return plain(eval(text, names), names)


@pytest.mark.parametrize(
    ("there", "here"), [*((each, each) for each in ALIKE), *((code(row[0]), code(row[1])) for row in rows("The same"))]
)
def test_a_row_does_the_same_in_both(there, here, tmp_path):
    writes = "coded" if "coded" in there else ""
    left, right = run(there, tmp_path, False, writes), run(here, tmp_path, True, writes)
    if isinstance(left, float):
        assert np.isclose(left, right)
    assert left == right


def outcome(text: str, folder: Path, ours: bool) -> Any:
    try:
        return run(text, folder, ours)
    except (Exception, StopIteration) as error:
        return type(error)


@pytest.mark.parametrize("row", rows("Errors"), ids=lambda row: row[0][:60])
def test_an_error_is_caught_by_what_caught_it_there(row, tmp_path):
    text, there, here = map(code, row[:3])
    left, right = outcome(text, tmp_path, False), outcome(text, tmp_path, True)
    caught = getattr(builtins, there)
    assert issubclass(left, caught), left
    assert issubclass(right, caught), right
    assert right.__name__ == here


@pytest.mark.parametrize("row", rows("What stays different"), ids=lambda row: row[0][:60])
def test_a_difference_is_as_it_is_stated(row, tmp_path):
    text, there, here = map(code, row[:3])
    for expected, ours in ((there, False), (here, True)):
        found = outcome(text, tmp_path, ours)
        shown = found.__name__ if isinstance(found, type) else repr(found)
        assert shown == expected, ("here" if ours else "there", shown)


#: Code in the text between the tables: names, options, and what can be run.
PROSE = "\n".join(line for line in PAGE.splitlines() if not line.startswith("|"))
SPANS = [each for each in dict.fromkeys(re.findall(r"`([^`\n]+)`", PROSE)) if each not in ALIKE]
#: A name of a function, without its arguments.
NOT_RUN = {"open_dataset()"}


@pytest.mark.parametrize("text", [each for each in SPANS if "(" in each and each not in NOT_RUN])
def test_code_between_the_tables_runs(text, tmp_path):
    """Options (``name=value``) run as those of a call."""
    names = fixture(tmp_path, True)
    names["tables"] = [names["table"]] * 2
    eval(f"dict({text})" if re.match(r"\w+=", text) else f"list({text})", names)


def test_the_page_has_rows():
    assert len(ALIKE) + len(rows("The same")) > 100
    assert len(rows("Errors")) > 8
    assert len(rows("What stays different")) > 8
    # No table stands outside of the tests above.
    tables = sum(line.startswith("| `") for line in PAGE.splitlines())
    assert tables == sum(len(rows(title)) for title in ("The same", "Errors", "What stays different"))
