"""Names of files, columns, keys and peers come from strangers: no text of ours lets them drive a terminal."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.arrays import ipc_bytes, stored

import arrowipc as ipc
from arrowipc import dissociated, errors, types
from arrowipc.sources.files import find_files

#: C0, ends of lines, ESC, DEL, C1 and what turns the direction of text; a file can have it as its name.
NAME = "a\nFAKE LINE\r\x07\x1b[31m\x7f\x85\x9b\u2028\u202e\u2066\ufeffz"
#: A surrogate stands for a byte of a file's name that is no UTF-8.
SURROGATE = "\udc9bz"


def is_clean(text: str) -> bool:
    """Reprs and reports have lines of their own."""
    lines = text.split("\n")
    return all(line.isprintable() and not line.startswith("FAKE") for line in lines)


BATCH = ipc.RecordBatch.from_pydict({NAME: [1, None], "s": [{NAME: "x"}, None]})
SCHEMA = ipc.Schema([ipc.field(NAME, "int8", metadata={NAME: NAME})], {NAME: NAME})
FIELD = ipc.field("x", "int8", metadata={"ARROW:extension:name": NAME})
DICTIONARY = ipc.field(NAME, types.dictionary(types.int8(), types.utf8()))


def damaged(folder: Path) -> Path:
    path = folder / NAME
    path.write_bytes(ipc_bytes(BATCH, "file")[:-40])
    return path


def other_schema(folder: Path) -> Any:
    for name, kind in (("1" + NAME, "int8"), ("2" + NAME, "utf8")):
        stored(folder / f"{name}.arrow", [], ipc.schema({NAME: kind}))
    return ipc.open_dataset(folder)


def left_out(folder: Path) -> Any:
    (folder / f"{NAME}.arrow").write_bytes(b"")
    stored(folder / "ok.arrow", BATCH)
    return ipc.open_dataset(folder, on_error="skip")


def unclosed(folder: Path) -> None:
    ipc.new_file(folder / NAME, SCHEMA)


#: What is done with a name -> the function, in a folder of its own.
DONE: dict[str, Callable[[Path], Any]] = {
    "open no file": lambda folder: ipc.open(folder / NAME),
    "open text that is no file": lambda folder: ipc.open_dataset(str(folder / NAME)),
    "open a damaged file": lambda folder: ipc.open(damaged(folder)),
    "validate a damaged file": lambda folder: ipc.validate(damaged(folder)),
    "recover a damaged file": lambda folder: ipc.recover(damaged(folder)),
    "recover into itself": lambda folder: ipc.recover(damaged(folder), into=folder),
    "a file that is not closed": unclosed,
    "write where no folder is": lambda folder: ipc.new_file(folder / NAME / NAME),
    "append to a damaged file": lambda folder: ipc.new_file(damaged(folder), append=True),
    "files of other schemas": other_schema,
    "files that are left out": left_out,
    "a link to nothing": lambda folder: os.symlink(NAME, folder / NAME) or ipc.open_dataset(folder),
    "links that are left out": lambda folder: (
        os.symlink(NAME, folder / NAME) or find_files([folder], ignore_missing=True)
    ),
    "a pattern": lambda folder: ipc.open_dataset(f"{folder}/{NAME}*"),
    "a URL": lambda folder: ipc.open(f"nothing://{NAME}"),
    "a URL of HTTP": lambda folder: ipc.open_dataset(f"http://127.0.0.1:9/{NAME}"),
    "a local URL": lambda folder: ipc.open(f"file://{folder}/{NAME}"),
    "a path with a surrogate": lambda folder: ipc.open(str(folder / SURROGATE)),
    "files with a surrogate": lambda folder: ipc.open_dataset(str(folder / SURROGATE)),
    "a column that is not there": lambda folder: BATCH["no" + NAME],
    "a column of a table": lambda folder: ipc.table(BATCH)["no" + NAME],
    "a column of a schema": lambda folder: SCHEMA.field("no" + NAME),
    "a column that is there twice": lambda folder: ipc.Schema([FIELD, FIELD]).field("x"),
    "columns to read": lambda folder: ipc.open(BATCH.schema.serialize(), columns=["no" + NAME]),
    "a value that does not fit": lambda folder: ipc.RecordBatch.from_pydict({NAME: ["x"]}, SCHEMA),
    "a value of a nested column": lambda folder: ipc.RecordBatch.from_pylist(
        [{NAME: [1, "x"]}], ipc.schema({NAME: types.list_(types.int8())})
    ),
    "a null that may not be": lambda folder: ipc.RecordBatch.from_pydict(
        {NAME: [None]}, ipc.Schema([ipc.field(NAME, "int8", nullable=False)])
    ),
    "batches of two schemas": lambda folder: ipc.concat_batches([BATCH, BATCH.rename({NAME: "b" + NAME})]),
    "a table of two schemas": lambda folder: ipc.concat_tables([BATCH, BATCH.rename({NAME: "b" + NAME})]),
    "another schema than the stream's": lambda folder: ipc.new_stream(bytearray(), SCHEMA).write(BATCH),
    "a filter": lambda folder: ipc.open_dataset(folder, schema=SCHEMA, filter=[("no" + NAME, "==", 1)]),
    "a cast": lambda folder: BATCH.column("s").cast("int8"),
    "a type": lambda folder: ipc.field(NAME, NAME),
    "a time zone": lambda folder: ipc.array([1], types.timestamp("s", NAME)),
    "an option": lambda folder: ipc.open(b"", **{NAME: 1}),
    "a codec": lambda folder: ipc.new_stream(bytearray(), compression=NAME),
    "compression by column": lambda folder: ipc.new_stream(bytearray(), SCHEMA, compression={"no" + NAME: "lz4"}),
    "an attribute": lambda folder: getattr(ipc, NAME),
    "dimensions": lambda folder: ipc.Tensor(memoryview(b"ab"), [NAME, NAME]),
    "a tensor": lambda folder: ipc.Tensor(memoryview(b"ab"), [NAME]),
    "a sparse tensor": lambda folder: ipc.SparseCOOTensor.from_dense([[1]], dim_names=[NAME, NAME]),
    "an extension": lambda folder: ipc.RecordBatch.from_pydict({"x": ["y"]}, ipc.Schema([FIELD])),
    "a dictionary": lambda folder: ipc.RecordBatch.from_pydict({NAME: [5]}, ipc.Schema([DICTIONARY])),
    "a peer": lambda folder: dissociated.connect(f"dissociated+tcp://{NAME}:1", timeout=1),
    "a peer's socket": lambda folder: dissociated.connect(f"dissociated+unix:{folder}/{NAME}", timeout=1),
    "the name of a stream": lambda folder: dissociated.Server({NAME: 5}),
    "a transport": lambda folder: dissociated.Server({}, NAME),
    "a remote source": lambda folder: ipc.RemoteSource(f"memory://{NAME}"),
    "an error of anybody's": lambda folder: errors.FormatError(NAME, SURROGATE),
    "a schema": lambda folder: SCHEMA,
    "metadata": lambda folder: SCHEMA.metadata,
    "a field": lambda folder: DICTIONARY,
    "an extension's field": lambda folder: FIELD,
    "a batch": lambda folder: BATCH,
    "an array": lambda folder: BATCH[NAME],
    "structs": lambda folder: BATCH["s"],
    "the type of structs": lambda folder: BATCH["s"].type,
    "a message": lambda folder: ipc.read_message(SCHEMA.serialize()),
    "a reader": lambda folder: ipc.open_stream(BATCH.schema.serialize() + BATCH.serialize()),
}


def texts(error: BaseException | None) -> Iterator[str]:
    """What anybody prints of an error, and of those that led to it."""
    while error is not None:
        yield from (str(error), repr(error), *map(str, getattr(error, "__notes__", ())))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.mark.parametrize("what", DONE)
def test_no_text_has_characters_that_control_anything(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found: list[str] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = DONE[what](tmp_path)
            found += [repr(result), str(result)]
            found += [str(getattr(result, each, "")) for each in ("report", "damage", "fragments")]
            if hasattr(result, "to_batches"):
                list(result.to_batches())
            del result
        except (ipc.ArrowIpcError, OSError, AttributeError, TypeError) as error:
            found += texts(error)
    found += [str(each.message) for each in warned]
    found += [record.getMessage() for record in caplog.records]
    assert found
    assert [text for text in found if not is_clean(text)] == []


def test_many_files_that_are_left_out_are_ten_names_and_a_total(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored(tmp_path / "ok.arrow", BATCH)
    for number in range(300):
        (tmp_path / f"{number}.arrow").write_bytes(b"")
    dataset = ipc.open_dataset(tmp_path, on_error="skip")
    assert len(dataset.skipped) == 300
    assert len(list(dataset.to_batches())) == 1
    for path in tmp_path.glob("?*0.arrow"):
        path.unlink()
        path.symlink_to("nowhere")
    assert len(find_files([str(tmp_path)], ignore_missing=True)) == 1 + 300 - 29
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2 * (10 + 1)
    assert [each for each in messages if " in all" in each] == [
        "left out: 300 in all, Dataset.skipped names them",
        "left out: 29 in all",
    ]
