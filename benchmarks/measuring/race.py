"""Measures peers side by side: interleaved rounds in one process, medians, and ratios of neighbours.

pytest-benchmark measures one test after the other; on a machine with other things to do, a ratio of two such figures is
noise. So the first test of a case measures all of its peers in turns, in another order each round, and each test then
replays the rounds of its peer to pytest-benchmark, by a clock that tells the measured times. A ratio is the median of
the rounds' own ratios. With ``--benchmark-disable`` each peer runs once, on small data. In both cases all peers must
give the same answer.
"""

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
#: What was measured of the case whose tests run, and the time that the replay tells.
_heat: dict[str, Any] = {}
_clock = [0.0]


def size(normal: int, quick: int) -> int:
    """Return how large data is."""
    return quick if QUICK else normal


def sizes(quick: int, *normal: int) -> tuple[int, ...]:
    """Return sizes of data; a quick run has two, as small as `quick` and one more."""
    return (quick, quick + 1) if QUICK else normal


def question(
    words: str, peers: Iterable[str] | str, *, unit: str, baseline: str = "pyarrow", **more: Any
) -> Callable[[Any], Any]:
    """Make a function that returns (or yields) what each peer runs a question: a row of the page of results.

    Above all other decorators, so that the peers of a case follow each other. The function may return the number of
    units of a run, too. Parameters of the test may be named in braces: in `words` each value is a question of its own.

    More options: ``per``, units of a run, a number or a parameter; ``timed``: runs return the seconds that count (those
    of ``unit="bytes"`` return bytes); ``once``: one round is enough, as runs take long or never vary (so do bytes);
    ``curve``: the cases are points of a growth curve, ``x`` is `per` or what else; there each runs untimed before its
    sample, without which a curve shows the caches.
    """
    names = peers.split(", ") if isinstance(peers, str) else [*peers]
    if "arrowipc" not in names or baseline not in [*names, "{beside}"]:
        raise ValueError(f"{words}: arrowipc or {baseline} takes no part")
    told = {
        "question": words,
        "unit": unit,
        "baseline": baseline,
        "per": 1,
        "timed": unit == "bytes",
        "once": unit == "bytes",
        **more,
    }
    told.setdefault("x", told["per"])

    def decorate(contenders: Callable[..., Any]) -> Any:
        @wraps(contenders)
        def test(request: Any, peer: str, benchmark: Any, **given: Any) -> None:
            params, case = request.node.callspec.params, request.node.nodeid.removesuffix(f"{peer}]")
            # These two may name a parameter; a unit that has the name of one is no parameter.
            about = told | {key: params.get(told[key], told[key]) for key in ("per", "x")}
            about |= {"words": words, "peer": peer}
            about |= {key: about[key].format(**params) for key in ("question", "baseline")}
            if "curve" in about:
                about["curve"] = [str(value) for name, value in params.items() if name not in ("peer", told["x"])]
            if _heat.get("case") != case:
                _heat.clear()
                lasting = inspect.isgeneratorfunction(contenders)
                made = contextmanager(contenders)(**given) if lasting else contenders(**given)
                with made if hasattr(made, "__enter__") else nullcontext(made) as found:
                    runs, _heat["per"] = found if isinstance(found, tuple) else (found, about["per"])
                    budget = None if benchmark.disabled else float(request.config.option.benchmark_max_time)
                    measure(runs, about, budget)
                _heat["case"] = case
            about["case"] = request.node.callspec.id.removesuffix(peer).removesuffix("-")
            replay(benchmark, about)

        own = inspect.signature(contenders).parameters.values()
        kind, ours = inspect.Parameter.POSITIONAL_OR_KEYWORD, ("request", "peer", "benchmark")
        test.__signature__ = inspect.Signature([*(inspect.Parameter(name, kind) for name in ours), *own])
        del test.__wrapped__
        return pytest.mark.parametrize("peer", names)(pytest.mark.benchmark(timer=lambda: _clock[-1])(test))

    return decorate


def replay(benchmark: Any, about: dict[str, Any]) -> None:
    """Give pytest-benchmark what was measured of a peer."""
    problem, samples = _heat["problems"].get(about["peer"]), _heat["samples"].get(about["peer"])
    if problem and about["peer"] in ("arrowipc", about["baseline"]):
        pytest.fail(f"{about['peer']}: {problem}")
    if samples is None:
        pytest.skip(f"{about['peer']}: {problem or 'takes no part, or is not installed'}")
    ratios = [a / b for a, b in zip(_heat["samples"][about["baseline"]], samples, strict=True) if b]
    benchmark.group = f"{about['question']}: {about['case']}, per {about['unit']}"
    benchmark.extra_info.update(about, ratio=statistics.median(ratios or [math.nan]), load=_heat["load"])
    per = 1 if about["unit"] == "bytes" else _heat["per"]
    rounds, _clock[:] = iter([sample / per for sample in samples]), [0.0]
    benchmark.pedantic(lambda: _clock.append(_clock[-1] + next(rounds, 0.0)), rounds=max(len(samples), 1))


def measure(runs: Runs, about: dict[str, Any], budget: float | None) -> None:
    """Check that all give the answer of the baseline, then let them take turns, if there is a budget of seconds."""
    answers, problems = able(runs, about["baseline"], about["timed"])
    samples: dict[str, list[float]] = {name: [] for name in answers}
    _heat.update(problems=problems, samples=samples, load=round(os.getloadavg()[0], 1))
    if budget is None:
        return
    if about["once"]:
        _heat["samples"] = {name: [float(found)] for name, found in answers.items()}
        return
    loops, rounds = calibrated({name: runs[name] for name in answers}, about["timed"], budget)
    gc.collect()
    gc.freeze()  # the collector runs as it would for a user, without walking our own data each time
    try:
        for turn in range(rounds):
            # Never in the same order: what one leaves behind would always hit the same other one.
            for name in random.Random(turn).sample(list(answers), len(answers)):
                end = time.perf_counter() + SETTLING * SAMPLE
                while "curve" in about and time.perf_counter() < end:
                    runs[name]()
                samples[name].append(sampled(runs[name], loops[name], about["timed"]))
    finally:
        gc.unfreeze()


def able(runs: Runs, baseline: str, timed: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Run each contender once; return the answers of those who say what the baseline says, and what others raise."""
    answers, problems = {baseline: runs[baseline]()}, {}
    for name in [name for name in runs if name != baseline]:
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
