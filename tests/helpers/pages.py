"""The code blocks of a Markdown page, the files that they find in their folder, and what they print."""

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_FENCE = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One block: its language, the words after it, the reason to skip it, its code, its expected output, its line."""

    language: str
    words: frozenset[str]
    skip: str | None
    code: str
    output: str | None
    line: int


def same(expected: str, printed: str) -> bool:
    """Compare as doctest does: ... stands for any text, and white space may have any width."""
    return doctest.OutputChecker().check_output(expected, printed, OPTIONS)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> Iterator[Block]:
    """Yield the blocks of one language; a block of ``text`` right after one is its expected output."""
    text = page.read_text()
    found = list(_FENCE.finditer(text))
    for i, match in enumerate(found):
        if match[1] != language:
            continue
        options = shlex.split(match[2])
        skip = next((each.removeprefix("skip=") for each in options if each.startswith("skip=")), None)
        follows = found[i + 1] if i + 1 < len(found) else None
        shown = follows is not None and follows[1] == "text" and not text[match.end() : follows.start()].strip()
        yield Block(
            language,
            frozenset(options),
            skip,
            match[3],
            follows[3] if follows is not None and shown else None,
            text.count("\n", 0, match.start()) + 2,
        )


def lay_files(folder: Path) -> None:
    """Make the files that pages name (prices.arrow, torn.arrow ...), by the code that the quickstart shows."""
    page = ROOT / "docs/quickstart.md"
    (block,) = (each for each in blocks(page, "python") if "files" in each.words)
    with contextlib.chdir(folder):
        run(page, block, {})


def run(page: Path, block: Block, namespace: dict[str, Any]) -> str:
    """Run one block, with the page's own line numbers in tracebacks, and return what it printed."""
    code = compile("\n" * (block.line - 1) + block.code, name_of(page), "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()
