"""Settings of pytest for all tests: the profile of hypothesis, order and threads of tests, and the golden data."""

import gc
import inspect
import os
import warnings
from collections.abc import Callable
from itertools import compress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any
from zlib import crc32

import pytest
from helpers import golden
from helpers.processes import EXAMPLES
from hypothesis import HealthCheck, settings

# Deterministic, so that a failed run fails again; `HYPOTHESIS_PROFILE=search` looks for new examples.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)
settings.register_profile("search", settings.get_profile("fixed"), derandomize=False, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


TESTS = Path(__file__).parent

#: Folders of tests that take longest. They come first, so that no process is alone with one of them at the end.
LONG = ("spark", "dissociated", "hostile", "laws")


#: Folders whose tests cannot run in several threads at once (pytest-run-parallel), and the reasons. `ALONE_NAMES` has
#: the same for tests that use a name, themselves or in a function of these tests that they call.
ALONE_FOLDERS = {
    **dict.fromkeys(
        ("spark", "dissociated", "cli", "hostile", "peers", "fuzz"), "starts processes, servers or sessions"
    ),
    "project": "reads and builds the project",
    **dict.fromkeys(("aio", "checklist"), "has an event loop, one for all that it shares"),
}
#: Names that a test uses, and why that cannot be in several threads at once.
ALONE_NAMES = {
    name: reason
    for reason, names in {
        "starts processes": "run_python judged Popen subprocess fork kill",
        "has threads of its own": "together in_threads Thread",
        "counts what a process holds": "counts more_than peak resident addressed at_most live_objects",
        "measures time": "process_time perf_counter getrusage",
        "changes the process": "chdir umask setrlimit setitimer seteuid settrace isenabled",
        "has one folder or one process for all threads": "tmp_path folder monkeypatch pipe_file",
        "changes which warnings are shown": "warns catch_warnings importorskip",
        "has pyarrow export what it cast, which ends the process in threads without a GIL (24.0)": "cast_by_pyarrow",
    }.items()
    for name in names.split()
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", metavar="K/N", help="run part K, from 0 on, of N: each file of tests is in one, each twin too"
    )


def part_name(item: pytest.Item) -> str:
    """What decides in which part a test is: its file, of twins each one."""
    return item.name if item.path.stem == "test_twins" else item.path.relative_to(TESTS).as_posix()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort by folder; the order within a file stays. With several threads, mark the tests that cannot run in them."""
    if wanted := config.getoption("part"):
        part, parts = map(int, wanted.split("/"))
        chosen = [crc32(part_name(item).encode()) % parts == part for item in items]
        config.hook.pytest_deselected(items=[item for item, keep in zip(items, chosen, strict=True) if not keep])
        items[:] = compress(items, chosen)
    items.sort(key=lambda item: LONG.index(item.path.parent.name) if item.path.parent.name in LONG else len(LONG))
    if config.getoption("parallel_threads", 1) in (1, "1"):
        return
    for item in items:
        reason = ALONE_FOLDERS.get(item.path.parent.name)
        if reason is None and isinstance(item, pytest.Function):
            used = names_used(item.function).union(item.fixturenames)
            reason = next((ALONE_NAMES[name] for name in used if name in ALONE_NAMES), None)
        if reason is not None:
            item.add_marker(pytest.mark.thread_unsafe(reason=reason))


def names_used(function: Callable[..., Any]) -> set[str]:
    """The names in the code of a function, of functions inside it, and of functions of these tests that it calls."""
    found: set[str] = set()
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    codes: list[tuple[CodeType, dict[str, Any]]] = [(function.__code__, function.__globals__)]
    seen: set[CodeType] = set()
    while codes:
        code, known = codes.pop()
        if code in seen:
            continue
        seen.add(code)
        found.update(code.co_names)
        codes += [(each, known) for each in code.co_consts if isinstance(each, CodeType)]
        for called in [inspect.unwrap(known[name]) for name in code.co_names if callable(known.get(name))]:
            if isinstance(called, FunctionType) and Path(called.__code__.co_filename).is_relative_to(TESTS):
                codes.append((called.__code__, called.__globals__))
    return found


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each file to one process; all quick tests of Spark to the same, so that one JVM starts and warms up.

    Twins start a Spark for each of their masters, which may be in any process. Targets of the fuzzer know nothing of
    each other; in a campaign each takes minutes.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith("tests/spark/") and config.option.markexpr.startswith("not slow"):
                return "tests/spark"
            if nodeid.startswith("tests/spark/test_twins.py"):
                return nodeid.partition("-")[0]
            if nodeid.startswith("tests/hostile/test_fuzz.py"):
                return nodeid
            return super()._split_scope(nodeid)

    return Scheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Let no file wait for the disk: tests that look for `os.fsync` put their own in its place."""
    patch = pytest.MonkeyPatch()
    patch.setattr(os, "fsync", lambda descriptor: None)
    config.add_cleanup(patch.undo)


def pytest_sessionstart() -> None:
    """Collect tests without the garbage collector, which would find nothing and take a tenth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Let the collector skip the twenty thousand tests and the libraries, which it would walk each time."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Let the collector also skip what a file of tests left: then tests that collect take a tenth of the time."""
    if nextitem is not None and nextitem.path != item.path:
        with warnings.catch_warnings():
            # The collector may find files that a test left open at any time, also here, where no test runs.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Let the collector see all objects again: at exit, libraries complain about objects that were never collected."""
    gc.unfreeze()


@pytest.fixture(scope="session")
def arrow_data() -> Path:
    """The folder arrow-testing/data, or the part of it in the repository."""
    root = golden.data_root()
    assert (root / "arrow-ipc-stream/integration").is_dir(), f"{root} is not arrow-testing/data"
    return root
