"""Nothing crashes at ``validate="none"``: whatever is read of damaged bytes can be used in every way."""

from __future__ import annotations

import os
import signal

import pytest
from helpers import drive
from helpers.forge import INT32, UTF8, batch, field, i32, schema, stream
from helpers.processes import judged, rounds, run_python
from hostile import unvalidated
from peers import verdicts

import arrowipc as ipc

MUTANTS = rounds(400, 20_000)
SHARES = {"stream": 6, "file": 3, "tensor": 1}
SEED = 20261122
SANITIZED = bool(os.environ.get("ARROWIPC_SANITIZED"))
SECONDS = 30 if SANITIZED else 3


@pytest.mark.campaign
@pytest.mark.parametrize("kind", unvalidated.KINDS)
def test_mutants_survive_every_use(arrow_data, kind):
    count = MUTANTS * SHARES[kind] // sum(SHARES.values())
    lines = judged("hostile.unvalidated", kind, str(SEED), str(count), most_deaths=20)
    read = sum(line.get("read", 0) > 0 for line in lines)
    slowest = max(line.get("seconds", 0) for line in lines)
    print(f"\n{len(lines):,} mutants of golden {kind}s at none: {read:,} read and used; slowest {slowest} s")
    assert len(lines) == count
    dead = [f"input {line['input']}: signal {line['died']}" for line in lines if "died" in line]
    assert not dead, dead
    wrong = [f"input {line['input']}: {line['outcome']}" for line in lines if line["outcome"] != "survived"]
    assert not wrong, wrong[0]
    assert read > count // 4
    assert slowest < SECONDS, [line for line in lines if line["seconds"] >= SECONDS][:3]


# -- the page and the uses can fail --------------------------------------------------------------------------


def ended_by(program: str) -> int:
    return run_python(program).returncode


@pytest.mark.nosanitize  # the sanitizer turns the signal into an exit of its own
def test_the_page_behind_the_input_cannot_be_read():
    program = (
        "import ctypes\nfrom hostile.unvalidated import Guarded\nguarded = Guarded(b'12345678')\n"
        "at = ctypes.addressof(ctypes.c_char.from_buffer(guarded._map)) + 4096\n"
        "assert ctypes.string_at(at - 8, 8) == b'12345678'\nctypes.string_at(at, {})"
    )
    assert ended_by(program.format(0)) == 0
    assert ended_by(program.format(1)) == -signal.SIGSEGV


def test_good_bytes_are_read_in_front_of_the_page_and_used():
    rows = batch(2, [(2, 0), (2, 0)], [b"", i32(1, 2), b"", i32(0, 1, 2), b"ab"])
    data = stream(schema(field("x", INT32), field("s", UTF8)), rows)
    guarded = unvalidated.Guarded(data)
    for read in unvalidated.readings("stream", guarded.view):
        (found,) = read()
        assert found.column("s").to_pylist() == ["a", "b"]
        for use in unvalidated.USES.values():
            use(found)
        unvalidated.use_batch(found)
    assert unvalidated.use_unvalidated("stream", data) == 3


def test_broken_contents_get_as_far_as_the_uses(arrow_data):
    """Many mutants are such that only the contents are wrong, or nothing would be tested."""
    unproven = 0
    for data in unvalidated.mutants("stream", SEED, 400):
        if verdicts.reading(drive.from_bytes, data, validate="none")[0] == "values":
            try:
                drive.from_bytes(data, validate="full")
            except ipc.ArrowIpcError:
                unproven += 1
    assert unproven > 10
