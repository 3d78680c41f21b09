"""Fuzzes each target for a while, in a process of its own: ``python -m fuzz --seconds 60 [TARGET ...]``.

Each core has a target. The processes are forks of one that has imported everything.

A finding is kept as ``FOLDER/findings/TARGET-HASH.bin`` with its story beside it; the exit status is then 1.
"""

import argparse
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzz import child
from fuzz.recorder import SECONDS, Board, keep

HERE = Path(__file__).resolve().parent
#: How many processes of one target may die before it is not started again.
MOST_DEATHS = 3
#: Seconds without an execution after which a process counts as stuck; its start and end take some, too.
PATIENCE = 12 * SECONDS


@dataclass
class Result:
    """The result of one target."""

    name: str
    executions: int = 0
    seconds: float = 0
    findings: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {self.executions:,} in {self.seconds:,.0f} s, {len(self.findings)} findings"


def built_for_coverage() -> bool:
    """Whether the compiled modules report which blocks run."""
    found = importlib.util.find_spec("arrowipc._core")
    return bool(found and found.origin and b"__sanitizer_cov_trace_pc" in Path(found.origin).read_bytes())


def prepare_environment(shim: Path | None) -> None:
    """Let processes inherit our path, and preload the shim before other libraries."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])
    if shim is not None:
        os.environ["LD_PRELOAD"] = f"{shim} {os.environ.get('LD_PRELOAD', '')}".strip()
        # AddressSanitizer wants to be loaded first; the shim has nothing that it would have to see.
        options = filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"])
        os.environ["ASAN_OPTIONS"] = ":".join(options)


def engine_of(folder: Path, wanted: str) -> tuple[str, Path | None]:
    """Return the engine that is possible here, and the shim that it needs; print what is missing."""
    if not built_for_coverage():
        if wanted == "guided":
            raise SystemExit("guided: the compiled modules were not built with ARROWIPC_COVERAGE=1")
        return "mutants", None
    shim = folder / "coverage.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", str(shim), str(HERE / "coverage.c")], check=True)
    if importlib.util.find_spec("atheris") is None or wanted == "mutants":
        if wanted != "mutants":
            print("atheris is not installed (pip install atheris): mutants only, not led by coverage")
        return "mutants", shim
    return "guided", shim


class Runner:
    """Fuzzes targets of a module."""

    def __init__(self, module: str, folder: Path, seed: int, engine: str) -> None:
        self.module, self.folder, self.seed = module, folder, seed
        folder.mkdir(parents=True, exist_ok=True)
        self.engine, shim = engine_of(folder, engine)
        prepare_environment(shim)
        # Another process lists them: a module that was built for coverage loads only if the shim is preloaded.
        words = f"import {module} as found; print(*found.TARGETS)"
        self.names = subprocess.check_output([sys.executable, "-c", words], text=True).split()
        self.processes = get_context("forkserver")
        self.processes.set_forkserver_preload([module])

    def run(self, name: str, seconds: float) -> Result:
        """Fuzz one target; if its process dies, start another one for the rest of the time."""
        result, deaths = Result(name), 0
        before = self._findings(name)
        while result.seconds < seconds and deaths < MOST_DEATHS:
            start = time.monotonic()
            story = self._process(name, seconds - result.seconds, self.seed + deaths, result)
            result.seconds += time.monotonic() - start
            if story is None:
                break
            deaths += 1
        result.findings = sorted(self._findings(name) - before)
        return result

    def _findings(self, name: str) -> set[Path]:
        return set((self.folder / "findings").glob(f"{name}-*.bin"))

    def _process(self, name: str, seconds: float, seed: int, result: Result) -> str | None:
        """Run one process to its end; return the story of its death, or None."""
        path = self.folder / f"{name}.now"
        board = Board(path, create=True)
        log = self.folder / f"{name}.log"
        arguments = (self.module, name, seconds, seed, self.engine, self.folder, log)
        process = self.processes.Process(target=child.main, args=arguments)
        process.start()
        code = ended(process, board)
        result.executions += board.executions
        if code == 0 and board.running is None:
            return None
        story = f"{death(code)}\n\n{log.read_text(errors='replace')[-20_000:]}"
        keep(self.folder / "findings", name, board.running or b"", story)
        return story


def ended(process: BaseProcess, board: Board) -> int | None:
    """Wait for a process; return its exit code, or None if it was stuck and had to be killed."""
    seen, since = -1, time.monotonic()
    while True:
        process.join(1)
        if process.exitcode is not None:
            return process.exitcode
        if board.executions != seen:
            seen, since = board.executions, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            process.kill()
            process.join()
            return None


def death(code: int | None) -> str:
    """What an exit code means."""
    if code is None:
        return "stuck: it waits for something"
    if code == -signal.SIGPROF:
        return "hang: it takes more processor time than one input may"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def main(arguments: list[str] | None = None) -> int:
    """Fuzz; return the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz arrowipc.")
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--engine", choices=("best", "mutants", "guided"), default="best")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    parser.add_argument("--module", default="fuzz.targets", help="where TARGETS are")
    chosen = parser.parse_args(arguments)
    seed = int.from_bytes(os.urandom(3), "little") if chosen.seed is None else chosen.seed
    runner = Runner(chosen.module, chosen.folder.resolve(), seed, chosen.engine)
    names = chosen.targets or runner.names
    if unknown := [name for name in names if name not in runner.names]:
        parser.error(f"no target {', '.join(unknown)}; there are {', '.join(runner.names)}")
    sanitized = ", sanitized" if "libasan" in os.environ.get("LD_PRELOAD", "") else ""
    print(f"seed {seed}, {runner.engine}{sanitized}, {chosen.seconds:g} s, {len(names)} targets", flush=True)
    at_once = min(len(os.sched_getaffinity(0)), len(names))
    start = time.monotonic()
    with ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda name: runner.run(name, at_once * chosen.seconds / len(names)), names))
    findings = [path for each in results for path in each.findings]
    print(
        *results, Result("all", sum(each.executions for each in results), time.monotonic() - start, findings), sep="\n"
    )
    for path in findings:
        print(f"finding: {path}: {path.with_suffix('.txt').read_text().splitlines()[0]}")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
