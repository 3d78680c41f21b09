"""Runs the benchmarks from the command line, or turns what they found into tables and charts."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import QUESTIONS
from benchmarks.answers import FAILED, answers
from benchmarks.machine import confine, environment
from benchmarks.report import Printer, environment_line
from benchmarks.summary import HEADER, Line, lines

ROOT = Path(__file__).resolve().parent.parent


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compares the speed of arrowipc with pyarrow, nanoarrow, polars and arro3.",
        epilog="With --markdown, --charts or --publish, NAME is a file that --json wrote; where several "
        "have a question, the last one counts.",
    )
    options.add_argument("names", nargs="*", metavar="NAME", help="what to measure; all if none is given")
    options.add_argument("--list", action="store_true", help="list the names")
    options.add_argument(
        "--json",
        metavar="PATH",
        nargs="?",
        const="-",
        help="also write the results as JSON; without a path (behind the names), or with '-': nothing else",
    )
    found = options.add_mutually_exclusive_group()
    found.add_argument("--markdown", action="store_true", help="print the speed table as Markdown")
    found.add_argument("--charts", metavar="FOLDER", type=Path, help="write a chart per family")
    found.add_argument(
        "--publish", action="store_true", help="write the README's part, RESULTS.md and the charts they show"
    )
    sizes = options.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_const", dest="scale", const="quick", help="fewer rounds and sizes")
    sizes.add_argument(
        "--tiny", action="store_const", dest="scale", const="tiny", help="run everything, measure nothing"
    )
    options.add_argument(
        "--cpu-time",
        action="store_true",
        help="count processor seconds: steadier on a busy machine; cases with threads keep the wall clock",
    )
    options.set_defaults(scale="full")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; returns the exit status."""
    options = parser().parse_args(arguments)
    if options.markdown or options.charts or options.publish:
        if not options.names:
            parser().error("name the files that --json wrote")
        present(options)
        return 0
    if options.list:
        for name in QUESTIONS:
            print(f"{name:18} {importlib.import_module(f'benchmarks.{name}').TITLE}")
        return 0
    unknown = [name for name in options.names if name not in QUESTIONS]
    if unknown:
        parser().error(f"no benchmark is named {', '.join(unknown)}; --list shows the names")
    return int(FAILED in measure(options).values())


def measure(options: argparse.Namespace) -> dict[str, str]:
    """Measure and print, the speed table last; returns why some questions have no results."""
    quiet = options.json == "-"
    printer = None if quiet else Printer()
    about = {**environment(), "clock": "processor time" if options.cpu_time else "wall clock"}
    if printer is not None:
        printer.line(environment_line(about))
    results: list[dict[str, Any]] = []
    skipped: dict[str, str] = {}
    took: dict[str, float] = {}
    names = options.names or list(QUESTIONS)
    for name, (found, why, seconds) in zip(names, answers(names, options), strict=True):
        results += found
        if why is not None:
            skipped[name] = why
        else:
            took[name] = seconds
    if printer is not None:
        conclude(printer, results, list(lines(results, skipped, names)))
        printer.line(f"All took {sum(took.values()) / 60:.1f} minutes.")
    if options.json:
        run = {"environment": about, "scale": options.scale, "seconds": took}
        text = json.dumps({**run, "skipped": skipped, "results": results}, indent=1)
        if quiet:
            print(text)
        else:
            Path(options.json).write_text(text + "\n")
    return skipped


def conclude(printer: Printer, results: list[dict[str, Any]], table: list[Line]) -> None:
    """Print the speed table, what stops us where a goal is not met, and the goals beside the table."""
    if table:
        printer.table("The goals:", HEADER, [line.cells() for line in table], numbers=range(1, 5))
        for line in table:
            if line.reason:
                printer.line(f"* {line.row.words}: {line.reason}")
        printer.line()
    others = [each for each in results if not each["row"] and each["verdict"] not in ("", "met", "level")]
    if others:
        printer.line("Other goals not met:")
    for each in others:
        printer.line(f"* {each['question']}: {each['case']}: goal {each['goal']}: {each['verdict']}")


def read(paths: Sequence[str]) -> dict[str, Any]:
    """Return what ``--json`` wrote, of each question what is in the last of the files that have it.

    ``runs`` says for each file what its numbers depend on and which questions count.
    """
    questions: dict[str, list[dict[str, Any]]] = {}
    skipped: dict[str, str] = {}
    runs: list[dict[str, Any]] = []
    for path in paths:
        found = json.loads(Path(path).read_text())
        here = dict.fromkeys([*(each["question"] for each in found["results"]), *found["skipped"]])
        for run in runs:
            run["questions"] = [name for name in run["questions"] if name not in here]
        for name in here:
            questions[name] = [each for each in found["results"] if each["question"] == name]
            skipped.pop(name, None)
        skipped |= found["skipped"]
        runs.append({"environment": found["environment"], "scale": found["scale"], "questions": list(here)})
    results = [each for name in QUESTIONS for each in questions.get(name, [])]
    return {"results": results, "skipped": skipped, "runs": [run for run in runs if run["questions"]]}


def present(options: argparse.Namespace) -> None:
    """Turn what was found into Markdown and charts."""
    from benchmarks import markdown

    found = read(options.names)
    if options.markdown:
        print("\n".join(markdown.summary(found)))
        return
    try:
        from benchmarks import charts
    except ImportError as error:
        parser().error(f"{error}; charts need: pip install 'arrowipc[bench]'")
    if options.charts:
        for path in charts.write(found["results"], options.charts).values():
            print(path)
    else:
        markdown.write(found, ROOT, charts.write(found["results"], ROOT / "benchmarks" / "charts"))


if __name__ == "__main__":
    confine()
    sys.exit(main())
