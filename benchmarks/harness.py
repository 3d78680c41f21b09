"""Measures contenders side by side: calibrated loops, interleaved rounds, medians, and ratios of neighbours.

The contenders of a case take turns in short samples, in another order each round, so that whatever else
happens on the machine, and what they leave behind for each other, hits all of them. A ratio is the median of
the rounds' own ratios, which drift cannot bend; times are medians with quartiles. Nothing is cached between
rounds but what the libraries cache themselves.

The points of a growth curve are all measured warm: each contender runs untimed before its sample, for as long
as caches take to settle. Without that a small point is the mean of many loops, a large one of a few in caches
that others have emptied, and the curve shows the caches.

A goal is met, missed, or, where it is to be as fast as the other, level: less than a hundredth is missing.
"""

from __future__ import annotations

import gc
import importlib
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from benchmarks.machine import free_cores

Run = Callable[[], Any]

#: What of the wanted processors must have been free for a verdict about threads.
ENOUGH = 0.85
#: Seconds that they may take to become free.
PATIENCE = 5
#: Samples' time that caches take to settle, before a point of a curve is measured.
SETTLING = 3

#: A thousand times the work may cost twice as much per unit: larger memory is slower memory.
FLAT = 0.1


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes
    ----------
    name : {"full", "quick", "tiny"}
        "quick" leaves out what takes long to set up, "tiny" (for tests) shrinks all data.
    rounds : int
        Samples of each contender.
    sample : float
        Seconds that a sample should last; calibration chooses the loop count.
    budget : float
        Seconds for one case; slow cases get fewer rounds.
    fewest : int
        Rounds that a case gets however slow it is.
    """

    name: str
    rounds: int
    sample: float
    budget: float
    fewest: int = 1

    def size(self, normal: int, tiny: int) -> int:
        """Return how large data is at this scale."""
        return tiny if self.name == "tiny" else normal

    @property
    def thorough(self) -> bool:
        """Whether data that takes long to make is measured too."""
        return self.name == "full"


SCALES = {
    "full": Scale("full", rounds=31, sample=0.008, budget=8.0, fewest=5),
    "quick": Scale("quick", rounds=7, sample=0.003, budget=0.4, fewest=2),
    "tiny": Scale("tiny", rounds=1, sample=0.0, budget=0.0),
}


@dataclass(frozen=True)
class Curve:
    """Cases of one curve differ in `x`; how the cost per unit grows with it is fitted and judged.

    Attributes
    ----------
    name : str
    x : float
    at_most : float, optional
        The largest exponent of x that meets the goal.
    row : str, default ""
        The row of `benchmarks.goals` that the exponent is judged for.
    """

    name: str
    x: float
    at_most: float | None = None
    row: str = ""


@dataclass
class Case:
    """One row: several contenders do the same work.

    Attributes
    ----------
    name : str
        What the work is, with its sizes.
    unit : str
        What a cost is given for: "batch", "stream", "delta", "call".
    count : int
        Units in one run.
    contenders : dict of str to callable
        Each does all of the work once and returns something that must be equal for all contenders.
    goal : float, optional
        How many times as fast as `baseline` we want `ours` to be.
    at_most : float, optional
        Seconds per unit that `ours` may take.
    touched : int, optional
        Bytes that one run really reads or writes.
    timed : bool, default False
        A run returns the seconds that count; it starts a process, say.
    threads : int, default 1
        Threads that a contender may use. More than one are measured by the wall clock whatever was asked for,
        and judged only if as many processors were free.
    row : str, default ""
        The row of `benchmarks.goals` that the case counts for.
    named : bool, default False
        It is the case that the row names; the others of the row show where it is worse.
    """

    name: str
    unit: str
    count: int
    contenders: dict[str, Run]
    goal: float | None = None
    at_most: float | None = None
    touched: int | None = None
    curve: Curve | None = None
    timed: bool = False
    threads: int = 1
    ours: str = "arrowipc"
    baseline: str = "pyarrow"
    row: str = ""
    named: bool = False


@dataclass(frozen=True)
class Fact:
    """One row that was counted already: bytes, or what came to light while other cases were measured.

    Attributes
    ----------
    name : str
    values : dict of str to list of float
        What was found of each contender, once or several times.
    unit : str, default "bytes"
        "bytes", or what the seconds are given for, as in `Case`.
    at_most : float, optional
        The most bytes that `ours` may be.
    goal : float, optional
        How many times as small as `baseline` we want `ours` to be.
    row, named
        As in `Case`.
    """

    name: str
    values: dict[str, list[float]]
    unit: str = "bytes"
    at_most: float | None = None
    goal: float | None = None
    ours: str = "arrowipc"
    baseline: str = "pyarrow"
    row: str = ""
    named: bool = False


@dataclass
class Timing:
    """What was measured of one contender; times are seconds per unit of the case."""

    name: str
    median: float = math.nan
    low: float = math.nan
    high: float = math.nan
    ratio: float = math.nan
    rounds: int = 0
    problem: str = ""
    samples: list[float] = field(default_factory=list, repr=False)


@dataclass
class Result:
    """A case, or a fact, that was measured and judged."""

    question: str
    case: str
    unit: str
    ours: str
    baseline: str
    timings: dict[str, Timing]
    goal: str = ""
    verdict: str = ""
    touched_per_unit: float | None = None
    row: str = ""
    named: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        timings = [
            {
                "contender": each.name,
                "median": none_if_nan(each.median),
                "quartiles": [none_if_nan(each.low), none_if_nan(each.high)],
                "times_as_fast": none_if_nan(each.ratio),
                "rounds": each.rounds,
                "problem": each.problem,
            }
            for each in self.timings.values()
        ]
        return {
            "question": self.question,
            "case": self.case,
            "unit": self.unit,
            "ours": self.ours,
            "baseline": self.baseline,
            "goal": self.goal,
            "verdict": self.verdict,
            "touched_per_unit": self.touched_per_unit,
            "row": self.row,
            "named": self.named,
            "timings": timings,
        }


def none_if_nan(value: float) -> float | None:
    """Return `value`, or None for what JSON cannot say."""
    return None if math.isnan(value) else value


def sampled(run: Run, loops: int, timed: bool, clock: Callable[[], float]) -> float:
    """Return the seconds that one run took, as the mean of `loops` runs."""
    if timed:
        return statistics.fmean(run() for _ in range(loops))
    start = clock()
    for _ in repeat(None, loops):
        run()
    return (clock() - start) / loops


def warmed(case: Case) -> tuple[list[str], dict[str, str]]:
    """Run each contender once; return who answers like the baseline, and what is wrong with the others."""
    able = [case.baseline]
    problems: dict[str, str] = {}
    expected = case.contenders[case.baseline]()
    for name, run in case.contenders.items():
        if name == case.baseline:
            continue
        try:
            found = run()
        except Exception as error:  # whatever a peer raises is an answer: it cannot do this
            problems[name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:120]
            continue
        if case.timed or found == expected:
            able.append(name)
        else:
            problems[name] = f"another result: {found!r}, expected {expected!r}"[:120]
    return able, problems


def measure(case: Case, scale: Scale, clock: Callable[[], float] = time.perf_counter) -> dict[str, Timing]:
    """Measure all contenders of a case, interleaved."""
    names, problems = warmed(case)
    samples: dict[str, list[float]] = {name: [] for name in names}
    loops, rounds = calibrated(case, names, scale) if scale.budget else (dict.fromkeys(names, 1), scale.rounds)
    if scale.budget:  # where time counts: of a large process it takes half a second
        gc.collect()
    gc.freeze()  # the collector runs as it would for a user, without walking our own data each time
    try:
        for turn in range(rounds):
            # Never in the same order: what one leaves behind (cold caches, memory given back) would always
            # hit the same other one.
            for name in random.Random(turn).sample(names, len(names)):
                if case.curve is not None:
                    settle(case.contenders[name], SETTLING * scale.sample)
                samples[name].append(sampled(case.contenders[name], loops[name], case.timed, clock))
    finally:
        gc.unfreeze()
    return {name: summary(name, case, samples, problems) for name in case.contenders}


def settle(run: Run, seconds: float) -> None:
    """Run untimed, once at least, until so much time has passed."""
    end = time.perf_counter() + seconds
    run()
    while time.perf_counter() < end:
        run()


def calibrated(case: Case, names: list[str], scale: Scale) -> tuple[dict[str, int], int]:
    """Return how often each contender runs in a sample, and how many rounds there is time for."""
    loops: dict[str, int] = {}
    round_seconds = 0.0
    for name in names:
        start = time.perf_counter()
        once = sampled(case.contenders[name], 1, case.timed, time.perf_counter)
        whole = time.perf_counter() - start
        if whole < scale.budget / 100:  # the first may have met a cold cache
            once = min(once, sampled(case.contenders[name], 1, case.timed, time.perf_counter))
        loops[name] = 1 if case.timed else max(1, math.ceil(scale.sample / max(once, 1e-9)))
        round_seconds += max(whole if case.timed else once, 1e-9) * loops[name]
    return loops, max(scale.fewest, min(scale.rounds, int(scale.budget / round_seconds)))


def summary(name: str, case: Case, samples: dict[str, list[float]], problems: dict[str, str]) -> Timing:
    """Return the figures of one contender."""
    if name in problems:
        return Timing(name, problem=problems[name])
    seconds = samples[name]
    low, median, high = quartiles(seconds)
    ratio = statistics.median([a / b for a, b in zip(samples[case.baseline], seconds, strict=True)])
    count = case.count
    return Timing(name, median / count, low / count, high / count, ratio, len(seconds), samples=seconds)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return the quartiles of at least one value."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def judged(met: bool) -> str:
    """Return the word of the verdict column."""
    return "met" if met else "MISSED"


def judge(question: str, case: Case, timings: dict[str, Timing]) -> Result:
    """Compare what was measured with the goal."""
    result = Result(question, case.name, case.unit, case.ours, case.baseline, timings, row=case.row, named=case.named)
    if case.touched is not None:
        result.touched_per_unit = case.touched / case.count
    ours = timings[case.ours]
    if case.goal is not None:
        result.goal = f">= {case.goal:g}x"
        result.verdict = "FAILED" if ours.problem else judged(ours.ratio >= case.goal)
        if case.goal == 1 and result.verdict == "MISSED" and ours.ratio >= 0.99:
            result.verdict = "level"
    elif case.at_most is not None:
        result.goal = f"<= {case.at_most * 1e3:g} ms"
        result.verdict = "FAILED" if ours.problem else judged(ours.median <= case.at_most)
    elif ours.problem:
        result.verdict = "FAILED"
    return result


def judge_fact(question: str, fact: Fact) -> Result:
    """Return the result of what was counted already."""
    base = statistics.median(fact.values[fact.baseline])
    timings = {}
    for name, values in fact.values.items():
        low, median, high = quartiles(values)
        ratio = base / median if median else math.nan
        timings[name] = Timing(name, median, low, high, ratio, len(values))
    ours = timings[fact.ours].median
    goal = verdict = ""
    if fact.at_most is not None:
        goal = f"<= {fact.at_most / 2**20:.3g} MiB"
        verdict = judged(ours <= fact.at_most)
    elif fact.goal is not None:
        goal = f">= {fact.goal:g}x"
        verdict = judged(base >= fact.goal * ours)
    return Result(
        question,
        fact.name,
        fact.unit,
        fact.ours,
        fact.baseline,
        timings,
        goal,
        verdict,
        row=fact.row,
        named=fact.named,
    )


def growth(question: str, points: list[tuple[Curve, dict[str, Timing]]]) -> Iterator[Result]:
    """Fit cost = c * x^k for each contender of each curve; the results carry k in place of seconds."""
    for name in dict.fromkeys(curve.name for curve, _ in points):
        rows = [(curve, timings) for curve, timings in points if curve.name == name]
        if len(rows) < 2:
            continue
        fitted = {}
        for contender in rows[0][1]:
            if any(contender not in timings for _, timings in rows):
                continue  # it takes part in some of the points only
            pairs = [(curve.x, t[contender].median) for curve, t in rows if not t[contender].problem]
            if len(pairs) >= 2:
                k = exponent(pairs)
                fitted[contender] = Timing(contender, k, k, k, rounds=len(pairs))
        span = f"{rows[0][0].x:g} to {rows[-1][0].x:g}"
        case = f"{name}: k in cost ~ n^k, n = {span}"
        curve = rows[0][0]
        result = Result(question, case, "exponent", "arrowipc", "pyarrow", fitted, row=curve.row, named=bool(curve.row))
        bound = curve.at_most
        if bound is not None and "arrowipc" in fitted:
            result.goal = f"k <= {bound:g}"
            result.verdict = judged(fitted["arrowipc"].median <= bound)
        yield result


def exponent(pairs: list[tuple[float, float]]) -> float:
    """Return the slope of a line through the logarithms, by least squares."""
    return statistics.linear_regression([math.log(x) for x, _ in pairs], [math.log(y) for _, y in pairs]).slope


def ask(question: str, scale: Scale, clock: Callable[[], float] = time.perf_counter) -> Iterator[Result]:
    """Measure one question; results come as soon as they are known, without verdicts where data is tiny."""
    for result in answers(question, scale, clock):
        if scale.name == "tiny" and result.verdict != "FAILED":
            result.verdict = ""
        yield result


def settled(threads: int) -> float:
    """Return how many processors are free; what came before may work on for a moment, as a JVM does."""
    for _ in range(PATIENCE):
        free = free_cores(threads)
        if free >= ENOUGH * threads:
            break
        time.sleep(1)
    return free


def answers(question: str, scale: Scale, clock: Callable[[], float]) -> Iterator[Result]:
    """Measure and judge the cases of a question, then its curves."""
    module = importlib.import_module(f"benchmarks.{question}")
    points: list[tuple[Curve, dict[str, Timing]]] = []
    for case in module.cases(scale):
        if isinstance(case, Fact):
            yield judge_fact(question, case)
            continue
        if case.threads == 1 or scale.name == "tiny":  # of tiny data nothing is judged: nothing to wait for
            timings, free = measure(case, scale, clock), case.threads
        else:
            free = settled(case.threads)
            timings = measure(case, scale)
            free = min(free, settled(case.threads))
        if case.curve is not None:
            points.append((case.curve, timings))
        result = judge(question, case, timings)
        if free < ENOUGH * case.threads and result.verdict != "FAILED":
            result.verdict = f"not judged, {free:.1f} of {case.threads} cores were free"
        yield result
    yield from growth(question, points)
