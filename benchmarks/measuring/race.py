"""Measures peers side by side: interleaved rounds in one process, medians, and ratios of neighbours.

pytest-benchmark measures one test after the other; on a machine with other things to do, a ratio of two such figures is
noise. So the first test of a case measures all of its peers in turns, in another order each round, and each test then
replays the rounds of its peer to pytest-benchmark, by a clock that tells the measured times. A ratio is the median of
the rounds' own ratios. With ``--benchmark-disable`` each peer runs once, on small data. In both cases all peers must
give the same answer.
"""

from __future__ import annotations

import gc
import inspect
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from functools import wraps
from itertools import repeat
from typing import Any

import pytest

Run = Callable[[], Any]
Runs = dict[str, Run]

#: Rounds at most and at least, seconds of a sample, and samples' time in which caches settle.
ROUNDS, FEWEST, SAMPLE, SETTLING = 31, 5, 0.008, 3
#: conftest.py sets it for ``--benchmark-disable``.
QUICK = False
_clock = [0.0]


def size(normal: int, quick: int) -> int:
    """Return how large data is."""
    return quick if QUICK else normal


def sizes(quick: int, *normal: int) -> tuple[int, ...]:
    """Return sizes of data; a quick run has two, as small as `quick` and one more."""
    return (quick, quick + 1) if QUICK else normal


def replayed() -> float:
    """Tell the time of the replay."""
    return _clock[0]


