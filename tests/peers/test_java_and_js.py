"""What we write, Arrow Java and Arrow JS read: schemas and values equal pyarrow's reading of what went in.

All that is written here goes through one process of each implementation, in the fixture `readings`.
"""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import arrays, drive, golden, java, support
from peers import plain_json

pytestmark = pytest.mark.nosanitize  # starts programs that AddressSanitizer would be loaded into


@dataclass(frozen=True)
class Given:
    """A stream that pyarrow or another implementation wrote, and how we write what it holds."""

    source: Callable[[], bytes]
    form: str = "stream"
    options: dict[str, Any] = field(default_factory=dict)
    rows: slice | None = None  # of every batch, cut out by us

    def write(self) -> bytes:
        reading = drive.from_bytes(self.source())
        parts = reading.batches
        if self.rows is not None:
            parts = [batch.slice(self.rows.start, self.rows.stop - self.rows.start) for batch in parts]
        return arrays.ipc_bytes(parts, self.form, reading.schema, **self.options)

    def expected(self) -> Any:
        reading = plain_json.reading(*arrays.read_by_pyarrow(self.source()))
        if self.rows is not None:
            for batch in reading["batches"]:
                batch["columns"] = [column[self.rows] for column in batch["columns"]]
                batch["rows"] = len(range(batch["rows"])[self.rows])
        return comparable(reading)


def comparable(reading: Any) -> Any:
    """A reading without what pyarrow itself changes: names inside maps, metadata of extensions it knows."""
    fields = [plain_json.without_map_names(f) for f in reading["schema"]["fields"]]
    for described in fields:
        if not described["metadata"].get("ARROW:extension:metadata", "x"):
            del described["metadata"]["ARROW:extension:metadata"]
    return {"schema": {**reading["schema"], "fields": fields}, "batches": reading["batches"]}


# What is written.


def one_column(name: str) -> Callable[[], bytes]:
    return lambda: arrays.pyarrow_bytes(pa.record_batch({name: arrays.CASES[name]}))


DECIMALS = {"decimal32", "decimal32_tens", "decimal64", "decimal64_tens"}
UNIONS = {"sparse_union", "dense_union"}
# Types that one of the two does not know.
UNCOMMON = {"fixed_size_binary_0"} | DECIMALS
UNCOMMON |= {name for name in arrays.CASES if "run_end" in name or "list_view" in name}


def wide(without: set[str]) -> bytes:
    """Two batches of all types that both implementations know."""
    columns = {name: arrays.tiled(array, 41) for name, array in arrays.CASES.items() if name not in without}
    batch = pa.record_batch(columns)
    return arrays.pyarrow_bytes([batch, batch.slice(7, 20)])


WORDS = (["a", "b"], ["c"], ["c", "d", None], ["c", "d", None, "e"])


def changing_dictionary() -> bytes:
    """Four batches, whose dictionary is replaced by another, which then grows twice."""
    batches = []
    for words in WORDS:
        indices = pa.array([0, None, len(words) - 1, 0], pa.int8())
        batches.append(pa.record_batch({"x": pa.DictionaryArray.from_arrays(indices, pa.array(words))}))
    return arrays.pyarrow_bytes(batches)


def no_rows() -> bytes:
    """One batch without rows, of all types that both know."""
    columns = {name: array[:0] for name, array in arrays.CASES.items() if name not in UNCOMMON}
    return arrays.pyarrow_bytes(pa.record_batch(columns))


def all_given() -> dict[str, Given]:
    given = {f"one column, {name}": Given(one_column(name)) for name in arrays.CASES}
    for how, options in arrays.WAYS.items():
        source = partial(wide, UNCOMMON | UNIONS if "V4" in how else UNCOMMON)
        for form in arrays.FORMS[:1] if "legacy" in how else arrays.FORMS:
            given[f"wide, {how}, {form}"] = Given(source, form, options)
            given[f"slice of wide, {how}, {form}"] = Given(source, form, options, slice(5, 18))
    for form in arrays.FORMS:
        given[f"no rows, {form}"] = Given(no_rows, form)
        for name in sorted(UNIONS):
            given[f"{name} of V4, {form}"] = Given(one_column(name), form, {"metadata_version": "V4"})
        given[f"unified dictionary, {form}"] = Given(changing_dictionary, form, {"unify_dictionaries": True})
        given[f"dictionary in deltas, {form}"] = Given(
            lambda: support.growing(dictionary_deltas=True)[0], form, {"dictionary_deltas": True}
        )
    given["replaced dictionary"] = Given(changing_dictionary)
    given["replaced dictionary, zstd"] = Given(changing_dictionary, "stream", {"compression": "zstd"})
    deltas = {"dictionary_deltas": True}
    given["dictionary replaced, then in deltas"] = Given(changing_dictionary, "stream", deltas)
    variants = list(arrays.WAYS.values())[:5]
    for number, case in enumerate(golden.cases()):
        for form, options in zip(arrays.FORMS, (variants[number % 5], variants[(number + 2) % 5]), strict=True):
            given[f"golden, {golden.name_of(case)}, {form}"] = Given(golden.load(case).stream.read_bytes, form, options)
    return given


