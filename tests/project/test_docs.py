"""Every block of Python and of the command line in README and docs/ runs and prints what the page shows."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import pages

import arrowipc as ipc

#: What type checkers say of correct programs: pyarrow has no types, and makes its functions when it is imported.
OTHERS = re.compile(r'import-untyped|"pyarrow.compute"')
#: torch's types know data sets only of torch's own class, and not what `default_convert` returns.
TORCH = {"docs_guides_training.py", "train_on_rows.py"}


def with_blocks(language: str, spark: bool = False) -> list[Path]:
    return [
        page
        for page in pages.PAGES
        if any(("spark" in b.words) == spark and b.skip is None for b in pages.blocks(page, language))
    ]


@pytest.mark.parametrize("page", with_blocks("python"), ids=pages.name_of)
def test_python_blocks_run_as_printed(page, tmp_path, monkeypatch):
    """Each page alone, from an empty folder: nobody has run the others before."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in pages.blocks(page, "python"):
        if block.skip is None and "spark" not in block.words:
            printed = pages.run(page, block, namespace)
            assert block.output is None or pages.same(block.output, printed), f"line {block.line}:\n{printed}"


def as_process(line: str) -> list[str]:
    """The words of a command, whose programs are those of this interpreter."""
    program, *words = shlex.split(line)
    return {"python": [sys.executable], "arrowipc": [sys.executable, "-m", "arrowipc"]}[program] + words


@pytest.mark.parametrize("page", with_blocks("console"), ids=pages.name_of)
def test_commands_run(page, tmp_path):
    pytest.importorskip("arrowipc.cli")
    pages.lay_files(tmp_path)
    for block in pages.blocks(page, "console"):
        for line in re.findall(r"^\$ ([^\n#]*)", block.code, re.MULTILINE):
            if block.skip is None and not line.startswith(("pip install", "export ")):
                done = subprocess.run(as_process(line), cwd=tmp_path, capture_output=True, text=True, timeout=60)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def lay_programs(folder: Path) -> None:
    """Each page's blocks as one program with the page's line numbers, and the examples."""
    for page in pages.PAGES:
        code = "from pyspark.sql import SparkSession; spark = SparkSession.builder.getOrCreate()\n"
        found = [block for block in pages.blocks(page, "python") if block.skip is None]
        for block in found:
            code += "\n" * (block.line - 1 - code.count("\n")) + block.code
        if found:
            name = re.sub(r"\W", "_", pages.name_of(page).removesuffix(".md"))
            (folder / f"{name}.py").write_text(code)
    for example in (pages.ROOT / "examples").glob("*.py"):
        (folder / example.name).write_text(example.read_text())
    for name in TORCH:
        (folder / name).unlink()


@pytest.mark.nosanitize  # only reads sources
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        # A page is many programs: a name may have another type in the next block.
        pytest.param("mypy", ["--strict", "--allow-redefinition", "--cache-dir", ".cache"], marks=pytest.mark.slow),
        ("pyright", []),
    ],
)
def test_pages_and_examples_pass_type_checkers_as_printed(tool, arguments, tmp_path):
    pytest.importorskip(tool)
    lay_programs(tmp_path)
    (home,) = {str(Path(path).parent) for path in ipc.__path__}
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if "site-packages" not in home:
        environment["MYPYPATH"] = home
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [home], "reportMissingModuleSource": False}))
    command = [sys.executable, "-m", tool, *arguments, *(["--pythonpath", sys.executable] if tool == "pyright" else [])]
    done = subprocess.run(
        [*command, *(sorted(path.name for path in tmp_path.glob("*.py")))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    names = "|".join(path.name for path in tmp_path.glob("*.py"))
    errors = re.findall(rf"^\s*(?:\S*/)?(?:{names}):\d+.*error: .*$", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1), done.stderr
    assert re.search(r"checked|\d errors?", done.stdout), done.stdout
    assert not [line for line in errors if not OTHERS.search(line)], "\n".join(errors)


def test_the_reference_has_every_public_name():
    import arrowipc.dissociated

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
    from arrowipc.dissociated.protocol import Reason

    stated = ", ".join(f"{each.value} {each.name}" for each in Reason)
    assert stated in (pages.ROOT / "docs/guides/dissociated-peers.md").read_text()


def test_links_between_pages_lead_somewhere():
    for page in pages.PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{pages.name_of(page)} links to {target}"


def test_the_readme_is_short_and_its_links_work_on_a_package_index():
    text = (pages.ROOT / "README.md").read_text()
    assert len(re.sub(r"<!-- speed:begin.*speed:end -->", "", text, flags=re.S).split()) <= 900
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert all(each.startswith("https://") for each in targets)
    own = [re.sub(r"#.*", "", each) for each in targets if "arrowipc" in each]
    for each in own:
        path = re.sub(
            r"^https://(github\.com/(\w+/){2}(blob|tree)|raw\.githubusercontent\.com/\w+/\w+)/main/", "", each
        )
        assert (pages.ROOT / path).exists(), each
    assert len(re.findall(r"!\[[^\]]+\]\(", text)) == 2
