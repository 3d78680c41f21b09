"""What a notebook shows, in a real browser, beside what polars and pandas show of the same rows.

The pictures are kept in ``build/notebook`` where there is a checkout: for people to look at.
"""

from __future__ import annotations

import datetime
import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import arrowipc as ipc

pl = pytest.importorskip("polars")
pytest.importorskip("pandas")

pytestmark = [
    pytest.mark.nosanitize,  # the browser's own allocator
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser: chromium"),
]

PICTURES = Path(__file__).resolve().parents[2] / "build/notebook"
#: Background and text as notebooks have them.
SCHEMES = {"light": ("#ffffff", "#222222"), "dark": ("#131416", "#dddddd")}
WIDTHS = (400, 1280, 1920)

PAGE = """<!doctype html><html lang=en><meta charset=utf-8><title>notebook</title>
<style>body{{font:13px sans-serif;margin:20px;background:{0};color:{1}}}
main{{display:flex;gap:3em;align-items:start}}section{{min-width:0}}</style><main>{2}</main>"""

TAGS = {"BR", "DIV", "I", "P", "STYLE", "TABLE", "TBODY", "TD", "TH", "THEAD", "TR"}

#: Leaves what the page looks like in its title, as JSON.
LOOK = """<script>
const rgba = text => (text.match(/[\\d.]+/g) || [0, 0, 0, 0]).map(Number);
const light = c => [0.2126, 0.7152, 0.0722].reduce((sum, part, i) =>
    sum + part * (c[i] / 255 <= 0.04045 ? c[i] / 255 / 12.92 : ((c[i] / 255 + 0.055) / 1.055) ** 2.4), 0);
const ground = rgba(getComputedStyle(document.body).backgroundColor);
function contrast(element) {
    const ink = rgba(getComputedStyle(element).color);
    let solid = 1;
    for (let each = element; each; each = each.parentElement) solid *= getComputedStyle(each).opacity;
    const seen = ground.slice(0, 3).map((under, i) => under + (ink[i] - under) * solid);
    const [low, high] = [light(seen), light(ground)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}
const found = {hit: window.hit || null, wide: document.documentElement.scrollWidth - innerWidth, sections: {}};
for (const section of document.querySelectorAll("section")) {
    const cells = [...section.querySelectorAll("td, th, p")];
    found.sections[section.id] = {
        tags: [...new Set([...section.querySelectorAll("*")].map(each => each.tagName))].sort(),
        rows: [...section.querySelectorAll("tbody tr")].map(
            tr => [...tr.querySelectorAll("td")].map(td => td.innerText)),
        height: section.querySelector("table").getBoundingClientRect().height,
        contrast: Math.min(...cells.filter(each => each.innerText).map(contrast)),
        bars: [...section.querySelectorAll("td.s")].map(td => parseFloat(getComputedStyle(td).backgroundSize)),
        text: section.innerText,
    };
}
document.title = JSON.stringify(found);
</script>"""


def looked_at(shown: dict[str, str], scheme: str, width: int, folder: Path, picture: str = "") -> Any:
    """Show some HTML side by side in a browser; return what it found."""
    sections = "".join([f"<section id={name}>{html}</section>" for name, html in shown.items()])
    page = folder / "page.html"
    page.write_text(PAGE.format(*SCHEMES[scheme], sections) + LOOK)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]
    command += [f"--window-size={width},600", "--hide-scrollbars"]
    dumped = [*command, "--dump-dom", page.as_uri()]
    done = subprocess.run(dumped, capture_output=True, text=True, timeout=120, check=True)
    title = re.search("<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, done.stdout[:300]
    if picture:
        PICTURES.mkdir(parents=True, exist_ok=True)
        taken = [*command, f"--screenshot={PICTURES / picture}.png", page.as_uri()]
        subprocess.run(taken, capture_output=True, timeout=120, check=True)
        assert (PICTURES / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    return json.loads(unescape(title[1]))


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    numbers = range(3000)
    begin = datetime.datetime(2024, 1, 1)
    frame = pl.DataFrame(
        {
            "id": list(numbers),
            "city": [("Oslo", "Rome", None)[i % 3] for i in numbers],
            "price": [None if i % 7 == 0 else i / 2 for i in numbers],
            "when": [begin + datetime.timedelta(hours=i) for i in numbers],
            "tags": [["new", "sale"][: i % 3] for i in numbers],
        }
    )
    batches = [ipc.RecordBatch.from_arrow(part) for part in frame.iter_slices(1000)]
    table = ipc.Table.from_batches(batches)
    pandas = frame.to_pandas()
    return {"arrowipc": table._repr_html_(), "polars": frame._repr_html_(), "pandas": pandas._repr_html_()}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
def test_as_good_as_polars_and_pandas(shown, scheme, tmp_path):
    found = looked_at(shown, scheme, 1920, tmp_path, f"side-by-side-{scheme}")["sections"]
    ours, polars, pandas = found["arrowipc"], found["polars"], found["pandas"]

    # The same rows of both ends, a line for what is between them, and nothing twice.
    def values(rows):
        return [[text.strip('"') for text in row] for row in rows if "2990" not in row[0] and "…" not in row[0]]

    assert values(row for row in ours["rows"] if len(row) == 5) == values(polars["rows"])
    assert len(ours["rows"]) == len(pandas["rows"]) == 11
    # What only one of them says, ours says: types, row numbers, nulls, sizes, how many rows are left out.
    for said in ("int64", "1,000 null", "429 null", "kB", "2,999", "2,990 more rows", "in 3 batches"):
        assert said in ours["text"]
    assert max(ours["bars"]) == pytest.approx(4 * 13 * 0.85, abs=1)
    assert ours["contrast"] >= 4.5
    assert ours["height"] <= 1.3 * max(polars["height"], pandas["height"])


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_becomes_wider_by_it(shown, width, tmp_path):
    wide = ipc.RecordBatch.from_pydict({f"column number {i}": ["x" * 100] for i in range(100)})
    both = {"arrowipc": shown["arrowipc"] + wide._repr_html_()}
    assert looked_at(both, "light", width, tmp_path, f"{width}")["wide"] <= 0


@pytest.mark.slow
def test_a_browser_runs_nothing_of_the_data(tmp_path):
    evil = (
        "</style></td></table></script><script>window.hit=1</script><img src=x onerror='window.hit=2'>\"' style=x&lt;"
    )
    field = ipc.types.field(evil, ipc.types.utf8(), True, {evil: evil})
    nested = ipc.types.field(evil * 2, ipc.types.struct([(evil, ipc.types.utf8())]))
    kind = ipc.types.dictionary(ipc.types.int8(), ipc.types.utf8())
    schema = ipc.types.schema([field, nested, (evil * 3, kind)], {evil: evil})
    batch = ipc.RecordBatch.from_pydict(
        {evil: [evil] * 30, evil * 2: [{evil: evil}] * 30, evil * 3: [evil] * 30}, schema
    )
    things = [batch, ipc.Table.from_batches([batch]), batch[0], batch[1], batch[2], schema]
    html = "".join([each._repr_html_() for each in things])
    found = looked_at({"evil": html}, "light", 1280, tmp_path)
    assert found["hit"] is None
    assert set(found["sections"]["evil"]["tags"]) <= TAGS
    assert "<script>window.hit=1</script>" in found["sections"]["evil"]["text"]
