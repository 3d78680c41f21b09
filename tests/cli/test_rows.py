"""The commands that print rows by their places: of files, streams, folders and pipes."""

import gzip
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from helpers.arrays import stored
from helpers.terminal import COMMAND, environment, run

import arrowipc as ipc
from arrowipc.types import field, int32, int64, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

SCHEMA = ipc.Schema([field("id", int64()), field("word", utf8())])


def columns(start: int, count: int) -> dict[str, list[Any]]:
    return {"id": list(range(start, start + count)), "word": [f"word {i}" for i in range(start, start + count)]}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file and a stream of 40 rows in four batches with statistics, and a folder of two such files."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "days").mkdir()
    for name, first in (("a.arrow", 0), ("a.arrows", 0), ("days/1.arrow", 0), ("days/2.arrow", 40)):
        parts = [columns(start, 10) for start in range(first, first + 40, 10)]
        stored(folder / name, parts, SCHEMA, statistics=True)
    return folder


def ids(*arguments: object, **given: Any) -> list[int]:
    found = run(*arguments, "--json", **given)
    assert found.code == 0, found.err
    return [line["id"] for line in found.lines]


SOURCES = ("a.arrow", "a.arrows", "days", "days/*.arrow")


@pytest.mark.parametrize("name", SOURCES)
def test_rows_of_files_streams_folders_and_patterns(data, name):
    path, count = data / name, 80 if "days" in name else 40
    assert run("count", path).out == f"{count}\n"
    assert run("count", path, "--json").json == {"rows": count}
    assert ids("head", path, "-n", 12) == list(range(12))
    assert ids("head", path, "-n", 3, "--offset", 28) == [28, 29, 30]
    assert ids("head", path, "-n", 3, "--offset", 500) == []
    assert ids("tail", path, "-n", 12) == list(range(count - 12, count))
    assert ids("tail", path, "-n", 500) == list(range(count))
    assert ids("head", path, "--take", "35, 7-9,-1,7") == [35, 7, 8, 9, count - 1, 7]
    chosen = ids("head", path, "--sample", "-n", 10, "--seed", 4)
    assert chosen == ids("head", path, "--sample", "-n", 10, "--seed", 4) == sorted(set(chosen))
    assert len(chosen) == 10
    assert ids("head", path, "--sample", "-n", 500) == list(range(count))
    more = f"... and {count - 39} more row{'s' if count > 40 else ''}, {count} in all"
    for spelt in (path, f"file://{path}"):
        assert run("head", spelt, "-n", 39).out.splitlines()[-1] == more
    for options in (["-n", count], ["-n", 3, "--offset", 4]):
        assert "more row" not in run("head", path, *options).out


def test_head_shows_the_rows_of_a_stream_that_was_torn_off(data, tmp_path):
    (torn := tmp_path / "x.arrows").write_bytes((data / "a.arrows").read_bytes()[:-100])
    assert run("head", torn, "-n", 1).out.splitlines()[-1].split() == ["0", "word", "0"]


def test_rows_are_printed_as_they_are_formatted(tmp_path):
    """What was read before a damaged batch is there; names of columns are printed once, and wide values fit."""
    parts = [columns(start, 700) for start in (0, 700, 10**15)]
    data = bytearray(stored(tmp_path / "x.arrows", parts, SCHEMA).read_bytes())
    whole = run("head", tmp_path / "x.arrows", "-n", 2000).out.splitlines()
    assert [line.split() for line in whole[:2]] == [["id", "word"], ["int64", "string"]]
    assert [line.split()[0] for line in whole[2:-1]] == [str(i) for part in parts for i in part["id"]][:2000]
    data[-10_000:-9_000] = b"\xff" * 1000  # text of the last batch
    (tmp_path / "x.arrows").write_bytes(data)
    torn = run("head", tmp_path / "x.arrows", "-n", 2000)
    assert torn.code == 1
    assert "UTF-8" in torn.err
    assert torn.out.splitlines() == whole[:1002]


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
def test_what_gzip_packed_is_read(data, name, tmp_path):
    packed = gzip.compress((data / name).read_bytes())
    (path := tmp_path / f"{name}.gz").write_bytes(packed)
    assert run("count", path).out == run("count", "-", input=packed).out == "40\n"
    assert run("count", path.as_uri()).out == "40\n"
    assert run("count", "--where", "id > 10", path).out == "29\n"
    assert run("check", path).code == run("check", "-", input=path).code == 0
    taken = run("head", "--take", 5, "-c", "id", path).out
    assert taken == run("head", "--take", 5, "-c", "id", "-", input=path).out
    assert taken.split() == ["id", "int64", "5"]
    for damaged in (packed[:-40], packed[:40] + bytes(40) + packed[80:]):
        path.write_bytes(damaged)
        found = run("count", path)
        assert (found.code, found.out) == (3, "")
        assert path.name in found.err
        assert "bug" not in found.err