def question(
    words: str, peers: Iterable[str] | str, *, unit: str, baseline: str = "pyarrow", **more: Any
) -> Callable[[Any], Any]:
    """Make a function that returns (or yields) what each peer runs a question: a row of the page of results.

    Above all other decorators, so that the peers of a case follow each other. The function may return the number of
    units of a run, too. Parameters of the test may be named in braces: in `words` each value is a question of its own.

    More options: ``per``, units of a run, a number or a parameter; ``timed``: runs return the seconds that count (those
    of ``unit="bytes"`` return bytes); ``curve``: the cases are points of a growth curve, ``x`` is `per`
    or what else; there each runs untimed before its sample, without which a curve shows the caches.
    """

    names = peers.split(", ") if isinstance(peers, str) else [*peers]
    if "arrowipc" not in names or baseline not in [*names, "{beside}"]:
        raise ValueError(f"{words}: arrowipc or {baseline} takes no part")

    def decorate(contenders: Callable[..., Any]) -> Any:
        @wraps(contenders)
        def test(race: Race, **given: Any) -> None:
            race(contenders, given)

        own = inspect.signature(contenders).parameters.values()
        race = inspect.Parameter("race", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([race, *own])
        del test.__wrapped__
        about = {"question": words, "unit": unit, "baseline": baseline, **more}
        marked = pytest.mark.benchmark(timer=replayed)(pytest.mark.question(**about)(test))
        return pytest.mark.parametrize("peer", names)(marked)

    return decorate


class Race:
    """Measures the case that a test belongs to, and replays the rounds of the test's own peer."""

    def __init__(self, request: Any, peer: str, benchmark: Any, heat: dict[str, Any]) -> None:
        self.node, self.peer, self.benchmark, self.heat = request.node, peer, benchmark, heat
        self.budget = float(request.config.getoption("benchmark_max_time"))
        params = request.node.callspec.params
        about = request.node.get_closest_marker("question").kwargs
        told = {"per": 1, "timed": about["unit"] == "bytes", "x": about.get("per"), **about}
        self.about: dict[str, Any] = {key: params.get(value, value) for key, value in told.items()}
        self.about["words"] = about["question"]
        for key in ("question", "baseline"):
            self.about[key] = self.about[key].format(**params)
        if "curve" in about:
            self.about["curve"] = [str(value) for name, value in params.items() if name not in ("peer", told["x"])]

    def __call__(self, contenders: Callable[..., Any], given: dict[str, Any]) -> None:
        """Measure, unless another peer's test has, and replay."""
        about, heat, case = self.about, self.heat, self.node.nodeid.removesuffix(f"{self.peer}]")
        if heat.get("case") != case:
            heat.clear()
            lasting = inspect.isgeneratorfunction(contenders)
            made = contextmanager(contenders)(**given) if lasting else contenders(**given)
            with made if hasattr(made, "__enter__") else nullcontext(made) as found:
                runs, heat["per"] = found if isinstance(found, tuple) else (found, about["per"])
                self.measure(runs)
            heat["case"] = case
        problem, samples = heat["problems"].get(self.peer), heat["samples"].get(self.peer)
        if problem and self.peer in ("arrowipc", about["baseline"]):
            pytest.fail(f"{self.peer}: {problem}")
        if samples is None:
            pytest.skip(f"{self.peer}: {problem or 'takes no part, or is not installed'}")
        ratios = [a / b for a, b in zip(heat["samples"][about["baseline"]], samples, strict=True) if b]
        about["case"] = self.node.callspec.id.removesuffix(self.peer).removesuffix("-")
        self.benchmark.group = f"{about['question']}: {about['case']}, per {about['unit']}"
        ratio = statistics.median(ratios or [math.nan])
        self.benchmark.extra_info.update(about, peer=self.peer, ratio=ratio, load=heat["load"])
        per = 1 if about["unit"] == "bytes" else heat["per"]
        rounds, _clock[0] = iter([sample / per for sample in samples]), 0.0
        self.benchmark.pedantic(lambda: advance(next(rounds, 0.0)), rounds=max(len(samples), 1))

    def measure(self, runs: Runs) -> None:
        """Check that all give the answer of the baseline, then let them take turns."""
        timed = self.about["timed"]
        answers, problems = able(runs, self.about["baseline"], timed)
        self.heat.update(problems=problems, samples={name: [] for name in answers}, load=round(os.getloadavg()[0], 1))
        if self.benchmark.disabled:
            return
        if self.about["unit"] == "bytes":  # they hardly vary, and each takes a process
            self.heat["samples"] = {name: [float(found)] for name, found in answers.items()}
            return
        loops, rounds = calibrated({name: runs[name] for name in answers}, timed, self.budget)
        gc.collect()
        gc.freeze()  # the collector runs as it would for a user, without walking our own data each time
        try:
            for turn in range(rounds):
                # Never in the same order: what one leaves behind would always hit the same other one.
                for name in random.Random(turn).sample(list(answers), len(answers)):
                    end = time.perf_counter() + SETTLING * SAMPLE
                    while "curve" in self.about and time.perf_counter() < end:
                        runs[name]()
                    self.heat["samples"][name].append(sampled(runs[name], loops[name], timed))
        finally:
            gc.unfreeze()


def advance(seconds: float) -> None:
    """Let the clock of the replay go on."""
    _clock[0] += seconds


def able(runs: Runs, baseline: str, timed: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Run each contender once; return the answers of those who say what the baseline says, and what others raise."""
    answers, problems = {baseline: runs[baseline]()}, {}
    for name in (name for name in runs if name != baseline):
        try:
            found = runs[name]()
        except Exception as error:  # whatever a peer raises is an answer: it cannot do this
            problems[name] = f"{type(error).__name__}: {error}"[:120]
            continue
        if timed or found == answers[baseline]:
            answers[name] = found
        else:
            problems[name] = f"another answer: {found!r}, expected {answers[baseline]!r}"[:120]
    return answers, problems


def sampled(run: Run, loops: int, timed: bool) -> float:
    """Return what one run took, as the mean of `loops` runs."""
    if timed:
        return float(run())
    start = time.perf_counter()
    for _ in repeat(None, loops):
        run()
    return (time.perf_counter() - start) / loops


def calibrated(runs: Runs, timed: bool, budget: float) -> tuple[dict[str, int], int]:
    """Return how often each contender runs in a sample, and how many rounds there is time for."""
    loops, whole = {}, 0.0
    for name, run in runs.items():
        once = sampled(run, 1, False)
        if once < budget / 100:  # the first may have met a cold cache
            once = min(once, sampled(run, 1, False))
        loops[name] = 1 if timed else max(1, math.ceil(SAMPLE / max(once, 1e-9)))
        whole += max(once, 1e-9) * loops[name]
    return loops, max(FEWEST, min(ROUNDS, int(budget / whole)))
