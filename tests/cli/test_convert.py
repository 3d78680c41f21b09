"""The commands that write: what comes out holds the same rows, and nothing is overwritten by surprise."""

import json
import os
import random
import shutil
import signal
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pytest
from helpers.arrays import stored
from helpers.processes import rounds, start
from helpers.terminal import environment, run, run_binary, shell

import arrowipc as ipc
from arrowipc.types import dictionary, field, int32, int64, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

SCHEMA = ipc.Schema([field("id", int64()), field("word", utf8()), field("kind", dictionary(int32(), utf8()))])
ROWS = 50


def rows_of(path: Path) -> list[dict[str, object]]:
    with ipc.open(path) as reader:
        return reader.read_all().to_pylist()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("convert")
    parts = [
        {
            "id": list(numbers),
            "word": [None if i % 7 == 0 else f"word {i % 5}" for i in numbers],
            "kind": [f"k{i % 3}" for i in range(len(numbers))],
        }
        for numbers in (range(30), range(30, ROWS))
    ]
    for name in ("a.arrow", "a.arrows"):
        stored(folder / name, parts, SCHEMA, compression="lz4")
    return folder


@pytest.mark.parametrize(
    "options",
    [
        ["--to", "file"],
        ["--to", "stream", "--compression", "zstd", "--level", "5"],
        ["--to", "legacy", "--compression", "none"],
        ["--to", "file", "--batch-rows", "7", "--statistics"],
        ["--to", "file", "--dictionary", "word,id"],
        ["--to", "stream", "--dictionary", "*", "--batch-rows", "11"],
        ["--to", "parquet"],
    ],
    ids=lambda options: " ".join(options[1:]),
)
def test_every_conversion_keeps_the_rows(data, tmp_path, options):
    pytest.importorskip("pyarrow")
    target = tmp_path / "out"
    done = run("convert", data / "a.arrow", target, *options, "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["rows"] == ROWS
    if "parquet" in options:
        run("convert", target, tmp_path / "back.arrow", "--from", "parquet")
        target = tmp_path / "back.arrow"
    assert rows_of(target) == rows_of(data / "a.arrow")
    if "--batch-rows" in options:
        with ipc.open(target) as reader:
            lengths = [len(batch) for batch in reader]
        assert set(lengths[:-1]) == {int(options[options.index("--batch-rows") + 1])}


@pytest.mark.parametrize("ending", [".arrow", ".feather", ".ipc", ".arrows"])
def test_endings_say_what_is_written_and_bodies_stay_compressed_as_they_are(data, tmp_path, ending):
    target = tmp_path / f"x{ending}"
    done = run("convert", data / ("a.arrow" if ending == ".arrows" else "a.arrows"), target)
    assert done.code == 0, done.err
    assert target.read_bytes().startswith(b"ARROW1") == (ending != ".arrows")
    assert ipc.read(target) == ipc.read(data / "a.arrows")
    kept = [each["codec"] for each in run("messages", target, "--json").lines]
    assert kept[1:] == ["lz4"] * (len(kept) - 1)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_text_formats_come_and_go_through_pipes_and_redirections(data, tmp_path, kind):
    pytest.importorskip("pyarrow")
    text = run_binary("convert", data / "a.arrows", "-", "--to", kind, "-c", "id,word").stdout
    (redirected := tmp_path / "text").write_bytes(text)
    expected = [{"id": row["id"], "word": row["word"] or ""} for row in rows_of(data / "a.arrow")]
    for source in (text, redirected):
        done = run("convert", "-", tmp_path / "back.arrow", "--from", kind, "--force", input=source)
        assert (done.code, done.err) == (0, f"{tmp_path}/back.arrow: {ROWS} rows in 1 batch\n")
        assert [row | {"word": row["word"] or ""} for row in rows_of(tmp_path / "back.arrow")] == expected


@pytest.mark.parametrize("kind", ["csv", "stream"])
def test_a_pipe_with_a_name_is_written_to_and_not_replaced(data, tmp_path, kind):
    os.mkfifo(pipe := tmp_path / "pipe")
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        done = run("convert", data / "a.arrow", pipe, "--to", kind)
        assert done.code == 0, done.err
        written, _ = reader.communicate(timeout=60)
    assert pipe.is_fifo()
    assert len(written) > ROWS


def test_concatenation_reads_files_streams_and_standard_input(data, tmp_path):
    found = shell(f"cd {data}; arrowipc cat a.arrow - < a.arrows | arrowipc cat - a.arrow -o {tmp_path}/all.arrow")
    assert found.code == 0
    assert rows_of(tmp_path / "all.arrow") == rows_of(data / "a.arrow") * 3
    assert "150 rows" in found.err
    # A file through a pipe cannot be read from its end: it is copied first.
    assert run("head", "-", "--json", input=(data / "a.arrow").read_bytes()).lines[0]["id"] == 0


def test_what_cannot_be_read_to_its_end_leaves_the_old_target(data, tmp_path):
    cut, target = tmp_path / "cut.arrows", tmp_path / "target.arrow"
    cut.write_bytes((data / "a.arrows").read_bytes()[:-100])
    target.write_bytes(b"old")
    for command in (["convert", cut, target], ["cat", data / "a.arrow", cut, "-o", target]):
        done = run(*command, "--force")
        assert done.code == 1
        assert done.err.startswith(f"arrowipc: {cut}: ")
        assert "arrowipc recover" in done.err
        assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.arrows", "target.arrow"]
    other = stored(tmp_path / "other.arrow", {"x": [1.0]})
    refused = run("cat", data / "a.arrow", other, "-o", target, "--force")
    assert refused.code == 2
    assert f"{other}: its schema differs from that of" in refused.err


@pytest.mark.parametrize(
    ("ending", "values"),
    [
        ("csv", pa.array([[1]])),
        ("csv", pa.array([{"a": 1}])),
        ("csv", pa.array([b"\xff"])),
        ("csv", pa.array([b"\xff"]).dictionary_encode()),
        ("parquet", pa.array([(1, 2, 3)], pa.month_day_nano_interval())),
        ("parquet", pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])),
        ("parquet", pa.array([], pa.struct([]))),
    ],
    ids=str,
)
def test_what_a_format_cannot_hold_is_said_with_the_name(ending, values, tmp_path):
    """The data are fine, and no package is missing: the status is that of data that are not supported."""
    columns = {name: pa.array([1] * len(values)) for name in ("first", "last")}
    table = pa.table({"first": columns["first"], "measure": values, "last": columns["last"]})
    done = run("convert", stored(tmp_path / "x.arrow", table), tmp_path / f"x.{ending}")
    assert done.code == 1
    assert f"x.{ending}: " in done.err
    assert "cannot hold column 'measure'" in done.err
    assert not (tmp_path / f"x.{ending}").exists()


