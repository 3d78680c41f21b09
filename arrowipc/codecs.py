"""The codec libraries: finding them, checking their options, and the helper threads that all batches share.

Another codec takes a row of `CODECS`, a row of the table in `decode/decompress` with its functions in `inline/frames`,
and its name where options are listed (`options.Codec`, the command line, the jar's `Codec`).
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from _thread import start_new_thread
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from queue import SimpleQueue
from typing import Any, NamedTuple

from arrowipc.arguments import check_integer, described
from arrowipc.errors import MissingPackageError, UsageError, missing_package

LZ4_FRAME = 0
ZSTD = 1


class Codec(NamedTuple):
    """What is known of a codec before its library is found; `inline/frames` has how its functions are called."""

    name: str  #: as Message.fbs says it
    spellings: tuple[str, ...]  #: as users say it
    levels: tuple[int, int]  #: that its library accepts; below 0 they trade size for speed, 0 is its default
    #: Packages, and their modules that contain the library. The fastest come first; the first that works is used.
    modules: tuple[tuple[str, str], ...]
    #: The library's functions for whole buffers, by the names in `CodecFunctions`.
    decoding: dict[str, str]
    encoding: dict[str, str]


#: ``LZ4F_compressFrame`` begins every frame with empty tables, so that a frame depends on nothing but its buffer. A
#: reused context would not clear the tables: that saves 0.15 of the 1.1 us for 1 KB and nothing from 8 KB on, but
#: what is left in the tables may change which match is found. ``ZSTD_compressCCtx`` states the size in the frame and
#: reuses its context.
CODECS = {
    LZ4_FRAME: Codec(
        "LZ4_FRAME",
        ("lz4", "lz4_frame"),
        (-65536, 12),
        (("lz4.frame", "_frame"),),
        {
            "is_error": "LZ4F_isError",
            "error_name": "LZ4F_getErrorName",
            "create_lz4": "LZ4F_createDecompressionContext",
            "free": "LZ4F_freeDecompressionContext",
            "reset_lz4": "LZ4F_resetDecompressionContext",
            "decode_lz4": "LZ4F_decompress",
            "decode_block": "LZ4_decompress_safe",
        },
        {
            "is_error": "LZ4F_isError",
            "error_name": "LZ4F_getErrorName",
            "bound_lz4": "LZ4F_compressFrameBound",
            "encode_lz4": "LZ4F_compressFrame",
        },
    ),
    ZSTD: Codec(
        "ZSTD",
        ("zstd",),
        (-131072, 22),
        (("backports.zstd", "_zstd"), ("zstandard", "_cffi"), ("zstandard", "backend_c")),
        {
            "is_error": "ZSTD_isError",
            "error_name": "ZSTD_getErrorName",
            "create_zstd": "ZSTD_createDCtx",
            "free": "ZSTD_freeDCtx",
            "decode_zstd": "ZSTD_decompressDCtx",
            "most_zstd": "ZSTD_decompressBound",
            "stated_zstd": "ZSTD_findDecompressedSize",
        },
        {
            "is_error": "ZSTD_isError",
            "error_name": "ZSTD_getErrorName",
            "create_zstd": "ZSTD_createCCtx",
            "free": "ZSTD_freeCCtx",
            "bound_zstd": "ZSTD_compressBound",
            "encode_zstd": "ZSTD_compressCCtx",
        },
    ),
}
NUMBERS = {spelling: number for number, codec in CODECS.items() for spelling in codec.spellings}
DEFAULT_LEVEL = 1


def functions(codec: int, encodes: bool) -> dict[str, int]:
    """Return the addresses of a codec's functions, which packages built around liblz4 and libzstd export.

    The Python interfaces of these packages take 1.5 us per call, also for a small buffer, and return new bytes for
    every frame.
    """
    row = CODECS[codec]
    specs = [spec for each in row.modules if (spec := _spec(*each)) is not None]
    for spec in specs:
        found = _exported(spec, row.encoding if encodes else row.decoding)
        if found is not None:
            return found
    if not specs:
        what = f"compressing with {row.name}" if encodes else f"the body is compressed with {row.name}, and"
        raise missing_package(what, row.modules[-1][0].partition(".")[0])
    raise MissingPackageError(
        f"this build of {specs[0].name} does not export the functions of its library: install its wheel from PyPI"
    )


def _spec(package: str, module: str) -> ModuleSpec | None:
    """Find a module of a package; this imports only the parents of the package."""
    try:
        around = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return None
    if around is None:
        return None
    return PathFinder.find_spec(module, around.submodule_search_locations)


def _exported(spec: ModuleSpec, names: dict[str, str]) -> dict[str, int] | None:
    """Return the addresses of functions of a compiled module; None if it does not export all of them."""
    try:
        symbols = ctypes.CDLL(spec.origin)
        return {what: ctypes.cast(getattr(symbols, name), ctypes.c_void_p).value or 0 for what, name in names.items()}
    except (AttributeError, OSError):
        return None


# -- writing -------------------------------------------------------------------------------------------------


def check_codec(name: object) -> int:
    """Return the number of the codec with this name; else raise a `UsageError`."""
    if not isinstance(name, str) or name not in NUMBERS:
        raise UsageError(f"compression must be 'lz4', 'zstd' or None, as the format allows, found {described(name)}")
    return NUMBERS[name]


def check_level(codec: int, level: int | None) -> int:
    """Return the level to compress with; for None that is level 1, as in pyarrow."""
    if level is None:
        return DEFAULT_LEVEL
    return check_integer(f"compression_level of {CODECS[codec].name}", level, *CODECS[codec].levels)


def check_savings(fraction: object) -> float:
    """Return the smallest fraction of a buffer that compression must save; None gives 0, so any saving counts."""
    if fraction is None:
        return 0.0
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction < 1:
        raise UsageError(
            "min_space_savings must be a fraction from 0 to below 1 (0.1: save at least a tenth), "
            f"found {described(fraction)}"
        )
    return float(fraction)


# -- threads -------------------------------------------------------------------------------------------------


def cpus() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class HelperCall:
    """One call that is given to a helper thread. The caller can take it back until the helper begins it.

    The thread that acquires `_claim` makes the call, or takes it back. No thread waits for that lock, so that nothing
    hangs if a signal interrupts.
    """

    __slots__ = ("_claim", "_over", "_run", "error", "value")

    def __init__(self, run: Callable[[], Any]) -> None:
        self._claim, self._over = threading.Lock(), threading.Lock()
        self._over.acquire()
        self._run: Callable[[], Any] | None = run
        self.error: BaseException | None = None
        self.value: Any = None

    def __call__(self) -> None:
        """Make the call, unless it was taken back."""
        if self._run is None or not self._claim.acquire(False):
            return
        try:
            self.value = self._run()
        except BaseException as error:
            self.error = error
        finally:
            self._over.release()

    def take_back(self) -> bool:
        """Take the call back, so that no thread will begin it; return False if one has begun it already."""
        if not self._claim.acquire(False):
            return False
        self._run = None
        return True

    def end(self) -> None:
        """Take the call back, or wait for it if a helper has begun it."""
        if not self.take_back():
            self._over.acquire()

    def result(self) -> Any:
        """Return or raise what the call does; this thread makes the call if no helper has begun it."""
        run = self._run
        if run is not None and self.take_back():
            return run()
        self._over.acquire()
        if self.error is not None:
            raise self.error
        return self.value


#: The calls that wait for a helper, and the ids of the helper threads. An executor of the standard library would not
#: do: if memory runs out in one of its threads before it has started, or at the end of a `with`, callers wait for ever.
_calls: SimpleQueue[HelperCall] = SimpleQueue()
_helpers: list[int] = []


def _help(calls: SimpleQueue[HelperCall]) -> None:
    while True:
        try:
            calls.get()()
        except BaseException:  # out of memory: the thread that asked takes the call back
            continue


def _forget_helpers() -> None:
    # A forked child has the list but not the threads, so that calls given to them would never be made.
    global _calls
    _calls = SimpleQueue()
    _helpers.clear()


os.register_at_fork(after_in_child=_forget_helpers)


def ask(call: HelperCall, helpers: int) -> None:
    """Give a call to the helper threads; start one more if there are fewer than `helpers`."""
    try:
        if len(_helpers) < helpers:
            # Two threads may get here at the same time: then there is one helper more than needed.
            _helpers.append(start_new_thread(_help, (_calls,)))
    except RuntimeError:
        pass  # no more threads can start, or the interpreter is shutting down: the existing helpers do all
    if _helpers:
        _calls.put(call)


def run_shared(run: Callable[[], None], n_jobs: int) -> None:
    """Call `run` in this thread and in helpers, at most once per processor and per job; wait for all calls."""
    calls: list[HelperCall] = []
    helpers = min(cpus(), n_jobs) - 1
    try:
        for _ in range(helpers):
            calls.append(HelperCall(run))
            ask(calls[-1], helpers)
    except (MemoryError, RuntimeError):
        pass  # no memory, or no lock: this thread and the helpers that were asked do all
    try:
        run()
    finally:
        for call in calls:
            call.end()
    for call in calls:
        if call.error is not None:
            raise call.error