def test_what_gzip_packed_may_not_be_a_bomb(data, tmp_path, monkeypatch):
    """A stream and then nothing but zeros: members of gzip, of which each is small."""
    monkeypatch.setattr("arrowipc.cli.sources.GZIP_SLACK", 1 << 20)
    zeros = gzip.compress(bytes(1 << 20))
    (path := tmp_path / "x.arrows.gz").write_bytes(gzip.compress((data / "a.arrows").read_bytes()) + 20 * zeros)
    found = run("count", path)
    assert (found.code, found.out) == (1, "")
    most = (1 << 20) + 100 * path.stat().st_size
    assert f"expected {most:,} bytes at most (1 GiB and 100 times the size of the source)" in found.err
    assert "gunzip has no such limit" in found.err


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
@pytest.mark.parametrize("piped", [False, True], ids=["redirected", "piped"])
def test_rows_of_standard_input(data, name, piped):
    source = (data / name).read_bytes() if piped else data / name
    assert run("count", "-", input=source).out == "40\n"
    assert ids("head", "-n", 2, "--offset", 11, "-", input=source) == [11, 12]
    assert ids("tail", "-n", 2, "-", input=source) == [38, 39]
    assert ids("head", "--take", "5,-2", "-", input=source) == [5, 38]
    assert ids("head", "--sample", "-n", 40, "-", input=source) == list(range(40))


def test_a_sample_says_how_to_get_it_again(data):
    found = run("head", "--sample", data / "a.arrow", "-n", 3, "--json")
    assert found.err.startswith("3 of 40 rows, --seed ")
    assert ids("head", "--sample", data / "a.arrow", "-n", 3, "--seed", found.err.split()[-1]) == [
        row["id"] for row in found.lines
    ]


@pytest.mark.parametrize("name", [*SOURCES, "-"])
def test_conditions_find_exactly_the_rows_that_meet_them(data, name):
    path, count = name if name == "-" else data / name, 80 if "days" in name else 40
    found = partial(ids, input=data / "a.arrows" if name == "-" else None)
    assert found("head", path, "-n", 500, "--where", "id >= 12", "--where", "id < 25") == list(range(12, 25))
    assert found("head", path, "-n", 3, "--where", "id = 25") == [25]
    assert found("tail", path, "-n", 1, "--where", "id in 3,4") == [4]
    assert found("head", path, "-n", 2, "--offset", 9, "--where", "word != 'x'", "--where", "id>9") == [19, 20]
    assert found("head", path, "--sample", "-n", 30, "--where", "id < 5", "-c", "id") == list(range(5))
    assert found("head", path, "--where", "id is null") == []
    assert len(found("tail", path, "-n", 500, "--where", "id not in 5,6")) == count - 2
    if name != "-":
        counted = run("count", path, "--where", "id >= 12", "--where", "id < 25")
        assert counted.out == "13\n"
        assert counted.err == f"--where: skipped {count - 20} of {count} rows, by statistics and names of folders\n"


def test_files_of_several_schemas_become_one(data, tmp_path):
    stored(
        tmp_path / "b.arrows", {"id": [-1], "more": ["x"]}, ipc.Schema([field("id", int32()), field("more", utf8())])
    )
    done = run("cat", "--merge", data / "a.arrow", tmp_path / "b.arrows", "-o", tmp_path / "m.arrow")
    assert (done.code, done.err) == (0, f"{tmp_path}/m.arrow: 41 rows in 5 batches\n")
    rows = ipc.open(tmp_path / "m.arrow").read_all().to_pylist()
    assert rows[0] == {"id": 0, "word": "word 0", "more": None}
    assert rows[-1] == {"id": -1, "word": None, "more": "x"}
    refused = run("cat", "--merge", tmp_path, "-o", tmp_path / "b.arrows", "--force")
    assert (refused.code, "source itself" in refused.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "number", "shown"), [("arrowipc st", 1, "plain,stat"), ("arrowipc tail --fo", 2, "--force")]
)
def test_a_shell_completes_commands_and_options(words, number, shown):
    asked = environment(_ARROWIPC_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(number))
    assert shown in subprocess.run(COMMAND, capture_output=True, text=True, env=asked).stdout


def test_tail_follows_a_stream_to_its_end(tmp_path):
    path = tmp_path / "x.arrows"
    with ipc.new_stream(path, SCHEMA, append=True, durable=False) as writer:
        writer.write(columns(0, 10))
        assert ids("tail", path, "-f", "--timeout", 0, "-n", 3) == [7, 8, 9]
        assert run("tail", path, "-f", "--timeout", 0, "-n", 1, "-c", "id").out.split() == ["id", "int64", "9"]
        assert ids("tail", path, "-f", "--timeout", 0, "-n", 0) == []

        def go_on() -> None:
            for start in (10, 20):
                writer.write(columns(start, 10))
            writer.close()

        thread = threading.Timer(0.05, go_on)
        thread.start()
        assert ids("tail", path, "-f", "-n", 100, "--where", "id >= 5") == list(range(5, 30))
        thread.join()
    assert ids("tail", path, "-f", "-n", 15) == list(range(15, 30))
    torn = path.read_bytes()[:-20]
    path.write_bytes(torn)
    found = run("tail", path, "-f", "-n", 1, "--timeout", 0, "--json")
    assert (found.code, [line["id"] for line in found.lines]) == (1, [19])
    assert "nothing completed its last message" in found.err
    for wrong in (("-f", "-o", "y.arrow"), ("--timeout", "1")):
        assert run("tail", path, *wrong).code == 2
    assert run("tail", tmp_path, "-f").code == 2
