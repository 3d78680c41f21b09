"""Fuzzes each target for a while, in a process of its own: ``python -m fuzz --seconds 60 [TARGET ...]``.

A finding is kept as ``FOLDER/findings/TARGET-HASH.bin`` with its story beside it; the exit status is then 1.
"""

import argparse
import importlib
import importlib.util
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.recorder import SECONDS, Board, keep

HERE = Path(__file__).resolve().parent
#: Processes of one target that may die before it is left alone.
MOST_DEATHS = 3
#: Seconds without an execution after which a process waits for something: starting and ending take some.
PATIENCE = 12 * SECONDS


@dataclass
class Result:
    """How one target went."""

    name: str
    executions: int = 0
    seconds: float = 0
    processor: float = 0
    findings: list[Path] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}: {self.executions:,} in {self.processor:,.0f} s of CPU, {len(self.findings)} findings"


def built_for_coverage() -> bool:
    """Whether the compiled modules report which blocks run."""
    found = importlib.util.find_spec("arrowipc._core")
    return bool(found and found.origin and b"__sanitizer_cov_trace_pc" in Path(found.origin).read_bytes())


def environment(shim: Path | None) -> dict[str, str]:
    """What the processes inherit: our path, and the shim in front of what is preloaded."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), *filter(None, sys.path)])}
    if shim is not None:
        env["LD_PRELOAD"] = f"{shim} {env.get('LD_PRELOAD', '')}".strip()
        # AddressSanitizer wants to be first; ours has nothing that it would have to see.
        env["ASAN_OPTIONS"] = ":".join(filter(None, [env.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    return env


def engine_of(folder: Path, wanted: str) -> tuple[str, Path | None]:
    """The engine that is possible here, and the shim that it needs; says what is missing."""
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
    """Fuzzes targets of a module, one after the other."""

    def __init__(self, module: str, folder: Path, seed: int, engine: str) -> None:
        self.module, self.folder, self.seed = module, folder, seed
        folder.mkdir(parents=True, exist_ok=True)
        self.engine, shim = engine_of(folder, engine)
        self.env = environment(shim)
        # Asked for in a process: a module that was built for coverage loads behind the shim alone.
        words = f"import {module} as found; print(*found.TARGETS)"
        command = [sys.executable, "-c", words]
        self.names = subprocess.check_output(command, env=self.env, text=True).split()

    def run(self, name: str, seconds: float) -> Result:
        """Fuzz one target; a process that dies is followed by another one, for what is left of the time."""
        result, deaths = Result(name), 0
        before = self._findings(name)
        while result.seconds < seconds and deaths < MOST_DEATHS:
            start, used = time.monotonic(), processor_time()
            story = self._process(name, seconds - result.seconds, self.seed + deaths, result)
            result.seconds += time.monotonic() - start
            result.processor += processor_time() - used
            if story is None:
                break
            deaths += 1
        result.findings = sorted(self._findings(name) - before)
        return result

    def _findings(self, name: str) -> set[Path]:
        return set((self.folder / "findings").glob(f"{name}-*.bin"))

    def _process(self, name: str, seconds: float, seed: int, result: Result) -> str | None:
        """Run one process to its end; return what it died of, if it did."""
        path = self.folder / f"{name}.now"
        board = Board(path, create=True)
        log = self.folder / f"{name}.log"
        command = [sys.executable, "-m", "fuzz.child", self.module, name]
        command += [str(seconds), str(seed), self.engine, str(self.folder)]
        with log.open("wb") as out:
            child = subprocess.Popen(command, env=self.env, stdout=out, stderr=out)
            code = ended(child, board)
        result.executions += board.executions
        if code == 0 and board.running is None:
            return None
        story = f"{death(code)}\n\n{log.read_text(errors='replace')[-20_000:]}"
        keep(self.folder / "findings", name, board.running or b"", story)
        return story


def ended(child: subprocess.Popen[bytes], board: Board) -> int | None:
    """Wait for a process; None: it had to be killed."""
    seen, since = -1, time.monotonic()
    while True:
        try:
            return child.wait(1)
        except subprocess.TimeoutExpired:
            if board.executions != seen:
                seen, since = board.executions, time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                child.kill()
                child.wait()
                return None


def death(code: int | None) -> str:
    """What an exit code means."""
    if code is None:
        return "stuck: it waits for something"
    if code == -signal.SIGPROF:
        return "hang: it takes more processor time than one input may"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def processor_time() -> float:
    """Seconds of processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
    results = [runner.run(name, chosen.seconds / len(names)) for name in names]
    total = [sum(getattr(each, name) for each in results) for name in ("executions", "seconds", "processor")]
    print(*results, Result("all", *total, [path for each in results for path in each.findings]), sep="\n")
    for each in (path for result in results for path in result.findings):
        print(f"finding: {each}: {each.with_suffix('.txt').read_text().splitlines()[0]}")
    return int(any(each.findings for each in results))


if __name__ == "__main__":
    sys.exit(main())
