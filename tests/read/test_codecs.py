"""How codec libraries are found and called: absent packages, threads, forks."""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers.arrays import column_of, pyarrow_bytes
from read.codec_ways import look_again

from arrowipc import FormatError, codecs

lz4 = pytest.importorskip("lz4.frame")
zstandard = pytest.importorskip("zstandard")

CONTENT = np.arange(40_000, dtype="<i8")
ZSTD_SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "checksum": {"write_checksum": True},
    "no content size": {"write_content_size": False},
    "level 19": {"level": 19},
}


@pytest.fixture(params=["backports.zstd", "zstandard"])
def zstd_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both builds of libzstd."""
    builds = [build for build in codecs.MODULES[codecs.ZSTD] if build[0] == request.param]
    pytest.importorskip(request.param)  # from Python 3.14 on the standard library takes the place of backports
    monkeypatch.setitem(codecs.MODULES, codecs.ZSTD, builds)
    look_again(monkeypatch)
    return str(request.param)


def forged(frame: bytes, claim: int, number: int = codecs.LZ4_FRAME) -> bytes:
    from helpers.forge import INT64, batch, field, i64, schema, stream as write

    rows = claim // 8
    return write(schema(field("x", INT64)), batch(rows, [(rows, 0)], [b"", i64(claim) + frame], codec=number))


def test_109_empty_frames():
    assert column_of(forged(lz4.compress(b""), 0)) == []
    assert column_of(forged(zstandard.compress(b""), 0, codecs.ZSTD)) == []


@pytest.mark.parametrize("shape", ZSTD_SHAPES)
@pytest.mark.parametrize("size", [1, 8, 1000, CONTENT.nbytes // 8])
def test_109_every_shape_of_zstd_frame(zstd_way, shape, size):
    content = CONTENT[:size].tobytes()
    frame = zstandard.ZstdCompressor(**ZSTD_SHAPES[shape]).compress(content)
    assert column_of(forged(frame, 8 * size, codecs.ZSTD)) == CONTENT[:size].tolist()
    for stored in (frame[:-1], frame + b"\0", frame + frame, frame[: len(frame) // 2]):
        with pytest.raises(FormatError, match=r"column 'x': buffer 1: .*ZSTD"):
            column_of(forged(stored, len(content), codecs.ZSTD))
    # A context that met an error decodes the next frame as if nothing had been.
    assert column_of(forged(frame, 8 * size, codecs.ZSTD)) == CONTENT[:size].tolist()


def test_an_interrupt_at_any_point_leaves_the_helpers_free(monkeypatch):
    """A signal is handled between any two lines: the helpers must not wait for what never comes."""
    monkeypatch.setattr(codecs, "_cpus", lambda: 2)
    monkeypatch.setattr(codecs, "_helpers", [])
    monkeypatch.setattr(codecs, "_turns", queue.SimpleQueue())
    lines: set[tuple[str, int]] = set()

    def interrupt(frame: Any, what: str, _: Any) -> Any:
        place = frame.f_code.co_name, frame.f_lineno
        if frame.f_code.co_filename == codecs.__file__ and what == "line" and place not in lines:
            lines.add(place)
            raise KeyboardInterrupt
        return interrupt

    while True:
        before, tracer = len(lines), sys.gettrace()
        sys.settrace(interrupt)
        try:
            codecs.run_shared(list, 2)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(tracer)
        codecs.ask(codecs.Turn((served := threading.Event()).set), 1)
        assert served.wait(20), sorted(lines)[-1]
        if len(lines) == before:
            break
    assert {name for name, _ in lines} >= {"run_shared", "end"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_forked_child_has_a_pool_of_its_own(compression):
    """Spark's daemon imports, maybe decodes, and then forks its workers."""
    data = pyarrow_bytes(pa.record_batch({name: np.arange(100_000) for name in "abcd"}), compression=compression)
    assert len(column_of(data, "a")) == 100_000
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if len(column_of(data, "a")) == 100_000 else 1)
        except BaseException:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
