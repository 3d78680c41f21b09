"""Tries what each library reads and writes, for the table of docs/support.md.

``python -m helpers.support`` (`make support`) writes it, and the rows in `FRONT` into the README. With a library and
the number of a question, it prints the answers from that question on: a library may end the process.
"""

import decimal
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import arrowipc as ipc
from helpers import forge
from helpers.arrays import ipc_bytes, pyarrow_bytes, read_by_pyarrow
from helpers.processes import run_module

LIBRARIES = {
    "arrowipc": (),
    "pyarrow": ("pyarrow",),
    "nanoarrow": ("nanoarrow",),
    "polars": ("polars",),
    "arro3": ("arro3-core", "arro3-io"),
    "duckdb from arrowipc": ("duckdb",),
}
BEGIN, END = "<!-- support:begin -->\n", "<!-- support:end -->"
ROOT = Path(__file__).resolve().parents[2]
VERDICTS = {"yes": "yes", "no": "no", "wrong": "**wrong values**", "ends": "**ends the process**"}

PLAIN = pa.table({"x": pa.array([1, None, 3])})
WORDS = ["one", "two", "one", None]


def column(values: list[Any], type: pa.DataType, **options: Any) -> tuple[bytes, list[Any]]:
    return ipc_bytes(pa.table({"x": pa.array(values, type)}), **options), values


def growing(**options: Any) -> tuple[bytes, list[Any]]:
    kind = pa.dictionary(pa.int32(), pa.utf8())
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array(range(n), pa.int32()), [f"w{i}" for i in range(n)]) for n in (2, 3)
    ]
    batches = [pa.record_batch([array.cast(kind)], ["x"]) for array in arrays]
    return ipc_bytes(batches, **options), ["w0", "w1", "w0", "w1", "w2"]