def test_a_missing_package_is_named(data, tmp_path):
    blocker = tmp_path / "pyarrow.py"
    blocker.write_text("raise ImportError('not here')")
    done = run("convert", data / "a.arrow", tmp_path / "x.parquet", PYTHONPATH=str(tmp_path))
    assert done.code == 4
    assert "pip install pyarrow" in done.err


def test_differences_are_found_and_equal_sources_are_equal(data, tmp_path):
    same = run("diff", data / "a.arrow", data / "a.arrows", "--json")
    assert (same.code, same.json["equal"]) == (0, True)
    rows = rows_of(data / "a.arrow")
    rows[31]["word"] = "another"
    rows[49]["id"] = -1
    del rows[40:42]
    other = stored(tmp_path / "other.arrow", {name: [row[name] for row in rows] for name in SCHEMA.names}, SCHEMA)
    found = run("diff", data / "a.arrow", other, "--json", "-n", 1)
    assert found.code == 1
    assert found.json["differences"] == [{"row": 31, "column": "word", "left": "word 1", "right": "another"}]
    assert found.json["rows"] == {"left": 50, "right": 48}
    assert not found.json["complete"]
    text = run("diff", data / "a.arrow", other).out
    assert "another" in text
    assert "31" in text
    narrow = tmp_path / "narrow.arrow"
    run("convert", data / "a.arrow", narrow, "-c", "word,id")
    schema = run("diff", data / "a.arrow", narrow, "--json").json["schema"]
    assert [each["column"] for each in schema] == ["kind"]
    assert run("diff", data / "a.arrow", narrow, "-c", "id").code == 0


