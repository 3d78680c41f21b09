"""Reading, writing, payloads and hand-over need nothing but the standard library; what needs NumPy says so."""

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import arrowipc

PACKAGE = Path(arrowipc.__file__).resolve().parent
#: Makes a file, a stream and payloads, for the code below.
PREPARED = """
import sys
sys.path.insert(0, sys.argv[1])
import arrowipc as ipc

rows = {"id": [1, 2, 3], "word": ["a", None, "c"], "price": [1.5, None, 2.5], "tags": [["x"], [], None]}
with ipc.new_file("x.arrow") as writer:
    writer.write(rows)
with ipc.new_stream("x.arrows") as writer:
    for _ in range(3):
        writer.write(rows)
batch = ipc.open("x.arrow")[0]
"""


def run(code: str, folder: Path, *packages: str) -> None:
    """Run code where arrowipc and some packages can be imported, and nothing else that is installed."""
    site = folder / "site"
    site.mkdir()
    (site / "arrowipc").symlink_to(PACKAGE)
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            pytest.skip(f"{name} is not installed")
        place = Path(spec.submodule_search_locations[0])
        for each in [place, *place.parent.glob(f"_{name}_*"), *place.parent.glob(f"{name}.libs")]:
            (site / each.name).symlink_to(each)
    # -S: without site-packages.
    command = [sys.executable, "-I", "-S", "-c", PREPARED + textwrap.dedent(code), str(site)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


WORKS = {
    "files and streams": """
        assert ipc.open("x.arrow", columns=["word"]).read_all().to_pydict() == {"word": ["a", None, "c"]}
        with ipc.open_file("x.arrow", validate="strict") as reader:
            assert reader.count_rows() == 3 and reader[-1].to_pylist()[0]["tags"] == ["x"]
        assert [batch.num_rows for batch in ipc.open_stream("x.arrows")] == [3, 3, 3]
        """,
    "rows": """
        assert batch.take([2, 0])["id"].to_pylist() == [3, 1]
        assert batch[range(1, 3)]["id"].to_pylist() == [2, 3]
        assert batch.take(ipc.Array.from_pylist([2, -1]))["id"].to_pylist() == [3, 3]
        assert batch.take((0,))["id"].to_pylist() == [1]
        for wrong in ([0.5], "ab", [None, 0.5]):
            try:
                batch.take(wrong)
            except ipc.UsageError:
                continue
            raise AssertionError(wrong)
        """,
    "writing": """
        with ipc.new_file("y.arrow", statistics=True, unify_dictionaries=True) as writer:
            writer.write(batch)
        with ipc.new_file("y.arrow", append=True) as writer:
            writer.write(rows)
        with ipc.open("y.arrow") as reader, ipc.new_stream("y.arrows") as writer:
            ipc.copy(reader, writer)
        assert ipc.open("y.arrows").read_all().num_rows == 6
        """,
    "payloads": """
        cells = ipc.encode_payloads(batch, rows_per_payload=2)
        decoded = ipc.decode_payloads(cells, parent_index=True)
        assert decoded.batch["parent_index"].to_pylist() == [0, 0, 1]
        topics = ipc.RecordBatch.from_pydict({"topic": ["p", "q"]})
        assert ipc.repeat(topics, decoded)["topic"].to_pylist() == ["p", "p", "q"]
        assert ipc.decode_payloads(cells.to_pylist()).batch.num_rows == 3
        """,
    "damage": """
        with open("x.arrow", "rb") as file:
            data = file.read()
        assert not ipc.validate(data[:-200]).ok
        assert ipc.recover(data[:-20], into="z.arrow").num_rows == 3
        """,
    "pickles": """
        import pickle
        again = pickle.loads(pickle.dumps(batch[1:]))
        assert again.to_pydict() == batch[1:].to_pydict()
        """,
    "Dissociated IPC": """
        from arrowipc import dissociated
        with dissociated.Server({"x": ipc.open("x.arrow").read_all()}, "shm") as server:
            with dissociated.connect(server.uri, "x") as reader:
                assert [batch.num_rows for batch in reader] == [3]
        """,
    "what needs NumPy": """
        said = []
        for call in (
            batch["id"].to_numpy, batch.__array__, batch.to_records, batch.to_pandas,
            lambda: ipc.open_dataset("."), lambda: ipc.RowDataset("."),
        ):
            try:
                call()
            except ModuleNotFoundError as error:
                said.append(str(error))
        assert said == ["this needs numpy, which is not installed: python -m pip install numpy"] * 6
        """,
}


@pytest.mark.nosanitize  # the libraries of the sanitizers are not preloaded for -I
def test_it_works_with_the_standard_library_alone_or_says_what_it_needs(tmp_path: Path) -> None:
    """One after the other, in one process; an error stands behind the last name."""
    steps = [f"print({name!r})\n{textwrap.dedent(code)}" for name, code in WORKS.items()]
    run("\n".join([*steps, 'assert "numpy" not in sys.modules']), tmp_path)


@pytest.mark.nosanitize
@pytest.mark.parametrize(
    ("package", "made", "held"),
    [("pyarrow", "pyarrow.table", "to_pydict()"), ("polars", "polars.DataFrame", "to_dict(as_series=False)")],
)
def test_data_goes_to_a_library_and_back_without_numpy(package: str, made: str, held: str, tmp_path: Path) -> None:
    code = f"""
        import {package}
        data = {made}(ipc.open("x.arrow"))
        assert data.{held} == rows
        for held in (batch, ipc.read("x.arrow"), batch["id"], ipc.read("x.arrow")["id"]):
            assert len(getattr(held, "to_{"arrow" if package == "pyarrow" else package}")()) == 3
        with ipc.new_file("y.arrow") as writer:
            writer.write(data)
        assert ipc.open("y.arrow").read_all().to_pydict() == rows
        """
    run(code, tmp_path, package)
