"""Nothing is overwritten by surprise: what commands write, and what they refuse to."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow.csv as csv
import pytest
from helpers.terminal import run, shell

import arrowipc as ipc

pytest.importorskip("click")
pytest.importorskip("rich")

ROWS = {"id": list(range(20)), "word": [f"word {i % 3}" for i in range(20)]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, begin in (("a.arrow", ipc.new_file), ("a.arrows", ipc.new_stream)):
        with begin(tmp_path / name, ipc.RecordBatch.from_pydict(ROWS)) as writer:
            writer.write(ROWS)
    return tmp_path


WRITERS = (
    ["convert", "{source}", "{target}"],
    ["cat", "{source}", "-o", "{target}"],
    ["recover", "{source}", "-o", "{target}"],
    ["head", "{source}", "--take", "0-19", "-o", "{target}"],
    ["head", "{source}", "-n", "20", "-o", "{target}"],
)


@pytest.mark.parametrize("command", WRITERS, ids=lambda words: words[0])
class TestEveryCommandThatWrites:
    def said(self, command: list[str], source: Path, target: Path, *options: str) -> tuple[int, str]:
        done = run(*[word.format(source=source, target=target) for word in command], *options)
        return done.code, done.err

    def test_keeps_what_is_there_unless_it_is_forced(self, data, command):
        target = data / "b.arrow"
        target.write_bytes(b"mine")
        code, words = self.said(command, data / "a.arrow", target)
        assert (code, target.read_bytes()) == (2, b"mine")
        assert f"{target} exists; use --force to overwrite" in words
        assert self.said(command, data / "a.arrow", target, "--force")[0] == 0
        assert ipc.open(target).read_all().to_pydict() == ROWS

    def test_does_not_guess_the_format_of_a_name_that_it_does_not_know(self, data, command):
        for name in ("notes.txt", "out.json", "out.xlsx", "out.parq", "out"):
            code, words = self.said(command, data / "a.arrow", data / name)
            assert code == 2
            assert "unknown format; use --to FORMAT" in words
            assert not (data / name).exists()
        assert self.said(command, data / "a.arrow", data / "out", "--to", "stream")[0] == 0
        assert ipc.open_stream(data / "out").read_all().to_pydict() == ROWS

    def test_never_writes_over_its_own_source_also_by_a_link(self, data, command):
        source = data / "a.arrow"
        before = source.read_bytes()
        (data / "soft.arrow").symlink_to(source)
        os.link(source, data / "hard.arrow")
        for name in ("a.arrow", "soft.arrow", "hard.arrow", "../" + data.name + "/a.arrow"):
            code, words = self.said(command, source, data / name, "--force")
            assert code == 2
            assert "is the source itself" in words
            assert source.read_bytes() == before

    def test_replaces_no_link_that_leads_nowhere(self, data, command):
        (data / "b.arrow").symlink_to(data / "nothing")
        assert self.said(command, data / "a.arrow", data / "b.arrow")[0] == 2

    def test_writes_devices_and_refuses_folders(self, data, command):
        assert self.said(command, data / "a.arrow", Path("/dev/null"), "--to", "stream")[0] == 0
        code, words = self.said(command, data / "a.arrow", data, "--to", "stream", "--force")
        assert code == 3
        assert "directory" in words


def test_redirections_do_not_destroy_a_source_either(data):
    before = (data / "a.arrows").read_bytes()
    for script in ("arrowipc cat {0} >> {0}", "arrowipc convert - {0} --force < {0}", "arrowipc cat - >> {0} < {0}"):
        done = shell(script.format(data / "a.arrows"))
        assert done.code == 2, script
        assert "is the source itself" in done.err
        assert (data / "a.arrows").read_bytes() == before


def test_a_url_is_a_target_like_another(data):
    pytest.importorskip("fsspec")
    target = data / "b.arrow"
    assert run("convert", data / "a.arrow", target.as_uri()).code == 0
    refused = run("convert", data / "a.arrow", target.as_uri())
    assert (refused.code, "exists; use --force" in refused.err) == (2, True)
    assert run("convert", data / "a.arrow", "memory://x/b.arrow").code == 0
    assert "exists; use --force" in run("convert", data / "a.arrow", "memory://x/b.arrow").err
    assert "source itself" in run("convert", "memory://x/b.arrow", "memory://x/b.arrow", "--force").err


def test_what_appears_while_a_command_writes_is_not_overwritten(tmp_path):
    """Both stay, also where --force allowed to overwrite what was there before."""
    batch = ipc.RecordBatch.from_pydict(ROWS)
    first = len(batch.schema.serialize() + batch.serialize())
    with ipc.new_stream(tmp_path / "a.arrows", batch.schema) as writer:
        writer.write([batch, batch])
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
        assert ids(kept) == ROWS["id"] * 2
