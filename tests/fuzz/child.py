"""The process that fuzzes one target.

The engine "mutants" runs mutants of the corpus; "guided" lets libFuzzer (atheris) choose them by their coverage.
"""

import ctypes
import importlib
import itertools
import os
import random
import time
from pathlib import Path
from typing import Any

from helpers import mutate

from fuzz.recorder import MEMORY, SECONDS, Recorder

#: The most bytes of an input that libFuzzer makes.
LARGEST = 1 << 16


def by_mutants(record: Recorder, seeds: list[bytes], seconds: float, seed: int) -> None:
    """Run the seeds themselves, then mutants of them until the time is over."""
    end = time.monotonic() + seconds
    # The rounds of two seeds are far apart, so that the next seed does not repeat any.
    rounds = (mutate.mixed(seeds, each, 4 * len(seeds)) for each in itertools.count(seed << 32))
    for data in itertools.chain(seeds, itertools.chain.from_iterable(rounds)):
        if time.monotonic() > end:
            return
        record(data)


def by_coverage(record: Recorder, seeds: list[bytes], seconds: float, seed: int, folder: Path) -> None:
    """Run mutants led by coverage: our mutator makes every second one, libFuzzer the others."""
    import atheris

    chance = random.Random(seed)

    def change(data: bytes, largest: int, number: int) -> bytes:
        if number % 2:
            return bytes(atheris.Mutate(data, largest))
        mutator = mutate.Mutator(data, random.Random(number), chance.choice(seeds))
        return mutator.mutant()[:largest]

    found, given = folder / "corpus" / record.name, folder / "seeds" / record.name
    for place in (found, given):
        place.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(seeds):
        (given / str(number)).write_bytes(data)
    flags = [f"-max_total_time={max(int(seconds), 1)}", f"-seed={seed % 2**31 or 1}", f"-max_len={LARGEST}"]
    flags += ["-timeout=100000", "-rss_limit_mb=0", "-detect_leaks=0", "-print_final_stats=1"]
    flags += [f"-artifact_prefix={folder}/libfuzzer-", "-reload=0"]
    attached: list[bool] = []

    def run(data: bytes) -> None:
        if not attached:
            attached.append(attach())  # not before: libFuzzer looks for the mutator when it is loaded
        record(bytes(data))

    atheris.Setup(["fuzz", *flags, str(found), str(given)], run, custom_mutator=change)
    atheris.Fuzz()


def attach() -> bool:
    """Let the compiled modules report to libFuzzer."""
    core = importlib.import_module("atheris.core_with_libfuzzer").__file__
    shim: Any = ctypes.CDLL(None)
    if not shim.arrowipc_fuzz_attach(os.fsencode(str(core))):
        raise SystemExit(f"{core} has no libFuzzer to report to")
    return True


def main(module: str, name: str, seconds: float, seed: int, engine: str, place: Path, log: Path) -> None:
    """Fuzz a target of a module; all output goes to the log."""
    with log.open("wb") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    home = importlib.import_module(module)
    target = home.TARGETS[name]
    bounds = getattr(home, "SECONDS", SECONDS), getattr(home, "MEMORY", MEMORY)
    record = Recorder(name, target, place / f"{name}.now", place / "findings", *bounds)
    record.listen()
    seeds = target.seeds()
    if engine == "guided":
        by_coverage(record, seeds, seconds, seed, place)
    else:
        by_mutants(record, seeds, seconds, seed)
