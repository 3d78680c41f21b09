"""Writes results as Markdown: the speed table of the README, and all there is, in benchmarks/RESULTS.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import FAMILIES
from benchmarks.report import environment_line
from benchmarks.summary import HEADER, lines, per_unit, ratio, shown, timing

#: Where the README's part begins and ends.
BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"

#: The columns of the full tables besides pyarrow and arrowipc.
PEERS = ("nanoarrow", "polars", "arro3")

#: The family whose chart the README shows, and where pictures lie for pages outside of the repository.
FIRST, PICTURES = "reading", "https://raw.githubusercontent.com/arrowipc/arrowipc/main/"


def summary(found: dict[str, Any]) -> Iterator[str]:
    """Yield the speed table, why cases miss their goal, and what the numbers depend on."""
    table = list(lines(found["results"], found["skipped"]))
    yield from grid(HEADER, (line.cells() for line in table))
    yield ""
    missed = [f"* {line.row.words}: {line.reason}." for line in table if line.reason]
    if missed:
        yield from ("Why some worst cases miss the goal:", "", *missed, "")
    yield from measured_with(found)


def measured_with(found: dict[str, Any]) -> Iterator[str]:
    """Yield the versions and the machine of each run."""
    for run in found["runs"]:
        names = "" if len(found["runs"]) == 1 else f"{', '.join(run['questions'])}: "
        scale = "" if run["scale"] == "full" else f"; --{run['scale']}: fewer rounds and sizes"
        mark = "" if len(found["runs"]) == 1 else "* "
        yield f"{mark}{names}{environment_line(run['environment'])}{scale}."


def grid(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table."""
    names = list(header)
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for cells in rows:
        yield f"| {' | '.join(map(pretty, cells))} |"


def pretty(cell: str) -> str:
    """Return a cell as a table can hold it."""
    return cell.replace(">= ", "≥ ").replace("<= ", "≤ ").replace("|", "\\|").replace("MISSED", "missed")


def readme(found: dict[str, Any], charts: dict[str, str]) -> Iterator[str]:
    """Yield the README's part: the rows for its readers; `charts` are the addresses of pictures by family."""
    table = [line for line in lines(found["results"], found["skipped"]) if line.row.front]
    yield from grid(HEADER[:-2], (line.cells()[:-2] for line in table))
    run = found["runs"][0]["environment"]
    yield from ("", f"Measured with pyarrow {run['versions']['pyarrow']} on {run['cpu']}, {run['cores']} cores.")
    if FIRST in charts:
        yield from ("", picture(FIRST, PICTURES + charts[FIRST]))


def what(family: str) -> str:
    """Return what a chart shows, for those who cannot see it."""
    return f"{family}: {'peak memory' if family == 'memory' else 'time per unit'}, by library"


def picture(family: str, address: str) -> str:
    """Return the reference to a chart."""
    return f"![{what(family)}]({address})"


def placed(text: str, part: Iterable[str]) -> str:
    """Return a text with another part between the marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for the results: the text has no {BEGIN} ... {END}")
    return "\n".join((before + BEGIN, *part, END + after))


# -- all results -------------------------------------------------------------------------------------------


INTRODUCTION = (
    "`make charts` writes this page from what `make bench` measured. Figures are medians, with half the distance",
    'between the quartiles. "Times as fast" is the median ratio of neighbouring samples, compared with pyarrow or the',
    "contender that is named. The file of each question says what a contender does in the measured time.",
)


def everything(found: dict[str, Any], charts: dict[str, str]) -> Iterator[str]:
    """Yield the whole of benchmarks/RESULTS.md."""
    yield from ("# Results of the benchmarks", "", *INTRODUCTION, "")
    yield from summary(found)
    for family, questions in FAMILIES.items():
        results = [result for result in found["results"] if result["question"] in questions]
        if not results:
            continue
        yield from ("", f"## {family}")
        if family in charts:
            yield from ("", picture(family, charts[family]))
        for question in questions:
            cases = [result for result in results if result["question"] == question]
            if cases:
                yield from ("", f"### {cases[0]['title']}", "", f"`python -m benchmarks {question}`", "")
                yield from grid(FULL, map(case_cells, cases))


FULL = ("case", "pyarrow", "arrowipc", "times as fast", "touched", "goal", *PEERS, "others")


def case_cells(result: dict[str, Any]) -> Iterator[str]:
    """Yield the cells of one case below `FULL`."""
    ours = timing(result, result["ours"])
    baseline = result["baseline"]
    yield result["case"] + per_unit(result)
    yield spread(result, timing(result, "pyarrow"))
    yield spread(result, ours)
    yield ratio(ours) + ("" if baseline == "pyarrow" else f" {baseline}")
    touched = result["touched_per_unit"]
    yield f"{touched / ours['median'] / 1e9:.2f} GB/s" if touched and ours["median"] else ""
    yield ", ".join(filter(None, (result["goal"], result["verdict"])))
    for name in PEERS:
        yield spread(result, timing(result, name))
    known = ("pyarrow", result["ours"], *PEERS)
    others = [each for each in result["timings"] if each["contender"] not in known]
    yield ", ".join(f"{each['contender']} {spread(result, each)}" for each in others)


def spread(result: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return a median, and half the distance of the quartiles where there is one."""
    if measured.get("problem"):
        return "cannot"
    low, high = measured.get("quartiles", (None, None))
    if not measured or low == high:
        return shown(result, measured)
    half = (high - low) / 2
    return f"{shown(result, measured)} ± {half / measured['median']:.0%}"


def write(found: dict[str, Any], root: Path, charts: dict[str, Path]) -> None:
    """Write benchmarks/RESULTS.md and the README's part of a checkout."""
    folder = root / "benchmarks"
    beside = {family: path.relative_to(folder).as_posix() for family, path in charts.items()}
    (folder / "RESULTS.md").write_text("\n".join(everything(found, beside)) + "\n")
    above = {family: path.relative_to(root).as_posix() for family, path in charts.items()}
    page = root / "README.md"
    page.write_text(placed(page.read_text(), readme(found, above)))
