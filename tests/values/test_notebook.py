"""What a notebook shows, in a real browser: nothing of the data is run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

import arrowipc as ipc

pytestmark = [
    pytest.mark.nosanitize,  # the browser's own allocator
    pytest.mark.skipif(shutil.which("chromium") is None, reason="needs a browser: chromium"),
]

TAGS = {"BR", "DIV", "I", "P", "STYLE", "TABLE", "TBODY", "TD", "TH", "THEAD", "TR"}

#: Leaves in the title, as JSON, what the page was made to do and what it shows.
LOOK = """<script>
const section = document.querySelector("section");
const tags = [...new Set([...section.querySelectorAll("*")].map(each => each.tagName))];
document.title = JSON.stringify({hit: window.hit || null, tags: tags, text: section.innerText});
</script>"""


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
    html = "".join([each._repr_html_() for each in (batch, ipc.Table.from_batches([batch]))])
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8><title></title><section>{html}</section>{LOOK}")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    title = re.search("<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, done.stdout[:300]
    found = json.loads(unescape(title[1]))
    assert found["hit"] is None
    assert set(found["tags"]) <= TAGS
    assert "<script>window.hit=1</script>" in found["text"]
