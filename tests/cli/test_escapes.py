"""What drives a terminal or turns text around never leaves a command raw, wherever in the data it stands."""

import json
from pathlib import Path

import pytest
from helpers.arrays import stored
from helpers.terminal import on_terminal, run, run_binary

import arrowipc as ipc
from arrowipc.types import dictionary, field, int32, list_, map_, struct, timestamp, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

# Escape sequences in 7 and 8 bits, DEL, marks that turn text around or hide it, line ends of Unicode's.
HOSTILE = "a\x1b[31m\x07\x7f\x85\x9b2J\u200b\u202e\u2066\u2028\u2029\ufeff\U000e0041\U0001d173z"


def assert_harmless(*texts: str) -> None:
    for text in texts:
        assert not {c for c in text if not c.isprintable()} - {"\n"}, ascii(text)


def schema(name: str) -> ipc.Schema:
    """A schema that has the name wherever a schema takes text."""
    of_field = {name: name, "ARROW:extension:name": name, "ARROW:extension:metadata": name}
    return ipc.Schema(
        [
            field(name, utf8(), metadata=of_field),
            field("d", dictionary(int32(), utf8()), metadata={name: name}),
            field("n", struct([field(name, list_(struct([field(name, utf8())])))])),
            field("m", map_(utf8(), utf8())),
            field("t" + name, timestamp("us", name)),
        ],
        metadata={name: name},
    )


def rows(text: str) -> dict[str, object]:
    values = text, text, {HOSTILE: [{HOSTILE: text}]}, [(text, text)], 5
    return {name: [value] for name, value in zip(schema(HOSTILE).names, values, strict=True)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that say such things everywhere, under names that do, too."""
    made = tmp_path_factory.mktemp("hostile")
    for name, text in ((f"{HOSTILE}.arrow", HOSTILE), ("other.arrow", HOSTILE + "b")):
        with ipc.new_file(made / name, schema(HOSTILE), durable=False) as writer:
            writer.write_batch(ipc.RecordBatch.from_pydict(rows(text), schema(HOSTILE)), {HOSTILE: HOSTILE})
    whole = (made / f"{HOSTILE}.arrow").read_bytes()
    (made / f"torn{HOSTILE}.arrow").write_bytes(whole[: len(whole) * 3 // 4])
    (made / f"empty{HOSTILE}.arrow").touch()
    stored(made / "plain.arrow", {HOSTILE: [HOSTILE, "x,y"]})
    return made


COMMANDS = [
    ["schema", "{}"],
    ["head", "{}"],
    ["messages", "{}"],
    ["stat", "{}"],
    ["check", "{}"],
    ["check", "{torn}"],
    ["recover", "{torn}"],
    ["recover", "{torn}", "-o", "{new}.arrow"],
    ["diff", "{}", "{other}"],
    ["diff", "{}", "{plain}", "--metadata"],
    ["browse", "{}", "-o", "{new}.html"],
    ["browse", "{torn}", "-o", "{new}.html"],
    ["browse", "{}", "--json"],
    ["convert", "{}", "{new}.arrow"],
    ["cat", "{}", "{}", "-o", "{new}.arrow"],
    ["head", "{torn}"],
    ["head", "{missing}"],
    ["count", "{}"],
    ["count", "{empty}"],
    ["head", "{}", "-c", HOSTILE + "!"],
    ["convert", "{}", "{new}.csv"],
]


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: "-".join(words).replace(HOSTILE, ""))
def test_no_command_prints_what_drives_a_terminal(folder, tmp_path, command, more):
    names = {
        "other": folder / "other.arrow",
        "plain": folder / "plain.arrow",
        "torn": folder / f"torn{HOSTILE}.arrow",
        "missing": folder / f"missing{HOSTILE}.arrow",
        "empty": folder / f"empty{HOSTILE}.arrow",
        "new": tmp_path / f"new{HOSTILE}",
    }
    file = folder / f"{HOSTILE}.arrow"
    found = run(*[word.format(file, file, **names) for word in command], *more)
    assert_harmless(found.out, found.err)
    assert "This is a bug" not in found.err
    for page in tmp_path.glob("*.[sh][vt][gm]*"):
        assert_harmless(page.read_text())
    if more and found.code == 0 and "head" not in command and "messages" not in command and found.out:
        json.loads(found.out)


def test_json_means_what_it_meant(folder):
    (row,) = run("head", folder / f"{HOSTILE}.arrow", "--json").lines
    assert row[HOSTILE] == HOSTILE
    assert row["n"] == {HOSTILE: [{HOSTILE: HOSTILE}]}
    found = run("schema", folder / f"{HOSTILE}.arrow", "--json").json
    assert found["metadata"] == [{"key": HOSTILE, "value": HOSTILE}]
    assert found["fields"][0]["name"] == HOSTILE
    # What is readable stays so.
    stored(folder / "said.arrow", {"s": ["ein Wörtchen 語 🙂"]})
    assert '"ein Wörtchen 語 🙂"' in run("head", folder / "said.arrow", "--json").out


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_text_formats_are_escaped_on_a_terminal_and_exact_in_pipes(folder, kind):
    pytest.importorskip("pyarrow")
    shown = on_terminal("convert", folder / "plain.arrow", "-", "--to", kind)
    assert shown.code == 0
    assert_harmless(shown.out)
    piped = run_binary("convert", folder / "plain.arrow", "-", "--to", kind).stdout.decode()
    if kind == "csv":
        assert piped.count(HOSTILE) == 2
    else:
        assert_harmless(piped)
        assert [json.loads(line) for line in piped.split("\n")[:-1]] == [{HOSTILE: HOSTILE}, {HOSTILE: "x,y"}]


def test_tables_of_a_notebook_are_harmless(folder):
    """And texts: see test_names, test_repr."""
    with ipc.open(folder / f"{HOSTILE}.arrow") as reader:
        assert_harmless(*(thing._repr_html_() for thing in (reader.get_batch(0), reader.read_all())))
        assert_harmless(*map(repr, reader.get_batch(0).columns))
