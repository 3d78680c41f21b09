"""Writes benchmarks/RESULTS.md, README's speed table and its chart from what pytest-benchmark measured (JSON files)."""

import json
import math
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GOALS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("goals.toml").read_text())
FRONT: list[str] = GOALS.pop("front")  # type: ignore[assignment]
#: What users do -> the files whose questions are about it.
GROUPS: dict[str, list[str]] = GOALS.pop("groups")  # type: ignore[assignment]
CHART = FRONT[:5]
#: Where README's part begins and ends, and its picture.
BEGIN, END = "<!-- speed:begin -->", "<!-- speed:end -->"
PICTURE = "benchmarks/charts/reading.svg"
#: What numbers among the parameters of a test count.
COUNTED = {"bytes_": "byte", "body": "byte", "piece": "byte", "rows": "row", "threads": "thread", "words": "word"}
COUNTED |= {
    "columns": "column",
    "n": "unit",
    "number": "batch",
    "workers": "worker",
    "chunks": "chunk",
    "kept": "kept column",
}
COLOURS = {"arrowipc": "#1f6feb", "pyarrow": "#d9822b", "nanoarrow": "#8957c9", "polars": "#2f9e6e", "arro3": "#c2486b"}
HEADER = ("question", "worst case", "pyarrow", "arrowipc", "times as fast")
INTRODUCTION = """# Results of the benchmarks

Made by `make bench`. Each question shows its worst case: the shape in which arrowipc does worst beside the baseline,
which is pyarrow where no other is named. Times are medians per unit; "times as fast" is the median ratio of interleaved
rounds. The worst question of a group comes first. Where arrowipc is slower than it should be, the last column has the
number of the reason, which stands below the group, and how many times as fast the least is that has to be done. k: the
exponent by which the cost per unit grows with the size. `pytest benchmarks/test_x.py` shows all cases.
"""


@dataclass
class Question:
    """A row: what was asked, and case -> peer -> (figure, times as fast as the baseline)."""

    words: str
    unit: str
    baseline: str
    told: dict[str, str]
    group: str = ""
    cases: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def worst(self) -> str:
        """Return the case in which ours is worst."""
        able = [case for case, peers in self.cases.items() if "arrowipc" in peers]
        return min(able, key=lambda case: self.cases[case]["arrowipc"][1])

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the worst case below `HEADER`."""
        peers, case = self.cases[self.worst()], self.worst()
        alone = self.baseline == "arrowipc"
        base = amount(peers[self.baseline][0], self.unit) if self.baseline in peers and not alone else ""
        ours, ratio = peers["arrowipc"]
        per = "" if self.unit in ("bytes", "call", "process", "piece of work") else f", per {self.unit}"
        name = "" if alone or self.baseline == "pyarrow" else f" ({self.baseline})"
        exponents = [linear_regression(*zip(*xy, strict=True)).slope for xy in self.curves.values() if len(xy) > 1]
        growth = f", k {max(exponents):.2f}" if exponents and "k" in self.told.get("goal", "") else ""
        return (
            self.words + per,
            case,
            base + name,
            amount(ours, self.unit),
            "" if alone else f"{digits(ratio)}x{growth}",
        )

    def ratio(self) -> float:
        """Return how many times as fast as the baseline ours is in the worst case; what has none comes last."""
        return math.inf if self.baseline == "arrowipc" else self.cases[self.worst()]["arrowipc"][1]

    def floor(self) -> str:
        """Return what the least that has to be done reaches, if that was measured."""
        found = self.cases[self.worst()].get(self.told.get("floor", ""))
        return f"{self.told['floor']}: {digits(found[1])}x" if found else ""


def digits(value: float) -> str:
    """Return a number with three digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def amount(value: float, unit: str) -> str:
    """Return what was measured, in its unit."""
    if unit == "bytes":
        return f"{digits(value / 2**20)} MiB"
    scales = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))
    name, seconds = next((scale for scale in scales if value >= scale[1]), ("ns", 1e-9))
    return f"{digits(value / seconds)} {name}"


def case(params: dict[str, Any], question: str, unit: str) -> str:
    """Return in words which case of a question was measured; what the question says already is left out."""
    said = []
    for name, value in params.items():
        if type(value) is int:
            noun = COUNTED.get(name, unit)
            said.append(f"{value:,} {noun}" + ("" if value == 1 else "es" if noun.endswith("ch") else "s"))
        elif name != "peer" and value is not None and str(value).strip() not in question:
            said.append(f"{name} {value}" if isinstance(value, bool) else str(value))
    return ", ".join(said)