def replaced() -> tuple[bytes, list[Any]]:
    batches = [pa.record_batch({"x": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c"])]
    return ipc_bytes(batches), ["a", "b", "c"]


def nested() -> tuple[bytes, list[Any]]:
    inner = pa.array(["a", "b"]).dictionary_encode()
    outer = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.StructArray.from_arrays([inner], ["y"]))
    return ipc_bytes(pa.record_batch([outer], ["x"])), [{"y": "a"}, {"y": "b"}, {"y": "a"}]


def big_endian() -> tuple[bytes, list[Any]]:
    schema = forge.schema(forge.field("x", forge.INT32), endianness=1)
    batch = forge.batch(2, [(2, 0)], [b"", np.array([1, 258], ">i4").tobytes()])
    return forge.stream(forge.message(schema), forge.message(batch)), [1, 258]


def encoded() -> tuple[bytes, list[Any]]:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    return ipc_bytes(pa.record_batch([runs], ["x"])), ["a", "a", "b"]


def united() -> tuple[bytes, list[Any]]:
    types, offsets = pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32())
    array = pa.UnionArray.from_dense(types, offsets, [pa.array([5]), pa.array(["five"])])
    return ipc_bytes(pa.record_batch([array], ["x"])), [5, "five"]


CENT = decimal.Decimal("1.25")
PAYLOADS: dict[str, Callable[[], tuple[bytes, list[Any]]]] = {
    "streams": lambda: column([1, None, 3], pa.int64()),
    "files": lambda: column([1, None, 3], pa.int64(), kind="file"),
    "framing before 0.15": lambda: column([1, None, 3], pa.int64(), legacy=True),
    "metadata V4": lambda: column([1, None, 3], pa.int64(), metadata_version="V4"),
    "big-endian": big_endian,
    "LZ4 bodies": lambda: column([7] * 5000, pa.int64(), compression="lz4"),
    "ZSTD bodies": lambda: column([7] * 5000, pa.int64(), compression="zstd"),
    "dictionaries": lambda: column(WORDS, pa.dictionary(pa.int32(), pa.utf8())),
    "dictionaries that grow (deltas)": lambda: growing(dictionary_deltas=True),
    "deltas in files": lambda: growing(dictionary_deltas=True, kind="file"),
    "dictionaries that are replaced": replaced,
    "dictionaries in dictionaries": nested,
    "text and binary views": lambda: column(["a", None, "longer than twelve bytes"], pa.string_view()),
    "list views": lambda: column([[1, 2], None, []], pa.list_view(pa.int32())),
    "run-end encoding": encoded,
    "unions": united,
    "maps": lambda: column([[("a", 1)], None], pa.map_(pa.utf8(), pa.int32())),
    "decimals of 32 and 64 bits": lambda: column([CENT, None], pa.decimal32(5, 2)),
    "decimals of 256 bits": lambda: column([CENT, None], pa.decimal256(60, 2)),
    "intervals of months, days, nanoseconds": lambda: column([(1, 2, 3), None], pa.month_day_nano_interval()),
}


def plain(value: Any) -> Any:
    """Convert a value to one form for all libraries: pairs become lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def read_table(library: str, data: bytes, form: str) -> pa.Table:
    """Read data with another library, and return it as a table of pyarrow."""
    if library == "pyarrow":
        schema, batches = read_by_pyarrow(data, form)
        return pa.Table.from_batches(batches, schema)
    if library == "polars":
        import polars

        reader = polars.read_ipc if form == "file" else polars.read_ipc_stream
        try:
            return reader(io.BytesIO(data)).to_arrow()
        except polars.exceptions.PanicException as refused:  # it is not an Exception
            raise NotImplementedError(str(refused)) from None
    if library == "duckdb from arrowipc":
        import duckdb

        # Its own reader of Arrow files is an extension that has to be downloaded.
        with duckdb.connect() as connection:
            return connection.from_arrow(pa.RecordBatchReader.from_stream(ipc.open(data))).to_arrow_table()
    if library == "nanoarrow":
        import nanoarrow

        return pa.table(nanoarrow.ArrayStream.from_readable(io.BytesIO(data)))
    import arro3.io

    source = arro3.io.read_ipc if form == "file" else arro3.io.read_ipc_stream
    return pa.table(source(io.BytesIO(data)))


def reads(library: str, what: str) -> str:
    data, expected = PAYLOADS[what]()
    form = "file" if data[:6] == b"ARROW1" else "stream"
    ours = library == "arrowipc"
    found = ipc.open(data).read_all()["x"] if ours else read_table(library, data, form)["x"]
    return "yes" if plain(found.to_pylist()) == plain(expected) else "wrong"


def bare_message(library: str) -> bool:
    batch = PLAIN.to_batches()[0]
    reader = {"arrowipc": ipc, "pyarrow": pa.ipc}[library]
    return reader.read_record_batch(reader.read_message(batch.serialize()), PLAIN.schema).num_rows == 3


def one_batch(library: str) -> bool:
    data = ipc_bytes(PLAIN, kind="file")
    reader = {"arrowipc": ipc.open_file, "pyarrow": pa.ipc.open_file}[library](data)
    return reader.get_batch(0).num_rows == 3


def some_columns(library: str) -> bool:
    data = ipc_bytes(pa.table({"x": [1], "y": [2]}), kind="file")
    if library == "arrowipc":
        return ipc.open_file(data, columns=["y"]).schema.names == ["y"]
    if library == "pyarrow":
        return pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(included_fields=[1])).schema.names == ["y"]
    import polars

    return {"polars": polars.read_ipc}[library](io.BytesIO(data), columns=["y"]).columns == ["y"]


def torn(library: str) -> bool:
    data = ipc_bytes([PLAIN, PLAIN], kind="file")
    cut = data[: ipc.open_file(data).blocks[1][0] + 100]
    return sum(batch.num_rows for batch in {"arrowipc": ipc.recover}[library](cut)) == 3


def tensor(library: str) -> bool:
    array = np.arange(6.0).reshape(2, 3)
    sink = pa.BufferOutputStream()
    if library == "pyarrow":
        pa.ipc.write_tensor(pa.Tensor.from_numpy(array), sink)
        return bool((pa.ipc.read_tensor(sink.getvalue()).to_numpy() == array).all())
    ours = bytearray()
    {"arrowipc": ipc.write_tensor}[library](array, ours)
    return bool((ipc.read_tensor(ours).to_numpy() == array).all())


def sparse_tensor(library: str) -> bool:
    sink = bytearray()
    if library == "pyarrow":
        return hasattr(pa.ipc, "read_sparse_tensor")
    {"arrowipc": ipc.write_sparse_tensor}[library](ipc.SparseCOOTensor.from_dense(np.eye(3)), sink)
    return bool((ipc.read_sparse_tensor(sink).to_dense() == np.eye(3)).all())


def dissociated(library: str) -> bool:
    from arrowipc import dissociated

    with dissociated.Server({"x": {"arrowipc": PLAIN}[library]}, "tcp") as server:
        return dissociated.connect(server.uri, "x").read_all().num_rows == 3


def write(library: str, form: str, codec: str | None) -> bool:
    """Write `PLAIN`, large enough to be compressed, and read it with pyarrow."""
    table = pa.concat_tables([PLAIN] * 3000).combine_chunks()
    sink: Any = io.BytesIO()
    if library == "arrowipc":
        data = ipc_bytes(table, form, compression=codec)
    else:
        if library == "pyarrow":
            sink.write(pyarrow_bytes(table.to_batches(), form, compression=codec))
        elif library == "polars":
            import polars

            frame = polars.DataFrame(table)
            save = frame.write_ipc if form == "file" else frame.write_ipc_stream
            save(sink, compression=codec or "uncompressed")
        elif library == "nanoarrow":
            from nanoarrow.ipc import StreamWriter

            if form == "file" or codec:
                raise NotImplementedError("there is only StreamWriter, which compresses nothing")
            with StreamWriter.from_writable(sink) as stream:
                stream.write_stream(table)
        elif library == "duckdb from arrowipc":
            raise NotImplementedError("its extension writes Arrow data")
        else:
            import arro3.io

            save = arro3.io.write_ipc if form == "file" else arro3.io.write_ipc_stream
            save(table, sink, compression=codec)
        data = sink.getvalue()
    same = read_table("pyarrow", data, form)["x"].to_pylist() == table["x"].to_pylist()
    return same and (codec is None or len(data) < 60_000)


def write_deltas(library: str) -> bool:
    batches = list(ipc.open_stream(growing(dictionary_deltas=True)[0]))
    if library == "pyarrow":
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        theirs = [pa.record_batch(batch) for batch in batches]
        with pa.ipc.new_stream(sink, theirs[0].schema, options=options) as writer:
            for batch in theirs:
                writer.write_batch(batch)
        return writer.stats.num_dictionary_deltas == 1
    sink = bytearray()
    with {"arrowipc": ipc.new_stream}[library](sink, dictionary_deltas=True) as ours:
        ours.write(batches)
    return ours.stats.num_dictionary_deltas == 1


def append(library: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/x.arrow"
        Path(path).write_bytes(ipc_bytes(PLAIN, kind="file"))
        with {"arrowipc": ipc.new_file}[library](path, append=True) as writer:
            writer.write(PLAIN)
        return pa.ipc.open_file(path).read_all().num_rows == 6


QUESTIONS: dict[str, dict[str, Callable[[str], Any]]] = {
    "reads": {
        **{what: lambda library, what=what: reads(library, what) for what in PAYLOADS},
        "bare messages of a known schema": bare_message,
        "one batch of a file by its number": one_batch,
        "some columns of a file": some_columns,
        "intact batches of a truncated file": torn,
    },
    "writes": {
        "streams": lambda library: write(library, "stream", None),
        "files": lambda library: write(library, "file", None),
        "LZ4 bodies, in files": lambda library: write(library, "file", "lz4"),
        "ZSTD bodies, in files": lambda library: write(library, "file", "zstd"),
        "ZSTD bodies, in streams": lambda library: write(library, "stream", "zstd"),
        "deltas": write_deltas,
        "append to a file": append,
    },
    "reads and writes": {"tensors": tensor, "sparse tensors": sparse_tensor, "Dissociated IPC": dissociated},
}

#: The rows that the README shows.
FRONT = (
    "reads/big-endian",
    "reads/dictionaries that grow (deltas)",
    "reads/list views",
    "reads/one batch of a file by its number",
    "reads/some columns of a file",
    "reads/intact batches of a truncated file",
    "writes/append to a file",
    "reads and writes/sparse tensors",
    "reads and writes/Dissociated IPC",
)


def verdicts(library: str) -> Iterator[tuple[str, str]]:
    """Ask one library everything; the library may end this process."""
    for group, questions in QUESTIONS.items():
        for what, ask in questions.items():
            try:
                answer = ask(library)
            except BaseException:  # a panic of Rust is not an Exception
                answer = "no"
            yield f"{group}/{what}", {True: "yes", False: "no"}.get(answer, answer)


def all_verdicts(library: str) -> dict[str, str]:
    """Ask one library everything, in processes of its own."""
    keys = [f"{group}/{what}" for group, questions in QUESTIONS.items() for what in questions]
    found: dict[str, str] = {}
    while len(found) < len(keys):
        done = run_module("helpers.support", library, len(found))
        assert done.returncode <= 0, done.stderr  # a signal is an answer, a failure of our code is not
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        found.update(map(tuple, lines))
        if done.returncode and len(found) < len(keys):
            found[keys[len(found)]] = "ends"
    return found


def versions() -> str:
    return ", ".join(f"{each} {version(each)}" for names in LIBRARIES.values() for each in names)


def head() -> list[str]:
    return ["| | " + " | ".join(LIBRARIES) + " |", "|---" * (len(LIBRARIES) + 1) + "|"]


def row(found: dict[str, dict[str, str]], key: str, words: str) -> str:
    return f"| {words} | " + " | ".join(VERDICTS[found[library][key]] for library in LIBRARIES) + " |"


def table(found: dict[str, dict[str, str]]) -> str:
    """Render the whole table, in Markdown."""
    lines = head()
    for group, questions in QUESTIONS.items():
        lines.append(f"| **{group}** |" + " |" * len(LIBRARIES))
        lines.extend(row(found, f"{group}/{what}", what) for what in questions)
    return "\n".join([*lines, "", f"Tried with {versions()}.", ""])


def front(found: dict[str, dict[str, str]]) -> str:
    """Render the README's rows."""
    return "\n".join([*head(), *(row(found, key, key.replace("/", ": ")) for key in FRONT), ""])


def place(page: Path, part: str) -> None:
    """Write a part between the marks of a page."""
    before, rest = page.read_text().split(BEGIN)
    page.write_text(before + BEGIN + part + END + rest.split(END)[1])


def main() -> None:
    if len(sys.argv) == 3:
        for i, verdict in enumerate(verdicts(sys.argv[1])):
            if i >= int(sys.argv[2]):
                print(json.dumps(verdict), flush=True)
        return
    found = {library: all_verdicts(library) for library in LIBRARIES}
    place(ROOT / "docs/support.md", table(found))
    place(ROOT / "README.md", front(found))


if __name__ == "__main__":
    main()