GIVEN = all_given()


@cache
def expected_of(name: str) -> Any:
    """What both have to read."""
    return GIVEN[name].expected()


# What they refuse or read as something else, whoever wrote it: part of a name in GIVEN -> why.
JAVA_CANNOT = {
    "one column, decimal32": "decimals have 128 or 256 bits there",
    "one column, decimal64": "decimals have 128 or 256 bits there",
    "golden, cpp-21.0.0/generated_decimal32": "decimals have 128 or 256 bits there",
    "golden, cpp-21.0.0/generated_decimal64": "decimals have 128 or 256 bits there",
    "one column, fixed_size_binary_0": "values of no bytes are not a type there",
    "union of V4": "only unions of V5 are read there",
    "dictionary in deltas, file": "a delta in a file brings nulls there",
    "generated_duplicate_fieldnames": "members of a struct need different names there",
}
JS_CANNOT = {
    "run_end": "it has no run-end encoded type",
    "list_view": "it has no list views",
    "union of V4": "only unions of V5 are read there",
}


# One attempt within half a minute: where there is no network, a test must not wait for one.
NPM = ["install", "--ignore-scripts", "--prefer-offline", "--fetch-retries=0"]
NPM += ["--no-audit", "--no-fund", "--no-update-notifier"]


class ArrowJS:
    """Arrow JS, which npm installs, ready to read: see peers.plain_json for the results."""

    def __init__(self, build: Path) -> None:
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise java.Missing("Arrow JS needs node and npm on PATH")
        shutil.copytree(Path(__file__).parent / "js", build, dirs_exist_ok=True)
        try:
            done = subprocess.run(
                [npm, *NPM, "--fetch-timeout=30000"], cwd=build, capture_output=True, text=True, timeout=120
            )
        except subprocess.TimeoutExpired as late:
            raise java.Missing("npm did not install apache-arrow within two minutes") from late
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "error" in line]
            raise java.Missing(f"npm could not install apache-arrow: {' '.join(said[:3])}")
        self._command = [node, str(build / "read_arrow.js")]

    def read(self, paths: list[Path]) -> list[Any]:
        """Every path, stream or file; what Arrow JS refuses is ``{"error": its words}``."""
        done = subprocess.run([*self._command, *map(str, paths)], capture_output=True, text=True, timeout=300)
        lines = done.stdout.splitlines()
        assert (done.returncode, len(lines)) == (0, len(paths)), done.stderr[-2000:]
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path | Exception]:
    """Everything written, or why it could not be: that fails the tests of that name only."""
    folder = tmp_path_factory.mktemp("written")
    found: dict[str, Path | Exception] = {}
    for number, (name, given) in enumerate(GIVEN.items()):
        try:
            data = given.write()
        except Exception as error:
            found[name] = error
            continue
        found[name] = folder / f"{number}.{given.form}"
        found[name].write_bytes(data)
    return found


@pytest.fixture(scope="module", params=["java", "js"])
def peer(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, str]]:
    """An implementation, and what it cannot read."""
    make, cannot = {"java": (java.ArrowJava, JAVA_CANNOT), "js": (ArrowJS, JS_CANNOT)}[request.param]
    try:
        return make(tmp_path_factory.mktemp(request.param)), cannot
    except java.Missing as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def readings(peer: tuple[Any, dict[str, str]], paths: dict[str, Path | Exception]) -> dict[str, Any]:
    """What the implementation read of each."""
    good = {name: path for name, path in paths.items() if isinstance(path, Path)}
    return dict(zip(good, peer[0].read(list(good.values())), strict=True))


@pytest.mark.parametrize("name", GIVEN)
def test_values_and_schema_are_those_that_went_in(name, peer, paths, readings):
    if isinstance(paths[name], Exception):
        raise paths[name]
    found, expected = readings[name], expected_of(name)
    if "error" not in found:
        found = comparable(found)
        if not expected["batches"]:  # some show an empty batch where there is none
            found["batches"] = [batch for batch in found["batches"] if batch["rows"]]
    reasons = [reason for part, reason in peer[1].items() if part in name]
    if reasons:
        assert found != expected, f"is read now: remove it from the table ({reasons[0]})"
        return
    assert "error" not in found, found["error"]
    assert found["schema"] == expected["schema"]
    assert [batch["rows"] for batch in found["batches"]] == [batch["rows"] for batch in expected["batches"]]
    for ours, theirs in zip(found["batches"], expected["batches"], strict=True):
        names = [described["name"] for described in expected["schema"]["fields"]]
        for column, one, other in zip(names, ours["columns"], theirs["columns"], strict=True):
            assert one == other, column


def test_the_tables_of_what_cannot_be_read_name_what_is_written():
    for part in [*JAVA_CANNOT, *JS_CANNOT]:
        assert any(part in name for name in GIVEN), part