def questions(runs: Iterable[dict[str, Any]]) -> list[Question]:
    """Return the rows of what pytest-benchmark wrote."""
    found: dict[str, Question] = {}
    groups = {f"{name}.py": group for group, names in GROUPS.items() for name in names}
    for each in (each for run in runs for each in run["benchmarks"]):
        about, median = each["extra_info"], each["stats"]["median"]
        words = about["question"]
        told = GOALS.get(words) or GOALS.get(about["words"], {})
        group = groups.get(each["fullname"].partition("::")[0].rpartition("test_")[2], "")
        row = found.setdefault(words, Question(words, about["unit"], about["baseline"], told, group))
        which = case(each["params"], words, about["unit"])
        row.cases.setdefault(which, {})[about["peer"]] = (median, about["ratio"])
        if "curve" in about and about["peer"] == "arrowipc":
            row.curves.setdefault(str(about["curve"]), []).append((math.log(about["x"]), math.log(median)))
    return [row for row in found.values() if any("arrowipc" in peers for peers in row.cases.values())]


def grid(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = [f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |" for cells in (header, *rows)]
    return [lines[0], "|---" * (lines[0].count("|") - 1) + "|", *lines[1:]]


def where(run: dict[str, Any]) -> str:
    """Return the machine."""
    info = run["machine_info"]
    return f"{info['cpu'].get('brand_raw', 'unknown processor')}, {info['cores']} cores"


def page(runs: list[dict[str, Any]]) -> str:
    """Return the text of benchmarks/RESULTS.md."""
    info = runs[0]["machine_info"]
    versions = ", ".join(f"{name} {version}" for name, version in info["versions"].items())
    rows = questions(runs)
    parts = [INTRODUCTION]
    for group in GROUPS:
        parts += [f"## {group}\n", *table_of(sorted((row for row in rows if row.group == group), key=Question.ratio))]
    parts.append(
        f"Measured on {runs[0]['datetime'][:10]}: {where(runs[0])}, {info['system']}; "
        f"Python {info['python_version']}, {versions}.\n"
    )
    return "\n".join(parts)


def table_of(rows: list[Question]) -> list[str]:
    """Return the lines of a group's table, and of its notes."""
    notes = list(dict.fromkeys(row.told["why"] for row in rows if "why" in row.told))
    last = [
        " ".join(filter(None, [f"[{notes.index(row.told['why']) + 1}]" if "why" in row.told else "", row.floor()]))
        for row in rows
    ]
    lines = grid((*HEADER, "note"), ((*row.cells(), note) for row, note in zip(rows, last, strict=True)))
    return [*lines, "", *(f"{number}. {reason}." for number, reason in enumerate(notes, 1)), *([""] if notes else [])]


def front(runs: list[dict[str, Any]]) -> str:
    """Return README's part."""
    rows = {row.words: row for row in questions(runs) if row.words in FRONT}
    said = f"Measured with pyarrow {runs[0]['machine_info']['versions']['pyarrow']} on {where(runs[0])}.\n"
    table = grid(HEADER, (rows[words].cells() for words in FRONT if words in rows))
    return "\n".join([BEGIN, *table, "", said, f"![time per unit, by library]({PICTURE})", END])


def chart(runs: list[dict[str, Any]]) -> str:
    """Return the worst cases of the questions about reading as SVG: a bar for each library."""
    import altair as alt
    import vl_convert

    bars = [
        {"question": f"{row.words}: {row.worst()}", "library": peer, "seconds": found[0], "text": amount(found[0], "")}
        for row in questions(runs)
        if row.words in CHART
        for peer, found in row.cases[row.worst()].items()
        if peer in COLOURS
    ]
    names = [name for name in COLOURS if any(bar["library"] == name for bar in bars)]
    seconds = [bar["seconds"] for bar in bars]
    scale = alt.Scale(type="log", domain=[min(seconds) / 3, max(seconds)], nice=False)
    x = alt.X("seconds:Q", scale=scale, title="seconds per unit")
    base = alt.Chart().encode(x, alt.Y("library:N", sort=names, title=None))
    colour = alt.Color("library:N", scale=alt.Scale(domain=names, range=[COLOURS[name] for name in names]), legend=None)
    layers = alt.layer(
        base.mark_bar().encode(colour, alt.X2Datum(min(seconds) / 3)),
        base.mark_text(align="left", dx=4).encode(text="text:N"),
        data=alt.InlineData(values=bars),
    )
    drawn = layers.properties(width=600, height=18 * len(names)).facet(
        alt.Facet("question:N", sort=None, header=alt.Header(title=None, labelAnchor="start")), columns=1
    )
    return str(vl_convert.vegalite_to_svg(drawn.configure(background="white").to_dict()))


def main(paths: list[str]) -> None:
    """Write the page, README's part and the chart."""
    runs, readme = [json.loads(Path(path).read_text()) for path in paths], ROOT / "README.md"
    (ROOT / "benchmarks/RESULTS.md").write_text(page(runs))
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(before + front(runs) + rest.partition(END)[2])
    (ROOT / PICTURE).write_text(chart(runs) + "\n")
    for row in questions(runs):
        if "goal" in row.told:
            print(f"{row.words}: {row.cells()[-1]}, goal {row.told['goal']}")


if __name__ == "__main__":
    main(sys.argv[1:])
