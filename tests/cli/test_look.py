"""The commands that look: what they print for people and for programs, through pipes and on a terminal."""

import datetime as dt
import json
import os
import re
import subprocess
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from helpers.arrays import ipc_bytes, stored
from helpers.processes import run_python
from helpers.terminal import COMMAND, environment, on_terminal, run, run_binary, shell

import arrowipc as ipc
from arrowipc.types import binary, decimal128, dictionary, field, float64, int32, int64, list_, struct, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

SCHEMA = ipc.Schema(
    [
        field("id", int64(), nullable=False),
        field("word", utf8()),
        field("kind", dictionary(int32(), utf8())),
        field("places", list_(struct([field("x", float64())]))),
        field("raw", binary()),
    ],
    metadata={"origin": "sensor 4"},
)
ROWS = {
    "id": [1, 2, 3],
    "word": ["ein", None, "drei\x1b[31m"],
    "kind": ["a", "b", "a"],
    "places": [[{"x": 1.5}], [], None],
    "raw": [b"\x00\xff", b"", None],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file and a stream of the same rows, compressed."""
    folder = tmp_path_factory.mktemp("cli")
    for name in ("a.arrow", "a.arrows"):
        stored(folder / name, [ROWS, ROWS], SCHEMA, compression="zstd")
    return folder


def test_help_lists_every_command_and_every_exit_code_without_loading_them():
    code = (
        "import sys; from arrowipc.cli import main; main(['--help']);"
        "print(*[name for name in sys.modules if name.startswith('arrowipc.cli.')], file=sys.stderr)"
    )
    done = run_python(code, env=environment())
    for word in ("schema", "head", "stat", "messages", "browse", "check", "convert", "recover", "diff", "cat"):
        assert re.search(rf"^  {word} ", done.stdout, re.MULTILINE), word
    for code in ("0", "1", "2", "3", "4", "130", "141"):
        assert re.search(rf"^ +{code}  \w", done.stdout, re.MULTILINE), code
    assert set(done.stderr.split()) <= {"arrowipc.cli.app", "arrowipc.cli.sources"}
    assert "numpy" not in done.stderr


def test_an_interrupt_while_modules_load_ends_the_command_without_a_traceback(tmp_path):
    (tmp_path / "rich.py").write_text("raise KeyboardInterrupt\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from arrowipc.cli import main; sys.exit(main([]))"
    done = run_python(code, env=environment())
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_without_its_packages_the_command_says_what_to_install():
    code = "import sys; sys.modules.update(%s); from arrowipc.cli import main; sys.exit(main([]))"
    for hidden, words in (
        ({"click": None}, "needs click, which is not installed: python -m pip install click"),
        ({"rich": None}, "pip install rich"),
        ({"click": None, "rich": None}, "click and rich, which are not installed: python -m pip install click rich"),
    ):
        done = run_python(code % hidden, env=environment())
        assert done.returncode == 4
        assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["schem", "x"], 2, "did you mean 'schema'"),
        (["validate", "x"], 2, "did you mean 'check'"),
        (["head"], 2, "Missing argument 'FILE'"),
        (["head", "no/such/file"], 3, "no/such/file: No such file or directory"),
        (["head", "a.arrow", "-c", "nothing"], 2, "nothing"),
        (["head", "a.arrow", "-c", "a\nb"], 2, "put it in double quotes"),
        (["head", "a.arrow", "--take", "1", "--sample"], 2, "exclude each other"),
        (["head", "a.arrow", "--take", "a"], 2, "such as 5,17-20, found 'a'"),
        (["head", "a.arrow", "--take", ""], 2, "such as 5,17-20"),
        (["head", "a.arrow", "--take", "6"], 2, "row 6 is out of range: there are 6 rows, from 0"),
        (["head", "a.arrow", "--take", "0-99999999999999"], 2, "out of range"),
        (["head", "a.arrow", "--take", "-7"], 2, "row -7 is out of range"),
        (["head", "a.arrow", "--take", "5-3"], 2, "ends before it begins"),
        (["head", "a.arrow", "--offset", "-1"], 2, "--offset"),
        (["head", "a.arrow", "--where", "id"], 2, "examples: 'x >= 3'"),
        (["head", "a.arrow", "--where", "nothing > 3"], 2, "no column 'nothing'; there are id, word"),
        (["head", "a.arrow", "--where", "id > word"], 2, "'id' is of type int64"),
        (["head", "a.arrow", "--where", "id > 3 and id < 5"], 2, "give --where for each of several conditions"),
        (["head", "a.arrow", "--where", "word in a\nb"], 2, "column 'word'"),
        (["head", "a.arrow", "--to", "csv"], 2, "give -o FILE, too"),
        (["head", "file://host/a.arrow"], 2, "file://host/a.arrow: expected file:///path"),
        (["convert", "a.arrow", "file://host/a.arrow"], 2, "found one of the host 'host'"),
        (["cat", "-", "-"], 2, "only once"),
        (["head", "empty.arrow"], 1, "empty.arrow: the file is empty (0 bytes)\n"),
        (["stat", "empty"], 3, "empty: a folder: head, tail, count and cat --merge read folders"),
        (["head", "empty"], 2, "arrowipc: empty: the folder has no file (names that begin with _ or . are ignored)\n"),
        (["browse", "a.arrow"], 2, "use -o PAGE.html, or --json"),
        (["browse", "a.arrow", "-o", "a.png"], 2, "use a name that ends with .html"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_mistakes_are_explained_in_a_line_or_two(data, arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("empty.arrow").touch()
    found = run(*[str(data / each) if each == "a.arrow" else each for each in arguments])
    assert (found.code, found.out) == (code, "")
    assert words in found.err
    assert "Traceback" not in found.err
    assert len(found.err.splitlines()) <= 3


def test_schema_is_a_tree_and_json(data):
    text = run("schema", data / "a.arrow").out
    assert "id: int64 not null" in text
    assert "dictionary 0 of string, indices int32" in text
    assert "x: double" in text
    assert "origin = sensor 4" in text
    found = run("schema", data / "a.arrows", "--json").json
    assert [each["name"] for each in found["fields"]] == SCHEMA.names
    assert found["format"] == "stream"
    kind = {"id": 0, "index_type": "int32", "value_type": "string", "ordered": False}
    assert found["fields"][2]["dictionary"] == kind
    assert found["metadata"] == [{"key": "origin", "value": "sensor 4"}]


def test_head_shows_the_first_rows_for_people_and_for_programs(data):
    text = run("head", data / "a.arrow", "-n", 4).out
    assert len(text.splitlines()) == 2 + 4 + 1
    assert r"drei\x1b[31m" in text
    rows = run("head", data / "a.arrow", "-n", 4, "--json").lines
    assert [row["id"] for row in rows] == [1, 2, 3, 1]
    assert rows[0] == {"id": 1, "word": "ein", "kind": "a", "places": [{"x": 1.5}], "raw": "AP8="}
    assert run("head", data / "a.arrow", "-n", 0).code == 0


def test_binary_output_never_goes_to_a_terminal_and_input_is_not_waited_for(data):
    for arguments in (["cat", data / "a.arrow"], ["convert", data / "a.arrow", "-"], ["head", "-"]):
        found = on_terminal(*arguments)
        assert found.code == 2
        assert "ARROW1" not in found.out
        assert "terminal" in found.out or "binary" in found.out


def test_messages_are_listed_where_they_are(data):
    from arrowipc.inspection.message_layout import locate_messages

    for name in ("a.arrow", "a.arrows"):
        found = run("messages", data / name, "--json").lines
        whole = (data / name).read_bytes()
        assert [each["kind"] for each in found] == ["Schema", "DictionaryBatch", "RecordBatch", "RecordBatch"]
        for entry, located in zip(found, locate_messages(whole), strict=True):
            assert (entry["offset"], entry["body_length"]) == (located.offset, located.body_length)
            assert whole[entry["offset"] :].startswith(b"\xff\xff\xff\xff")
        assert [each["rows"] for each in found] == [None, 2, 3, 3]
        assert found[2]["codec"] == "zstd"
    text = run("messages", "-", input=(data / "a.arrows").read_bytes()).out
    assert "dictionary 0" in text
    assert "4 messages, 6 rows" in text


def test_stat_counts_what_is_there(data):
    for name in ("a.arrow", "a.arrows"):
        found = run("stat", data / name, "--json").json
        assert (found["rows"], found["batches"]) == (6, 2)
        by_name = {each["name"]: each for each in found["columns"]}
        assert [by_name["id"][key] for key in ("nulls", "min", "max")] == [0, 1, 3]
        assert by_name["word"]["nulls"] == 2
        assert [by_name["kind"][key] for key in ("min", "max")] == ["a", "b"]
        assert by_name["kind"]["dictionary_bytes"] > 0
        assert by_name["places"]["nulls"] == 2
        assert sum(each["stored_bytes"] for each in by_name.values()) < found["bytes"]
    assert run("stat", "-", "--json", input=(data / "a.arrows").read_bytes()).json["rows"] == 6
    assert "column" in run("stat", data / "a.arrow").out


def test_bounds_of_extensions_are_shown_as_their_values(tmp_path):
    path, known = tmp_path / "x.arrow", [UUID(int=1 << 100), UUID(int=5)]
    ipc.write({"u": known}, path)
    (found,) = run("stat", path, "--json").json["columns"]
    assert [found["min"], found["max"]] == [str(known[1]), str(known[0])]
    assert str(known[0]) in run("stat", path).out


@pytest.mark.parametrize("command", ["head", "count", "head --json"])
def test_an_output_that_nobody_reads_any_more_ends_a_command_quietly(data, command):
    found = shell(f"set -o pipefail; arrowipc {command} {data}/a.arrow | true")
    assert found == (141, "", "")


@pytest.mark.parametrize("command", ["head {}", "convert {} -"])
def test_a_closed_output_is_an_error_without_a_traceback(data, command):
    line = command.format(data / "a.arrow")
    found = shell(f"arrowipc {line} >&-")
    assert (found.code, found.out) == (3, "")
    assert re.fullmatch(r"arrowipc: .*Bad file descriptor\n", found.err), found.err
    assert "standard input" not in found.err
    assert shell(f"arrowipc {line} >&- 2>&-").code == 3
    assert (data / "a.arrow").read_bytes()[:6] == b"ARROW1"


@pytest.mark.parametrize("command", ["head", "head --json", "tail -f --timeout 0", "check"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_error_of_the_output_does_not_blame_the_input(data, command, unbuffered):
    found = shell(f"PYTHONUNBUFFERED={unbuffered} arrowipc {command} {data}/a.arrows > /dev/full")
    assert (found.code, found.err) == (3, "arrowipc: standard output: No space left on device\n")


def test_closed_streams_that_are_not_needed_do_not_matter(data, tmp_path):
    assert shell(f"arrowipc convert {data}/a.arrow {tmp_path}/b.arrow <&- >&- 2>&-").code == 0
    assert ipc.open(tmp_path / "b.arrow").count_rows() == 6
    done = shell(f"arrowipc diff {data}/a.arrow - <&-")  # the file must not become the standard input
    assert (done.code, "Bad file descriptor" in done.err) == (3, True)
    code = "import sys; sys.stdout.close(); from arrowipc.cli import main; sys.exit(main(['schema', sys.argv[1]]))"
    done = run_python(code, data / "a.arrow", env=environment())
    assert (done.returncode, "Traceback" in done.stderr) == (3, False)


@pytest.fixture(scope="module")
def long_numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers of many digits, in columns of long names."""
    decimals = decimal128(38, 1)
    schema = ipc.Schema([field("zeros", float64()), field("a rather long name", float64()), field("d", decimals)])
    columns = {"zeros": [0.0, 1.0], "a rather long name": [5.897982768843235e17, -0.0], "d": [DIGITS, None]}
    return stored(tmp_path_factory.mktemp("numbers") / "n.arrow", columns, schema)


DIGITS = Decimal("1234567890123456789012345678901234567.8")


@pytest.mark.parametrize("columns", [40, 120, None])
@pytest.mark.parametrize("command", ["stat", "head"])
def test_no_number_is_cut_and_no_column_is_left_out_silently(long_numbers, command, columns):
    if columns is None:
        text = run(command, long_numbers).out
    else:
        text = on_terminal(command, long_numbers, columns=columns, NO_COLOR="1").out
    values = "".join([line for line in text.splitlines(True) if "double" not in line])
    assert not re.search(r"\d\.\.\.", values)
    if command == "head":
        hidden = re.search(r"\.\.\. and (\d) more column", text)
        left = int(hidden[1]) if hidden else 0
        assert (left < 2, left < 1) == ("5.897982768843235e+17" in values, str(DIGITS) in values)
        return
    for word in ("zeros", "a rather long name", "d: decimal128(38, 1)", "5.897982768843235e+17", str(DIGITS)):
        assert word in text or (columns == 120 and word.startswith("d:")), word
    for title in ("min", "max", "raw", "stored", "share", "nulls"):
        assert title in text
    assert "-0.0" not in text  # the bounds of a batch hold both zeros, the values shown do not


def test_another_order_of_many_columns_is_shown_where_it_begins(tmp_path):
    names = [f"c{i}" for i in range(30)]
    for name, order in (("a.arrow", names), ("b.arrow", [*names[:28], "c29", "c28"])):
        stored(tmp_path / name, {each: [1] for each in order})
    (found,) = run("diff", tmp_path / "a.arrow", tmp_path / "b.arrow", "--json").json["schema"]
    assert found == {"column": None, "left": "order: column 28 is 'c28'", "right": "order: column 28 is 'c29'"}


def test_check_gives_a_verdict_for_good_and_bad_and_old(data, tmp_path):
    good = run("check", data / "a.arrow")
    assert good.code == 0
    assert good.out.splitlines()[-1].startswith("good: valid")
    whole = (data / "a.arrow").read_bytes()
    (tmp_path / "cut.arrow").write_bytes(whole[:-40])
    bad = run("check", tmp_path / "cut.arrow", "--json")
    assert bad.code == 1
    assert bad.json["verdict"] == "bad"
    assert not any(bad.json["levels"].values())
    assert bad.json["damage"]
    old = run("check", "-", "--json", input=ipc_bytes(ROWS, "stream", SCHEMA, legacy=True, metadata_version="V4"))
    assert old.code == 0
    assert old.json["verdict"] == "good"


def test_check_tells_what_is_safe_from_what_is_right(tmp_path):
    from arrowipc.types import time32

    sink = bytearray(ipc_bytes({"t": [1]}, "stream", ipc.Schema([field("t", time32("s"))])))
    at = sink.rindex((1).to_bytes(8, "little"))
    sink[at : at + 4] = (90_000).to_bytes(4, "little")  # later than any time of day
    (tmp_path / "late").write_bytes(sink)
    found = run("check", tmp_path / "late", "--json")
    assert (found.code, found.json["verdict"]) == (0, "questionable")
    assert found.json["levels"] == {"structure": True, "full": True, "strict": False}
    assert run("check", tmp_path / "late", "--strict").code == 1


@pytest.mark.parametrize("command", ["schema", "head", "stat", "messages", "check"])
def test_nothing_is_something_too(tmp_path, command):
    stored(tmp_path / "no columns.arrow", [], ipc.Schema([]))
    stored(tmp_path / "no rows.arrows", [], SCHEMA)
    for name in ("no columns.arrow", "no rows.arrows"):
        found = run(command, tmp_path / name)
        assert (found.code, found.err) == (0, "")
        assert found.out


def test_names_that_the_terminal_cannot_spell_are_escaped(tmp_path):
    stored(tmp_path / "x.arrow", {"\x1b[2J日本": ["ß"]})
    for command in ("schema", "head", "stat", "messages", "check"):
        done = run(command, tmp_path / "x.arrow", encoding="ascii")
        assert (done.code, done.err) == (0, "")
        assert "\x1b" not in done.out
    rows = run_binary("head", tmp_path / "x.arrow", "--json", PYTHONUTF8="0", PYTHONIOENCODING="ascii").stdout
    assert json.loads(rows) == {"\x1b[2J日本": "ß"}


@pytest.mark.parametrize("name", ["x.csv", "x.bin"])
def test_check_says_one_thing_of_what_is_no_arrow_data(tmp_path, name):
    content = {"x.csv": b"a,b\n1,2\n", "x.bin": b"\x7fELF\2\1\1\0" * 20}[name]
    (tmp_path / name).write_bytes(content)
    found = run("check", tmp_path / name)
    first, *rest = found.out.splitlines()
    assert (found.code, found.err) == (1, "")
    assert first.startswith(f"{tmp_path / name}: ")
    assert {"x.csv": "this is text (CSV?)", "x.bin": "not Arrow IPC data"}[name] in first
    assert rest == ([f"`arrowipc convert {tmp_path}/x.csv {tmp_path}/x.arrow` converts it to Arrow"] * ("csv" in name))
    assert "Traceback" not in found.out
    assert run("check", tmp_path / name, "--json").json["verdict"] == "bad"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wide characters, and a thousand columns."""
    folder = tmp_path_factory.mktemp("odd")
    columns = {"名前": ["日本語のとても長いテキスト" * 5, None], "n": [1, 2], "city": ["東京", "Oslo"]}
    stored(folder / "cjk.arrow", columns)
    stored(folder / "wide.arrow", {f"column_{i}": [i] for i in range(1000)})
    return folder


@pytest.mark.parametrize("name", ["cjk.arrow", "wide.arrow"])
@pytest.mark.parametrize("columns", [20, 80])
def test_head_is_readable_with_wide_text_and_many_columns_in_any_terminal(odd, name, columns):
    from rich.cells import cell_len

    found = on_terminal("head", odd / name, columns=columns, NO_COLOR="1").out
    assert "\x1b[" not in found  # neither colours nor bold
    *table, left = found.splitlines()
    if left.startswith("..."):
        assert cell_len(left) <= 2 * columns  # whole names, on two lines at most
        assert re.fullmatch(r"\.\.\. and [\d,]+ more columns?: [\w名前, ]*(, \.\.\.)?", left), left
    else:
        table.append(left)
    widths = [cell_len(line.rstrip()) for line in table]
    assert max(widths) <= columns
    assert len(table[0].split()) >= 2  # more than the first column


def test_a_pipe_that_has_no_data_now_is_not_at_its_end():
    batch = ipc.RecordBatch.from_pydict({"x": [1, 2, 3]})
    data = batch.schema.serialize() + batch.serialize()
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, data[:-20])
    with open(read, "rb") as pipe, open(write, "wb"):
        done = subprocess.run([*COMMAND, "head", "-"], stdin=pipe, capture_output=True, text=True, env=environment())
    assert done.returncode == 3
    assert "has no data now" in done.stderr


EVIL = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compressed file, a stream, a damaged and a torn one."""
    folder = tmp_path_factory.mktemp("browse")
    rows = [{"id": i, EVIL: EVIL if i % 2 else None, "tags": ["new", EVIL][: i % 3], "n": 7} for i in range(2000)]
    kinds = {"id": int64(), EVIL: dictionary(int32(), utf8()), "tags": list_(utf8()), "n": int32()}
    table = ipc.Table.from_pylist(rows, ipc.schema(kinds))
    for name, codec in (("a.arrow", "zstd"), ("a.arrows", None)):
        stored(folder / name, table.to_batches(500), compression=codec)
    whole = bytearray((folder / "a.arrows").read_bytes())
    (folder / "torn.arrows").write_bytes(whole[: len(whole) * 3 // 4])
    at = whole.index((600).to_bytes(8, "little"))  # within the second batch; its list offsets are behind
    whole[at + 4000 : at + 12000] = b"\xff" * 8000
    (folder / "bad.arrows").write_bytes(whole)
    (folder / "torn.arrow").write_bytes((folder / "a.arrow").read_bytes()[:-100])
    return folder


def test_a_page_is_of_bounded_size_for_any_number_of_messages_and_columns(site, tmp_path):
    batch = ipc.RecordBatch.from_pydict({"x": [1, None]}, ipc.Schema([field("x", int32())]))
    many = stored(tmp_path / "many.arrow", [batch] * 10_000)
    # More than a page holds, if its first columns were there with all their text, or all columns with a part of it.
    wide = {f"column {i} " + "x" * 300: ["long text " * (300 if i < 40 else 12)] * 30 for i in range(1000)}
    for source in (site / "a.arrow", many, stored(tmp_path / "wide.arrows", wide), site / "torn.arrows"):
        page = tmp_path / "page.html"
        done = run("browse", source, "-o", page, "--force")
        assert (done.code, done.err) == (0, f"written: {page}\n")
        text = page.read_text()
        assert text.startswith("<!DOCTYPE html>")
        assert len(text) < 3_000_000
        assert source.name in text


def test_no_text_of_the_data_becomes_markup_and_no_code_may_run(site, tmp_path):
    run("browse", site / "a.arrow", "-o", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert EVIL[:-1] in unescape(text)
    assert not re.search(r"<(script|img|link|iframe|object|form)\b", text)
    assert not re.search(r"<[^>]*[^\w-](on|style|src)\w*\s*=", text)
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    for word in ("http:", "https:", "url("):  # nothing is loaded from elsewhere
        assert word not in text


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "torn.arrow", "torn.arrows"])
def test_the_layout_accounts_for_every_byte(site, name):
    found = run("browse", site / name, "--json").json

    def account(parts: list[dict[str, Any]], at: int) -> int:
        for part in parts:
            assert part["offset"] == at
            at += part["length"]
            assert not part["parts"] or account(part["parts"], part["offset"]) == at
        return at

    assert account(found["layout"]["parts"], 0) == found["size"] == (site / name).stat().st_size
    assert any(part["parts"] for part in found["layout"]["parts"]) == (name != "torn.arrow")
    assert (found["layout"]["error"] is not None) == name.startswith("torn")


def test_a_page_tells_rows_statistics_and_faults(site):
    found = run("browse", site / "a.arrow", "--json").json
    rows = found["rows"]
    assert (rows["total"], len(rows["rows"])) == (2000, 200)
    assert rows["rows"][0][:3] == [0, "0", None]
    assert rows["rows"][-1][:2] == [1999, "1999"]
    assert found["columns"][0] == ["id", "int64", True]
    assert found["statistics"]["rows"][0][:3] == ["-", "0", "1999"]
    assert found["check"]["verdict"] == "good"
    bad = run("browse", site / "bad.arrows", "--json").json
    assert bad["check"]["verdict"] == "bad"
    assert bad["check"]["damage"]
    torn = run("browse", site / "torn.arrow", "--json").json
    assert "cut short" in torn["error"]
    assert torn["rows"]["rows"][0][:2] == [0, "0"]


@pytest.mark.parametrize("command", ["check", "recover"])
def test_long_lines_are_broken_between_words(command: str, tmp_path: Path) -> None:
    ipc.write([{"x": [1, 2]}] * 3, path := tmp_path / "x.arrow")
    torn = bytearray(path.read_bytes()[:-200])
    offset = ipc.open_file(path).blocks[1][0]
    torn[offset + 8 : offset + 16] = b"\xff" * 8
    path.write_bytes(torn)
    found = run(command, path)
    piped, shown = found.out + found.err, on_terminal(command, path, columns=60, NO_COLOR="1").out
    assert max(map(len, shown.splitlines())) <= 60 or command == "check"
    assert shown.split() == piped.split()
    assert len(piped.splitlines()) < len(shown.splitlines())
    assert "--resync" in shown
    assert "recover()" not in shown + piped
    assert "resync=True" not in shown + piped


def test_a_page_breaks_no_number_and_no_time(tmp_path: Path) -> None:
    ipc.write({"a long name": [1.5], "t": [dt.datetime(2024, 1, 1)], "s": ["two words"]}, path := tmp_path / "x.arrow")
    assert run("browse", path, "-o", tmp_path / "x.html").code == 0
    page = (tmp_path / "x.html").read_text()
    assert "anywhere" not in page.split("th, td {")[1].split("</style>")[0]
    assert "th, .right, .whole { white-space: nowrap; }" in page
    assert "<td class=right>1.5<td class=whole>2024-01-01" in page
