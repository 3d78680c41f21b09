"""Runs the benchmarks from the command line; prints them, or writes JSON, or turns JSON into Markdown."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import QUESTIONS
from benchmarks.harness import SCALES, ask, environment
from benchmarks.report import Printer, environment_line, markdown


def parser() -> argparse.ArgumentParser:
    """Return the options."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compares the speed of arrowipc with pyarrow, nanoarrow, polars and arro3.",
    )
    options.add_argument("names", nargs="*", metavar="NAME", help="what to measure; all if none is given")
    options.add_argument("--list", action="store_true", help="list the names")
    options.add_argument(
        "--json", metavar="PATH", help="also write the results as JSON ('-': to standard output only)"
    )
    options.add_argument("--markdown", metavar="RESULTS", help="print a Markdown table of what --json wrote")
    sizes = options.add_mutually_exclusive_group()
    sizes.add_argument(
        "--quick", action="store_const", dest="scale", const="quick", help="fewer rounds and sizes"
    )
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
    if options.markdown:
        print("\n".join(markdown(json.loads(Path(options.markdown).read_text()))))
        return 0
    if options.list:
        for name in QUESTIONS:
            print(f"{name:16} {importlib.import_module(f'benchmarks.{name}').TITLE}")
        return 0
    unknown = [name for name in options.names if name not in QUESTIONS]
    if unknown:
        parser().error(f"no benchmark is named {', '.join(unknown)}; --list shows the names")
    write(options)
    return 0


def write(options: argparse.Namespace) -> None:
    """Measure and print."""
    quiet = options.json == "-"
    printer = None if quiet else Printer()
    about = {**environment(), "clock": "processor time" if options.cpu_time else "wall clock"}
    if printer is not None:
        printer.line(environment_line(about))
    results = []
    missed = []
    for name in options.names or QUESTIONS:
        title = importlib.import_module(f"benchmarks.{name}").TITLE
        if printer is not None:
            printer.line(f"\n{name}: {title}\n")
        for result in ask(
            name, SCALES[options.scale], time.process_time if options.cpu_time else time.perf_counter
        ):
            results.append({"title": title, **result.as_json()})
            if result.verdict not in ("", "met"):
                missed.append(f"{name}: {result.case}: goal {result.goal}: {result.verdict}")
            if printer is not None:
                printer.result(result)
    if printer is not None:
        if options.scale == "tiny":
            printer.line("Tiny data: nothing was judged.")
        else:
            printer.line("\n".join(["Goals not met:", *missed]) if missed else "All goals met.")
    if options.json:
        text = json.dumps({"environment": about, "scale": options.scale, "results": results}, indent=1)
        if quiet:
            print(text)
        else:
            Path(options.json).write_text(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
