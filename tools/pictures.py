"""Take the pictures of the documentation again: the layout of a file and a table in a notebook, light and dark.

    pip install playwright
    PYTHONPATH=. python tools/pictures.py [CHROMIUM]

It needs the `[cli]` extra, and a Chromium: the one of `playwright install chromium`, or the named program.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import arrowipc as ipc

TARGET = Path(__file__).resolve().parents[1] / "docs/_static/pictures"
SCHEMES = ("light", "dark")
#: The page that a notebook puts around the HTML of a value.
NOTEBOOK = """<!doctype html><meta name="color-scheme" content="light dark"><title>notebook</title>
<style>body {{ font: 14px system-ui, sans-serif; margin: 24px; width: fit-content;
background: light-dark(#fff, #131416); color: light-dark(#222, #ddd) }}</style>{}"""


def trips(path: Path) -> None:
    """Write the file that the pictures show."""
    with ipc.new_file(path, durable=False) as writer:
        for start in range(0, 3000, 1000):
            ids = range(start, start + 1000)
            writer.write(
                {
                    "id": list(ids),
                    "city": [("Oslo", "Rome", None)[i % 3] for i in ids],
                    "price": [None if i % 7 == 0 else i / 2 for i in ids],
                    "tags": [["new", "sale"][: i % 3] for i in ids],
                }
            )


def page_of_layout(folder: Path) -> Path:
    page = folder / "layout.html"
    command = [sys.executable, "-P", "-m", "arrowipc", "browse", str(folder / "trips.arrow"), "-o", str(page)]
    subprocess.run(command, check=True)
    # Only the layout, with the parts of the first batch.
    text = page.read_text()
    head, _, rest = text.partition('<h2 id="Rows">')
    layout = "<h2" + rest.partition('<h2 id="Layout"')[2].partition("<h2")[0]
    page.write_text(head + layout.replace("<details><summary>message 1", "<details open><summary>message 1"))
    return page


def page_of_notebook(folder: Path) -> Path:
    page = folder / "notebook.html"
    table = ipc.open(folder / "trips.arrow").read_all()
    page.write_text(NOTEBOOK.format(table._repr_html_()))
    return page


def take(browser: Browser, page: Path, name: str, width: int, height: int) -> None:
    """Take one picture of a page per colour scheme."""
    for scheme in SCHEMES:
        view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        view.goto(page.as_uri())
        view.wait_for_timeout(300)
        view.screenshot(path=TARGET / f"{name}-{scheme}.png")
        view.close()


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        trips(folder / "trips.arrow")
        path = sys.argv[1] if len(sys.argv) > 1 else None
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        take(browser, page_of_layout(folder), "layout", 1280, 960)
        take(browser, page_of_notebook(folder), "notebook", 720, 380)
        browser.close()


if __name__ == "__main__":
    main()
