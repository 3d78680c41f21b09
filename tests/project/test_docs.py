"""Every block of Python and of the command line in README and docs/, and each example, runs and prints what it says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import pages, terminal

import arrowipc
import arrowipc.dissociated
from arrowipc.dissociated.protocol import Reason


def with_blocks(language: str) -> list[Path]:
    return [
        page
        for page in pages.PAGES
        if any("spark" not in block.words and block.skip is None for block in pages.blocks(page, language))
    ]


def needs_torch(path: Path) -> None:
    """Skip without it: only `make nightly` installs it."""
    if "from torch" in path.read_text():
        pytest.importorskip("torch")


@pytest.mark.parametrize("page", with_blocks("python"), ids=pages.name_of)
def test_python_blocks_run_as_printed(page, tmp_path, monkeypatch):
    """Each page alone, from an empty folder: nobody has run the others before."""
    needs_torch(page)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in pages.blocks(page, "python"):
        if block.skip is None and "spark" not in block.words:
            printed = pages.run(page, block, namespace)
            assert block.output is None or pages.same(block.output, printed), f"line {block.line}:\n{printed}"


@pytest.mark.parametrize("page", with_blocks("console"), ids=pages.name_of)
def test_commands_run(page, tmp_path, monkeypatch):
    pytest.importorskip("click")
    pytest.importorskip("rich")
    monkeypatch.chdir(tmp_path)
    pages.lay_files(tmp_path)
    for block in pages.blocks(page, "console"):
        for line in re.findall(r"^\$ ([^\n#]*)", block.code, re.MULTILINE):
            if block.skip is None and not line.startswith(("pip install", "export ")):
                program, *words = shlex.split(line)
                assert program == "arrowipc"
                done = terminal.run(*words)
                assert done.code == 0, f"{line}\n{done}"


def test_the_reference_has_every_public_name():
    text = "".join(page.read_text() for page in (pages.ROOT / "docs/reference").glob("*.md"))
    listed = set(re.findall(r"^\.\. auto\w+:: (\S+)", text, re.MULTILINE))
    spark = re.findall(
        r'^    "(\w+)": "\w+",$', Path(arrowipc.__path__[0], "spark/__init__.py").read_text(), re.MULTILINE
    )
    public = {f"arrowipc.{name}" for name in arrowipc.__all__ if name != "__version__"}
    public |= {f"arrowipc.dissociated.{name}" for name in arrowipc.dissociated.__all__}
    public |= {f"arrowipc.spark.{name}" for name in spark}
    assert public <= listed, sorted(public - listed)


def test_the_reasons_of_dissociated_ipc_are_those_of_the_page():
    stated = ", ".join(f"{each.value} {each.name}" for each in Reason)
    assert stated in (pages.ROOT / "docs/guides/dissociated-peers.md").read_text()


def test_links_between_pages_lead_somewhere():
    for page in pages.PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{pages.name_of(page)} links to {target}"


def test_the_links_of_the_readme_to_our_files_are_relative():
    """So they work in every copy of the repository; the build makes them absolute (test_packaging.py)."""
    assert "arrowipc/arrowipc" not in (pages.ROOT / "README.md").read_text()


# The scripts of examples/ run as processes of their own, and print what they promise.

EXAMPLES = pages.ROOT / "examples"
PRINTS = {
    "dissociated_table": ("1000000 rows, the highest price is 9999.99",),
    "tensors_in_shared_memory": ("reader: (4, 48, 64) ('frame', 'y', 'x')",),
    "train_on_rows": ("10000 rows, one of them: (3,) float32", "weights: [2.0, -1.0, 0.5]"),
    "service_without_pyarrow": ("'fahrenheit': [32.0, 212.0]", "pyarrow was loaded: False"),
}


# PyTorch alone takes ten seconds to import, in each of the example's processes.
@pytest.mark.parametrize(
    "name",
    [*(name for name in PRINTS if name != "train_on_rows"), pytest.param("train_on_rows", marks=pytest.mark.slow)],
)
def test_what_an_example_prints(name, tmp_path):
    needs_torch(EXAMPLES / f"{name}.py")
    command = [sys.executable, "-W", "error", EXAMPLES / f"{name}.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    for words in PRINTS[name]:
        assert words in done.stdout


def test_every_example_is_tried():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTS)
