"""The fuzzer, for a short while: all targets stand some hundred mutants, and the fuzzer finds what is there.

`make fuzz` runs the same targets for as long as one likes; what it finds becomes a file of tests/regressions.
"""

import os
import random
import struct
from pathlib import Path

import pytest
from fuzz import corpus
from fuzz.targets import TARGETS
from helpers import forge, golden, memory, mutate
from helpers.processes import FULL, rounds, run_module

SEED = 7
SANITIZED = bool(os.environ.get("ARROWIPC_SANITIZED"))
#: Mutants per target.
COUNT = int(os.environ.get("ARROWIPC_MUTANTS", rounds(60, 20_000)))
SECONDS, MEMORY = (80, 1 << 40) if SANITIZED else (4, 256 << 20)
#: Those that open many files.
SLOW = ("dataset", "awaited-file", "rows", "row-dataset", "growing-stream", "browse")
REGRESSIONS = sorted(corpus.REGRESSIONS.glob("*.bin"))


@pytest.mark.campaign
@pytest.mark.parametrize("name", TARGETS)
def test_mutants_give_values_or_errors_of_ours(name):
    target = TARGETS[name]
    read = 0
    count = COUNT if FULL or name not in SLOW else COUNT // 8
    for data in mutate.mixed(target.seeds(), SEED, count):
        try:
            read += target(data)
        except Exception as error:
            raise AssertionError(f"target {name}, input {data.hex()}") from error
    assert (0 if count < 50 else 1) <= read <= count
    print(f"{name}: {count:,} mutants, {read:,} gave values")


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_are_read(name):
    """Guards the test above against a target that refuses everything."""
    target = TARGETS[name]
    seeds = target.seeds()[:30]
    read = sum(target(data) for data in seeds)
    assert read >= 0.6 * len(seeds)


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_is_not_found_again(path):
    data = path.read_bytes()
    for name, target in TARGETS.items():
        target(data)
        for seed in range(rounds(2, 20)):
            target.run(data, random.Random(f"{name} {seed}"))


def test_files_that_broke_other_readers_give_values_or_an_error_quickly(arrow_data):
    found = [path for folder in golden.HOSTILE for path in sorted((arrow_data / folder).glob("c*")) if path.is_file()]
    for folder, count in golden.HOSTILE.items():
        assert sum(path.parent.name == folder for path in found) >= count, folder
    for path in found:
        data = path.read_bytes()
        for name in ("stream", "file", "push", "message", "payload", "recover"):
            with memory.at_most(MEMORY, SECONDS):
                for seed in range(4):
                    TARGETS[name].run(data, random.Random(f"{name} {seed}"))


def fuzz(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of the runner."""
    options = ("--folder", folder, "--engine", "mutants", "--seed", 1)
    done = run_module("fuzz", *options, *arguments, timeout=300)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_fuzzer_finds_planted_bugs(tmp_path):
    """An exception, a crash, a hang and a bomb: each becomes a finding with its input, and the others go on."""
    code, text = fuzz(tmp_path, "--module", "fuzz.planted", "--seconds", "4", "index", "crash", "hang", "greedy")
    assert code == 1, text
    found = {path.name.split("-")[0]: path for path in (tmp_path / "findings").glob("*.bin")}
    stories = {name: path.with_suffix(".txt").read_text() for name, path in found.items()}
    assert sorted(stories) == ["crash", "greedy", "hang", "index"], text
    assert stories["greedy"].startswith("memory")
    assert stories["index"].startswith("IndexError at planted.py")
    assert "SIGSEGV" in stories["crash"] or "AddressSanitizer" in stories["crash"]
    assert stories["hang"].startswith("hang")
    assert forge.read(found["index"].read_bytes(), "header.nodes[0].length") >= 2**31 - 1
    assert forge.read(found["crash"].read_bytes(), "header.buffers[1].length") < 0


def test_the_fuzzer_is_content_with_a_sound_target(tmp_path):
    code, text = fuzz(tmp_path, "--module", "fuzz.planted", "--seconds", "0.5", "sound")
    assert code == 0, text
    assert "seed 1" in text
    executions = int(text.splitlines()[-1].split()[1].replace(",", ""))
    assert executions > 10, text


DATA = forge.file(
    forge.schema(forge.field("x", forge.INT32), metadata=[("k", "v")]),
    forge.batch(2, [(2, 0)], [b"", forge.i32(1, 2)], codec=0),
)


def test_slots_are_where_forge_says():
    """Two walks, one by the path of a word and one over all words."""
    found = {(slot.offset, slot.width) for slot in mutate.slots(DATA)}
    schema, batch = mutate.spans(DATA)
    for span, paths in (
        (schema, ("version", "header", "header.fields", "header.fields.#", "header.fields[0].type.bitWidth")),
        (schema, ("header.vtable", "header.custom_metadata[0].key.#", "header.fields[0].name")),
        (batch, ("bodyLength", "header.length", "header.nodes[0].null_count", "header.buffers[1].offset")),
        (batch, ("header.compression.codec", "header.nodes.#")),
    ):
        for path in paths:
            at, code = forge.locate(DATA[span.start :], path)
            assert (span.start + at, struct.calcsize(code)) in found, path
    kinds = {slot.kind for slot in mutate.slots(DATA)}
    assert kinds >= {"magic", "continuation", "length", "root", "soffset", "vtable", "count", "offset", "tag"}
    assert kinds >= {"enum", "claim", "body", "footer length", "Block.offset", "Buffer.length"}


def test_mutants_follow_from_the_seed():
    first, again, other = (list(mutate.mutants(DATA, seed, 300)) for seed in (1, 1, 2))
    assert first == again != other


def test_the_walk_stands_its_own_mutants():
    data = DATA
    for seed in range(400):
        (data,) = mutate.mutants(data or DATA, seed, 1)
        assert all(0 <= slot.offset <= len(data) - slot.width for slot in mutate.slots(data))
