"""`browse`: one page of plain HTML."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from helpers.terminal import run

import arrowipc as ipc
from arrowipc.types import dictionary, field, int32, int64, list_, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

EVIL = "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>\u202e"
SCHEMA = ipc.Schema(
    [field("id", int64()), field(EVIL, dictionary(int32(), utf8())), field("tags", list_(utf8())), field("n", int32())]
)


def columns(start: int, count: int) -> dict[str, list[Any]]:
    numbers = range(start, start + count)
    tags = [["new", EVIL][: i % 3] for i in numbers]
    return {"id": list(numbers), EVIL: [EVIL if i % 2 else None for i in numbers], "tags": tags, "n": [7] * count}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compressed file, a stream, a damaged and a torn one."""
    folder = tmp_path_factory.mktemp("browse")
    for name, begin, codec in (("a.arrow", ipc.new_file, "zstd"), ("a.arrows", ipc.new_stream, None)):
        with begin(folder / name, SCHEMA, compression=codec) as writer:
            for start in range(0, 2000, 500):
                writer.write(columns(start, 500))
    whole = bytearray((folder / "a.arrows").read_bytes())
    (folder / "torn.arrows").write_bytes(whole[: len(whole) * 3 // 4])
    at = whole.index((600).to_bytes(8, "little"))  # within the second batch; its list offsets are behind
    whole[at + 4000 : at + 12000] = b"\xff" * 8000
    (folder / "bad.arrows").write_bytes(whole)
    (folder / "torn.arrow").write_bytes((folder / "a.arrow").read_bytes()[:-100])
    return folder


class Page(HTMLParser):
    """What a browser sees: elements, their attributes, and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.text = set[str](), set[str](), ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_page_is_of_bounded_size_for_any_number_of_messages_and_columns(data, tmp_path):
    batch = ipc.RecordBatch.from_pydict({"x": [1, None]}, ipc.Schema([field("x", int32())]))
    with ipc.new_file(tmp_path / "many.arrow", batch.schema, durable=False) as writer:
        for _ in range(20_000):
            writer.write_batch(batch)
    names = [f"column {i} " + "x" * 300 for i in range(3000)]
    wide = ipc.Schema([field(name, utf8()) for name in names])
    with ipc.new_stream(tmp_path / "wide.arrows", wide, durable=False) as writer:
        writer.write({name: ["long text " * 30] * 200 for name in names})
    for source in (data / "a.arrow", tmp_path / "many.arrow", tmp_path / "wide.arrows", data / "torn.arrows"):
        page = tmp_path / "page.html"
        done = run("browse", source, "-o", page, "--force")
        assert (done.code, done.err) == (0, f"written: {page}\n")
        text = page.read_text()
        assert text.startswith("<!DOCTYPE html>")
        assert len(text) < 3_000_000
        assert source.name in Page(text).text


def test_no_text_of_the_data_becomes_markup_and_no_code_may_run(data, tmp_path):
    run("browse", data / "a.arrow", "-o", tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    found = Page(text)
    assert EVIL[:-1] in found.text
    assert not found.tags & {"script", "img", "link", "iframe", "object", "form"}
    assert not {name for name in found.attributes if name.startswith(("on", "style", "src"))}
    assert "default-src 'none'; style-src 'unsafe-inline'" in text
    for word in ("http:", "https:", "url("):  # nothing is loaded from elsewhere
        assert word not in text


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "torn.arrow", "torn.arrows"])
def test_the_layout_accounts_for_every_byte(data, name):
    found = run("browse", data / name, "--json").json

    def account(parts: list[dict[str, Any]], at: int) -> int:
        for part in parts:
            assert part["offset"] == at
            at += part["length"]
            assert not part["parts"] or account(part["parts"], part["offset"]) == at
        return at

    assert account(found["layout"]["parts"], 0) == found["size"] == (data / name).stat().st_size
    assert any(part["parts"] for part in found["layout"]["parts"]) == (name != "torn.arrow")
    assert (found["layout"]["error"] is not None) == name.startswith("torn")


def test_a_page_tells_rows_statistics_and_faults(data):
    found = run("browse", data / "a.arrow", "--json").json
    rows = found["rows"]
    assert (rows["total"], len(rows["rows"])) == (2000, 200)
    assert rows["rows"][0][:3] == [0, "0", None]
    assert rows["rows"][-1][:2] == [1999, "1999"]
    assert found["columns"][0] == ["id", "int64", True]
    assert found["statistics"]["rows"][0][:3] == ["-", "0", "1999"]
    assert found["check"]["verdict"] == "good"
    bad = run("browse", data / "bad.arrows", "--json").json
    assert bad["check"]["verdict"] == "bad"
    assert bad["check"]["damage"]
    torn = run("browse", data / "torn.arrow", "--json").json
    assert "cut short" in torn["error"]
    assert torn["rows"]["rows"][0][:2] == [0, "0"]