def test_a_difference_that_cannot_be_found_names_the_source_that_is_damaged(data, tmp_path):
    cut = tmp_path / "cut.arrows"
    cut.write_bytes((data / "a.arrows").read_bytes()[:-100])
    for sides in ((cut, data / "a.arrows"), (data / "a.arrows", cut)):
        done = run("diff", *sides)
        assert done.code == 1
        assert done.err.startswith(f"arrowipc: {cut}: ")
        assert f"`arrowipc recover {cut} -o NEW.arrow`" in done.err


def test_recovered_rows_are_those_in_front_of_the_damage(data, tmp_path):
    cut, target = tmp_path / "cut.arrow", tmp_path / "saved.arrow"
    whole = (data / "a.arrow").read_bytes()
    with ipc.open_file(data / "a.arrow") as reader:
        offset, head, _ = reader.blocks[1]
    cut.write_bytes(whole[: offset + head])
    counted = run("recover", cut)
    assert counted.code == 0
    assert "nothing was written" in counted.out
    done = run("recover", cut, "-o", target, "--json")
    assert done.code == 0
    assert (done.json["rows"], done.json["complete"]) == (30, False)
    assert rows_of(target) == rows_of(data / "a.arrow")[:30]
    piped = run_binary("recover", cut, "-o", "-", "--to", "stream")
    assert ipc.open_stream(piped.stdout).read_all().num_rows == 30
    assert b"lost" in piped.stderr
    assert run("recover", data / "a.arrow", "--json").json["complete"]


def torn(whole: bytes, dice: random.Random) -> bytes:
    """Cut off, with bytes that were changed, zeroed, lost or added, or behind an end marker."""
    at, size = dice.randrange(16, len(whole)), dice.choice([1, 8, 60, 300])
    filling = dice.choice([b"", bytes(size), dice.randbytes(size), dice.randbytes(3), b"\xff" * 4 + bytes(4)])
    return dice.choice([whole[:at], whole[:at] + filling + whole[at + size :], whole[:at] + filling + whole[at:]])


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["a.arrow", "growing.arrow", "plain.arrows"])
def test_check_promises_what_recover_saves_and_both_name_the_option_that_saves_more(data, tmp_path, name):
    dice = random.Random(21)
    options = {"dictionary_deltas": True, "unify_dictionaries": True, "checksum": True}
    parts = [
        pa.table({"i": range(len(w)), "w": pa.array(list(w)).dictionary_encode()}) for w in ("ab", "abc", "cd", "e")
    ]
    with ipc.new_file(data / "growing.arrow", **options) as file, ipc.new_stream(data / "plain.arrows") as stream:
        for part in parts:
            file.write(part)
            stream.write(part.select(["i"]))
    whole, named = (data / name).read_bytes(), set()
    for _ in range(rounds(40, 1500)):
        path = tmp_path / "torn.arrow"
        path.write_bytes(torn(whole, dice))
        found = run("check", path, "--json").json
        if found["verdict"] != "bad":
            continue
        plain, searched = (run("recover", path, "--json", *more) for more in ([], ["--resync"]))
        rows = [each.json["rows"] if each.out else 0 for each in (plain, searched)]
        promised = found["recover"] or {"resync": False, "rows": 0}
        assert promised["rows"] == rows[promised["resync"]] == max(rows)
        assert promised["resync"] == (rows[1] > rows[0])
        assert ("--resync" in plain.err) == promised["resync"]
        last = run("check", path).out.splitlines()[-1]
        assert ("recover" in last, "--resync" in last) == (max(rows) > 0, promised["resync"]), last
        assert found["rows"] <= max(rows)
        named.add(promised["resync"])
    # Where messages have checksums, recover goes on behind damage without being asked.
    assert True in named or name == "growing.arrow"


