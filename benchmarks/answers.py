"""Asks questions, several of them in a process each."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.harness import SCALES, ask
from benchmarks.report import Printer

#: The results of a question, why it could not be asked (or None), and the seconds that it took.
Answer = tuple[list[dict[str, Any]], str | None, float]

#: Why there are no results of a question that raised.
FAILED = "it failed, as make bench has printed"


def answers(names: Sequence[str], options: argparse.Namespace) -> Iterator[Answer]:
    """Ask several questions in a process each: what one does to the memory is not the next one's to bear."""
    if len(names) == 1 or options.scale == "tiny":
        for name in names:
            yield answer(name, options)
        return
    spawn = multiprocessing.get_context("spawn")
    for name in names:
        sys.stdout.flush()
        with ProcessPoolExecutor(1, spawn, begin, (multiprocessing.get_start_method(),)) as child:
            try:
                found: Answer = child.submit(answer, name, options).result()
            except Exception:  # whatever stops one question, the others have their results
                traceback.print_exc()
                found = [], FAILED, 0.0
        yield found


def begin(method: str) -> None:
    """Let what a question starts begin as it would anywhere else: who was spawned would spawn too."""
    multiprocessing.set_start_method(method, force=True)


def answer(name: str, options: argparse.Namespace) -> Answer:
    """Ask one question, and print what comes out unless only JSON is wanted."""
    printer = None if options.json == "-" else Printer()
    clock = time.process_time if options.cpu_time else time.perf_counter
    start = time.perf_counter()
    question = importlib.import_module(f"benchmarks.{name}")
    if printer is not None:
        printer.line(f"\n{name}: {question.TITLE}\n")
    why = question.missing() if hasattr(question, "missing") else None
    if why is not None:
        if printer is not None:
            printer.line(f"not measured: {why}")
        return [], why, 0.0
    results = []
    for result in ask(name, SCALES[options.scale], clock):
        results.append({"title": question.TITLE, **result.as_json()})
        if printer is not None:
            printer.result(result)
    seconds = round(time.perf_counter() - start, 1)
    if printer is not None:
        printer.line(f"{name} took {seconds:g} s.")
    sys.stdout.flush()
    return results, None, seconds
