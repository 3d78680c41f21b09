"""The commands that print rows by their places: of files, streams, folders and pipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.in_process import run
from helpers.terminal import shell

import arrowipc as ipc
from arrowipc.types import bool_, date32, decimal128, dictionary, field, float64, int32, int64, struct, timestamp, utf8

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
    for name, begin, first in (
        ("a.arrow", ipc.new_file, 0),
        ("a.arrows", ipc.new_stream, 0),
        ("days/1.arrow", ipc.new_file, 0),
        ("days/2.arrow", ipc.new_file, 40),
    ):
        with begin(folder / name, SCHEMA, statistics=True) as writer:
            for start in range(first, first + 40, 10):
                writer.write(columns(start, 10))
    return folder


def ids(*arguments: object) -> list[int]:
    found = run(*arguments, "--json")
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
    assert ids("take", path, "--rows", "35, 7-9,-1,7") == [35, 7, 8, 9, count - 1, 7]
    chosen = ids("sample", path, "-n", 10, "--seed", 4)
    assert chosen == ids("sample", path, "-n", 10, "--seed", 4) == sorted(set(chosen))
    assert len(chosen) == 10
    assert ids("sample", path, "-n", 500) == list(range(count))


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows"])
@pytest.mark.parametrize("how", ["arrowipc {} - < {}", "cat {1} | arrowipc {0} -"], ids=["redirected", "piped"])
def test_rows_of_standard_input(data, name, how):
    def said(command: str, rest: str = "") -> str:
        found = shell(how.format(command, data / name) + f" {rest}")
        assert found.code == 0, found.err
        return found.out

    assert said("count") == "40\n"
    for command, options, expected in (
        ("head", "-n 2 --offset 11", ["word 11", "word 12"]),
        ("tail", "-n 2", ["word 38", "word 39"]),
        ("take", "--rows 5,-2", ["word 5", "word 38"]),
        ("sample", "-n 40", [f"word {i}" for i in range(40)]),
    ):
        lines = said(command, options + " -c word").splitlines()[2:]
        assert [line.strip() for line in lines] == expected


def test_a_table_of_taken_rows_and_of_none(data):
    found = run("take", data / "a.arrow", "--rows", "17-18", "-c", "word,id")
    assert found.out.split() == ["word", "id", "string", "int64", "word", "17", "17", "word", "18", "18"]
    assert run("head", data / "a.arrow", "-n", 0).code == 0
    assert run("tail", data / "a.arrow", "-n", 0).code == 0


def test_a_sample_says_how_to_get_it_again(data):
    found = run("sample", data / "a.arrow", "-n", 3, "--json")
    assert found.err.startswith("3 of 40 rows, --seed ")
    assert ids("sample", data / "a.arrow", "-n", 3, "--seed", found.err.split()[-1]) == [
        row["id"] for row in found.lines
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["take", "a.arrow"], "Missing option '--rows'"),
        (["take", "a.arrow", "--rows", "a"], "such as 5,17-20, found 'a'"),
        (["take", "a.arrow", "--rows", ""], "such as 5,17-20"),
        (["take", "a.arrow", "--rows", "40"], "row 40 is out of range: there are 40 rows, from 0"),
        (["take", "a.arrow", "--rows", "0-99999999999999"], "out of range"),
        (["take", "a.arrow", "--rows", "-41"], "row -41 is out of range"),
        (["take", "a.arrow", "--rows", "7-5"], "ends before it begins"),
        (["head", "a.arrow", "--offset", "-1"], "--offset"),
        (["head", "a.arrow", "--where", "id"], "expected such as 'x >= 3'"),
        (["head", "a.arrow", "--where", "nothing > 3"], "no column 'nothing'; there are id, word"),
        (["head", "a.arrow", "--where", "id > word"], "'id' is of type int64"),
        (["count", "-", "--where", "id > 3"], "give a path"),
    ],
    ids=lambda value: " ".join(value[2:]) if isinstance(value, list) else "",
)
def test_mistakes_are_explained(data, arguments, words):
    found = run(*[str(data / each) if each == "a.arrow" else each for each in arguments])
    assert (found.code, found.out) == (2, "")
    assert words in found.err
    assert len(found.err.splitlines()) <= 3


def test_a_folder_without_arrow_files_says_so(tmp_path):
    found = run("count", tmp_path)
    assert found.code in (1, 2, 3)
    assert str(tmp_path) in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize("name", SOURCES)
def test_conditions_leave_out_what_cannot_match_and_say_how_much(data, name):
    path, count = data / name, 80 if "days" in name else 40
    found = run("count", path, "--where", "id >= 12", "--where", "id < 25")
    assert found.out == "20\n"
    assert found.err.startswith(f"--where: {count - 20} of {count} rows left out")
    assert "20 left, which are not filtered one by one" in found.err
    assert ids("head", path, "-n", 3, "--where", "id = 25") == [20, 21, 22]
    assert ids("tail", path, "-n", 3, "--where", "id in 3,4") == [7, 8, 9]
    assert ids("head", path, "-n", 2, "--offset", 9, "--where", "word != 'x'", "--where", "id>9") == [19, 20]
    assert set(ids("sample", path, "-n", 30, "--where", "id = 5", "-c", "id")) == set(range(10))
    assert ids("head", path, "--where", "id is null") == []


def test_conditions_are_read_as_the_types_of_their_columns_say():
    import datetime
    from decimal import Decimal

    from arrowipc.cli.where import filters_of

    schema = ipc.Schema(
        [
            field("n", int32()),
            field("a b", float64()),
            field("t", timestamp("us")),
            field("day", date32()),
            field("zoned", timestamp("ns", "Europe/Oslo")),
            field("place", struct([field("a", struct([field("b", int32())]))])),
            field("ok", bool_()),
            field("fee", decimal128(5, 2)),
            field("kind", dictionary(int32(), utf8())),
            field("within", utf8()),
        ]
    )
    for text, expected in {
        "n>=3": ("n", ">=", 3),
        " n != -3 ": ("n", "!=", -3),
        "n == 3": ("n", "==", 3),
        '"a b" < 1e3': ("a b", "<", 1000.0),
        "a b < 1": ("a b", "<", 1.0),
        "t>=2024-01-01": ("t", ">=", datetime.datetime(2024, 1, 1)),
        "zoned < 2024-01-01": ("zoned", "<", datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        "place.a.b > 3": ("place.a.b", ">", 3),
        "t <= 2024-01-01T10:30": ("t", "<=", datetime.datetime(2024, 1, 1, 10, 30)),
        "day = 2024-02-29": ("day", "==", datetime.date(2024, 2, 29)),
        "ok = TRUE": ("ok", "==", True),
        "fee > 1.25": ("fee", ">", Decimal("1.25")),
        "kind in a, 'b c' ,\"d,e\"": ("kind", "in", ["a", "b c", "d,e"]),
        "kind IN (x)": ("kind", "in", ["x"]),
        "kind not in x,y": ("kind", "not in", ["x", "y"]),
        "within = x>=y": ("within", "==", "x>=y"),
        "within in within": ("within", "in", ["within"]),
        "n is null": ("n", "is_null"),
        '"a b" IS NOT NULL': ("a b", "is_not_null"),
        "kind = ' x '": ("kind", "==", " x "),
    }.items():
        assert filters_of([text], schema) == [expected], text