def test_a_served_file_can_be_fetched_until_the_server_is_stopped(data, tmp_path):
    with start("-m", "arrowipc", "serve", data / "a.arrow", "--json", env=environment()) as server:
        try:
            offer = json.loads(server.stdout.readline())
            assert offer["names"] == ["a.arrow"]
            done = run("fetch", offer["uri"], "a.arrow", "-o", tmp_path / "copy.arrow", "--compression", "zstd")
            assert done.code == 0
            assert rows_of(tmp_path / "copy.arrow") == rows_of(data / "a.arrow")
            assert "--force" in run("fetch", offer["uri"], "a.arrow", "-o", tmp_path / "copy.arrow").err
            assert run("fetch", offer["uri"], "b.arrow", "-o", tmp_path / "no.arrow").code == 1
            assert not (tmp_path / "no.arrow").exists()
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0
            refused = run("fetch", offer["uri"], "a.arrow", "-o", tmp_path / "no.arrow")
            assert (refused.code, "refused" in refused.err) == (3, True)
        finally:
            server.kill()


@pytest.fixture
def place(data: Path, tmp_path: Path) -> Path:
    for name in ("a.arrow", "a.arrows"):
        shutil.copy(data / name, tmp_path)
    return tmp_path


WRITERS = (
    ["convert", "{source}", "{target}"],
    ["cat", "{source}", "-o", "{target}"],
    ["recover", "{source}", "-o", "{target}"],
    ["head", "{source}", "--take", "0-49", "-o", "{target}"],
    ["head", "{source}", "-n", "50", "-o", "{target}"],
)


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
class TestEveryCommandThatWrites:
    def said(self, command: list[str], source: Path, target: Path, *options: str) -> tuple[int, str]:
        done = run(*[word.format(source=source, target=target) for word in command], *options)
        return done.code, done.err

    def test_keeps_what_is_there_unless_it_is_forced(self, place, command):
        target = place / "b.arrow"
        target.write_bytes(b"mine")
        code, words = self.said(command, place / "a.arrow", target)
        assert (code, target.read_bytes()) == (2, b"mine")
        assert f"{target} exists; use --force to overwrite" in words
        assert self.said(command, place / "a.arrow", target, "--force")[0] == 0
        assert rows_of(target) == rows_of(place / "a.arrow")

    def test_does_not_guess_the_format_of_a_name_that_it_does_not_know(self, place, command):
        for name in ("notes.txt", "out.json", "out.xlsx", "out.parq", "out"):
            code, words = self.said(command, place / "a.arrow", place / name)
            assert code == 2
            assert "unknown format; use --to FORMAT" in words
            assert not (place / name).exists()
        assert self.said(command, place / "a.arrow", place / "out", "--to", "stream")[0] == 0
        assert rows_of(place / "out") == rows_of(place / "a.arrow")

    def test_never_writes_over_its_own_source_also_by_a_link(self, place, command):
        source = place / "a.arrow"
        before = source.read_bytes()
        (place / "soft.arrow").symlink_to(source)
        os.link(source, place / "hard.arrow")
        for name in ("a.arrow", "soft.arrow", "hard.arrow", "../" + place.name + "/a.arrow"):
            code, words = self.said(command, source, place / name, "--force")
            assert code == 2
            assert "is the source itself" in words
            assert source.read_bytes() == before

    def test_replaces_no_link_that_leads_nowhere(self, place, command):
        (place / "b.arrow").symlink_to(place / "nothing")
        assert self.said(command, place / "a.arrow", place / "b.arrow")[0] == 2

    def test_does_not_blame_its_source_for_its_target(self, place, command):
        target = place / "no" / "b.arrow"
        words = f"arrowipc: {target}: No such file or directory\n"
        assert self.said(command, place / "a.arrow", target) == (3, words)

    def test_writes_devices_and_refuses_folders(self, place, command):
        assert self.said(command, place / "a.arrow", Path("/dev/null"), "--to", "stream")[0] == 0
        code, words = self.said(command, place / "a.arrow", place, "--to", "stream", "--force")
        assert code == 3
        assert "directory" in words


