"""Runs work in threads and processes; a process that dies of an input is started again after that input."""

import inspect
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

TESTS = Path(__file__).resolve().parents[1]
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def environment() -> dict[str, str]:
    where = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")]), *sys.path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(where)}


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a program, for at most two minutes unless `options` (of `subprocess.run`) say otherwise."""
    return _run("-c", code, *arguments, **options)


def run_module(name: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run ``python -m NAME`` in the same way."""
    return _run("-m", name, *arguments, **options)


def run_function(function: Callable[..., object], *arguments: object, **options: Any) -> Any:
    """Run a function of a module of these tests in the same way; it gets its arguments as texts."""
    return _run(*words_of(function), *arguments, **options)


def words_of(function: Callable[..., object]) -> tuple[str, str]:
    """The words that make Python call a function of a module of these tests with all further words.

    The process has no pandas: pyarrow would import it for its first array, which takes as long as all else.
    """
    path = Path(inspect.getfile(function)).relative_to(TESTS).with_suffix("")
    module = ".".join(path.parts)
    hide = "import sys; from helpers.processes import NoPandas; sys.meta_path.insert(0, NoPandas)"
    return "-c", f"{hide}; from {module} import {function.__name__} as run; run(*sys.argv[1:])"


class NoPandas:
    """Finds modules: of pandas it says that there is none."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"no module named {name!r} for this process", name=name)


def _run(*words: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    given: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120, "env": environment()}
    return subprocess.run([sys.executable, *map(str, words)], **given | options)


def printed(done: subprocess.CompletedProcess[Any]) -> Any:
    """Return the output of a program, which must have ended with status 0."""
    assert done.returncode == 0, (done.returncode, done.stdout[-500:], done.stderr[-3000:])
    return done.stdout


def shared_library(source: Path, *options: str, folder: Path | None = None) -> Path:
    """Compile a C source beside itself, or into a folder; skip the test if there is no compiler."""
    import pytest  # programs that use these helpers run without pytest

    compiler = shutil.which("cc") or shutil.which("gcc") or pytest.skip("needs a C compiler")
    made = (folder or source.parent) / f"{source.stem}.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", made, source, *options], check=True)
    return made


def start(what: Any, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    """Start a Python process with pipes for lines: it runs a function of these tests, or the given words of Python."""
    words = words_of(what) if callable(what) else (what,)
    given: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment()}
    return subprocess.Popen([sys.executable, *words, *map(str, arguments)], **given | options)


def together(*calls: Callable[[], Any]) -> list[Any]:
    """Call all at once, each in a thread of its own; return the results or the exceptions."""
    found: list[Any] = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def work(i: int) -> None:
        start.wait()
        try:
            found[i] = calls[i]()
        except BaseException as error:
            found[i] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread waits for ever"
    return found


def in_threads(work: Callable[[Any], Any], inputs: Iterable[Any]) -> list[Any]:
    """Return the result of `work` for each input, each in a thread of its own; an error in a thread is raised here."""
    found = together(*[partial(work, each) for each in inputs])
    for result in found:
        if isinstance(result, BaseException):
            raise result
    return found


def judged(module: str, *arguments: str, most_deaths: int = 200, timeout: float = 3600) -> list[dict[str, Any]]:
    """Return what was printed about each input; after one that ends a child (``died``: the signal), start another."""
    found: dict[int, dict[str, Any]] = {}
    first, deaths = 0, 0
    while True:
        child = run_module(module, *arguments, first, timeout=timeout)
        last = None
        for line in child.stdout.splitlines():
            said = json.loads(line)
            last = said.get("input", last)
            assert last is not None, line
            found.setdefault(last, {"input": last}).update(said)
        if child.returncode == 0:
            return [found[number] for number in sorted(found)]
        deaths += 1
        assert child.returncode < 0, child.stderr[-3000:]
        assert last is not None, "died before the first input"
        assert deaths <= most_deaths, child.stderr[-3000:]
        found[last]["died"] = -child.returncode
        first = last + 1


FULL = os.environ.get("ARROWIPC_FULL", "0") not in ("", "0")
#: Examples per law (tests/conftest.py).
USUAL = 30
EXAMPLES = int(os.environ.get("ARROWIPC_EXAMPLES", USUAL))


def rounds(quick: T, full: T) -> T:
    """`full` if ``ARROWIPC_FULL=1`` (``make campaign``), else `quick`, reduced like `EXAMPLES`, but not below 8."""
    if isinstance(quick, int) and not FULL and quick > 8:
        return max(8, quick * min(EXAMPLES, USUAL) // USUAL)  # type: ignore[return-value]
    return full if FULL else quick


@contextmanager
def alarms(handler: Callable[..., Any], first: float, every: float = 0) -> Iterator[None]:
    """Let the signal of a timer interrupt the main thread after some seconds, and then again and again."""
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, first, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
