"""`browse`: one page, in a real browser."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.terminal import run

import arrowipc as ipc
from arrowipc.types import dictionary, field, int32, int64, list_, utf8

pytest.importorskip("click")
pytest.importorskip("rich")

in_a_browser = pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser: chromium")
PICTURES = Path(__file__).resolve().parents[2] / "build/browse"
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


def embedded(page: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page.read_text(), re.DOTALL)
    assert found
    return json.loads(found[1])


# -- the page by itself --------------------------------------------------------------------------------------


def test_a_page_is_of_bounded_size_for_any_number_of_messages_and_columns(data, tmp_path):
    batch = ipc.RecordBatch.from_pydict({"x": [1, None]}, ipc.Schema([field("x", int32())]))
    with ipc.new_file(tmp_path / "many.arrow", batch.schema, durable=False) as writer:
        for _ in range(20_000):
            writer.write_batch(batch)
    names = [f"column {i} " + "x" * 300 for i in range(3000)]
    wide = ipc.Schema([field(name, utf8()) for name in names])
    with ipc.new_stream(tmp_path / "wide.arrows", wide, durable=False) as writer:
        writer.write({name: ["long text " * 30] * 100 for name in names})
    for source in (data / "a.arrow", tmp_path / "many.arrow", tmp_path / "wide.arrows", data / "torn.arrows"):
        page = tmp_path / "page.html"
        done = run("browse", source, "-o", page, "--force")
        assert (done.code, done.err) == (0, f"written: {page}\n")
        text = page.read_text()
        assert text.startswith("<!DOCTYPE html>")
        assert len(text) < 3_000_000
        assert "http:" not in text  # nothing is loaded from elsewhere
        assert "https:" not in text
        found = embedded(page)
        assert found["overview"]["name"] == source.name
        assert len(found["layout"]["pieces"]) <= 1004


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "torn.arrow", "torn.arrows"])
def test_the_layout_accounts_for_every_byte(data, name):
    found = run("browse", data / name, "--json").json
    pieces = found["layout"]["pieces"]
    at = 0
    for piece in pieces:
        assert piece["offset"] == at
        at += piece["length"]
    assert at == found["overview"]["size"] == (data / name).stat().st_size
    for message in found["message"].values():
        at = message["offset"]
        for part in message["parts"]:
            assert part["offset"] == at
            at += part["length"]
        assert at == message["offset"] + message["length"]
    assert ("error" in found["layout"] and found["layout"]["error"] is not None) == name.startswith("torn")


def test_a_page_tells_rows_statistics_and_faults(data):
    found = run("browse", data / "a.arrow", "--json").json
    first, last = found["rows"]
    assert (first["start"], first["total"], len(first["rows"])) == (0, 2000, 100)
    assert last["rows"][-1][0] == "1999"
    assert first["rows"][0][1] is None
    assert found["statistics"]["rows"][0][:5] == ["id", "int64", "-", "0", "1999"]
    assert found["faults"]["verdict"] == "good"
    bad = run("browse", data / "bad.arrows", "--json").json
    assert bad["faults"]["verdict"] == "bad"
    assert bad["faults"]["damage"]
    torn = run("browse", data / "torn.arrow", "--json").json
    assert torn["overview"]["error"]
    assert torn["rows"][0]["rows"][0][0] == "0"


# -- in a browser --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from cli.browser import browser

    pytest.importorskip("aiohttp")
    with browser(tmp_path_factory.mktemp("profile")) as found:
        found.send("Page.enable")
        yield found


def shows(page: Any, view: str) -> None:
    page.until(f"state.view === {view!r} && panel.children.length")


@in_a_browser
@pytest.mark.nosanitize
class TestInABrowser:
    @pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light")])
    def test_every_view_fits_and_nothing_of_the_data_runs(self, page, data, tmp_path, width, scheme):
        run("browse", data / "a.arrow", "-o", tmp_path / "a.html")
        page.look(width, 800, scheme)
        page.open((tmp_path / "a.html").as_uri())
        assert page.run("document.documentElement.dataset.theme") == scheme
        for number, view in enumerate(("Rows", "Columns", "Batches", "Layout", "Faults"), 1):
            page.press(str(number))
            shows(page, view)
            assert page.run("document.documentElement.scrollWidth - innerWidth") <= 0, view
            assert page.run("window.hit === undefined && document.querySelector('img') === null")
            page.picture(PICTURES / f"{view}-{width}-{scheme}.png")

    def test_the_policy_of_the_page_lets_no_other_code_run(self, page, data, tmp_path):
        run("browse", data / "a.arrow", "-o", tmp_path / "a.html")
        text = (tmp_path / "a.html").read_text()
        assert "</body>" in text
        (tmp_path / "a.html").write_text(text.replace("</body>", "<script>window.hit = 1</script></body>"))
        page.open((tmp_path / "a.html").as_uri())
        shows(page, "Rows")
        assert page.run("window.hit === undefined")

    def test_a_damaged_source_opens_at_its_faults(self, page, data, tmp_path):
        run("browse", data / "torn.arrow", "-o", tmp_path / "t.html")
        page.open((tmp_path / "t.html").as_uri())
        shows(page, "Faults")
        assert "cut short" in page.run("panel.innerText")
        page.press("1")
        shows(page, "Rows")
        assert page.run("panel.querySelector('tbody td').innerText") == "0"