def test_redirections_do_not_destroy_a_source_either(place):
    before = (place / "a.arrows").read_bytes()
    for script in ("arrowipc cat {0} >> {0}", "arrowipc convert - {0} --force < {0}", "arrowipc cat - >> {0} < {0}"):
        done = shell(script.format(place / "a.arrows"))
        assert done.code == 2, script
        assert "is the source itself" in done.err
        assert (place / "a.arrows").read_bytes() == before


@pytest.mark.parametrize("ending", ["arrow", "csv", "ndjson", "parquet"])
def test_a_url_of_a_file_is_its_path(place, ending):
    url = f"file://{place}/new.{ending}"
    assert run("convert", place / "a.arrow", url).code == 0
    assert run("convert", place / "a.arrow", place / f"other.{ending}").code == 0
    assert (place / f"new.{ending}").read_bytes() == (place / f"other.{ending}").read_bytes()
    assert "exists; use --force" in run("convert", place / "a.arrow", url).err
    assert run("convert", url, place / "back.arrow").code == 0
    done = run("convert", place / "a.arrow", f"file://{place}/no/new.{ending}")
    assert (done.code, done.err) == (3, f"arrowipc: {place}/no/new.{ending}: No such file or directory\n")
    if ending != "arrow":
        done = run("convert", place / "a.arrow", f"memory://x.{ending}")
        assert (done.code, "only Arrow files and streams are written to a URL" in done.err) == (2, True)


def test_a_url_is_a_target_like_another(place):
    pytest.importorskip("fsspec")
    assert run("convert", place / "a.arrow", "memory://x/b.arrow").code == 0
    refused = run("convert", place / "a.arrow", "memory://x/b.arrow")
    assert (refused.code, "exists; use --force" in refused.err) == (2, True)
    assert "source itself" in run("convert", "memory://x/b.arrow", "memory://x/b.arrow", "--force").err


def test_what_appears_while_a_command_writes_is_not_overwritten(tmp_path):
    """Both stay, also where --force allowed to overwrite what was there before."""
    batch = ipc.RecordBatch.from_pydict({"id": list(range(20))})
    first = len(batch.schema.serialize() + batch.serialize())
    stored(tmp_path / "a.arrows", [batch, batch])
    script = """cd {folder}; {{
    head -c {first} a.arrows
    while ! ls -A | grep -q {name}.*tmp; do sleep 0.01; done
    echo mine > {name}
    tail -c +{next} a.arrows
    }} | arrowipc convert - {name} {options}"""
    (tmp_path / "forced.arrow").write_bytes(b"old")
    for name, options, ids in (
        ("forced.arrow", "--force", lambda path: ipc.open(path).read_all().to_pydict()["id"]),
        ("new.csv", "", lambda path: csv.read_csv(path)["id"].to_pylist()),
    ):
        done = shell(script.format(folder=tmp_path, first=first, next=first + 1, name=name, options=options))
        assert done.code == 3, done.err
        assert (tmp_path / name).read_text() == "mine\n"
        (kept,) = tmp_path.glob(f".{name}.*.kept")
        assert f"the complete new file is kept as '{kept}'" in done.err
        assert ids(kept) == [*range(20)] * 2
