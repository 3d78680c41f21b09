"""The law of dictionaries: whatever becomes of them from batch to batch, everybody finds the values of every batch."""

import random
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from helpers import drive, histories
from helpers.arrays import batch_of_columns, ipc_bytes, pyarrow_bytes, read, read_by_pyarrow
from helpers.histories import SHAPES, SHARED, Batch, came, drawn, table_of, texts, together
from helpers.processes import rounds
from helpers.randoms import POOLS

import arrowipc as ipc
from arrowipc import UsageError
from arrowipc.decode import file_decoder

CODECS = (None, "lz4", "zstd")
ALL = ("any type", *SHAPES)
#: Histories of each shape: as many as there are layouts.
COUNT = rounds(len(POOLS), 1000)


# -- what is written -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [*histories.STREAMS, *histories.FILES], ids=str)
@pytest.mark.parametrize("shape", ALL)
def test_090_to_101_a_writer_sends_what_its_readers_lack_and_no_more(shape, options):
    for seed in range(COUNT):
        history, chance = drawn(shape, seed)
        batches, shown, values = came(history, shape, chance)
        out = histories.Out(SHARED if shape == "shared" else batches[0].schema, **options)
        known = histories.Known([0, 0] if shape == "shared" else [*range(len(shown[0]))], **options)
        # What came by deltas goes by deltas, unless somebody decides.
        predicted = shape != "nested" and (options.get("file") or "deltas" in options)
        refuses = not options.get("unify") and (options.get("file") or shape == "shared")
        expected = []
        for batch, columns, brought in zip(batches, shown, values, strict=True):
            wanted = known.before(brought) if predicted else None
            try:
                news = out.write(batch)
            except UsageError:  # which leaves everything as it was
                assert refuses, seed
                assert wanted is None, seed
                assert out.news() == [], seed
                continue
            assert not predicted or news == wanted, seed
            assert out.write(batch) == [], (seed, "what readers have goes out again")
            expected += [texts(columns)] * 2
        news = out.close()
        assert not predicted or news == known.at_close(), seed
        found = read(out.sink, validate="strict")
        assert [texts(one) for one in found] == expected, seed
        for id, one in zip(known.ids, found[-1].columns if predicted and found else (), strict=False):
            if one.dictionary is not None:
                assert list(map(repr, one.dictionary.to_pylist())) == known.values(id), seed
        if shape != "nested":
            theirs = read_by_pyarrow(bytes(out.sink), "file" if out.file else "stream")[1]
            assert [texts(one) for one in theirs] == expected, seed
            for one in theirs:
                one.validate(full=True)


# -- what is appended ----------------------------------------------------------------------------------------


def written(path: Path, kind: str, append: bool, like: Any, batches: Iterable[Any], **options: Any) -> list[list[str]]:
    """What a writer took of some batches; one that is refused, or a writer that is, changes nothing."""
    taken = []
    before = path.read_bytes() if path.exists() else None
    try:
        with (ipc.new_file if kind == "file" else ipc.new_stream)(path, like, append=append, **options) as out:
            for one in batches:
                with suppress(UsageError):
                    out.write(one)
                    taken.append(texts(one))
    except UsageError:
        assert not taken
        assert (path.read_bytes() if path.exists() else None) == before
    return taken


@pytest.mark.campaign
@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("kind", ["file", "stream"])
def test_whatever_is_there_is_continued_so_that_all_readers_find_every_batch(tmp_path, kind, shape) -> None:
    """Who wrote first and how, and who appended how; each state is read by pyarrow and by us."""
    how = [
        {"dictionary_deltas": deltas, "unify_dictionaries": unify}
        for deltas in (None, False, True)
        for unify in (False, True)
    ]
    seen: Counter[str] = Counter()
    for seed in range(rounds(20, 2000)):
        (history, chance), path = drawn(shape, seed), tmp_path / f"{seed}"
        batches = [batch_of_columns(*columns) for columns in history]
        like = SHARED if shape == "shared" else batches[0].schema
        first, cut = chance.choice(["pyarrow", "ours", "nothing"]), chance.randint(0, 2)
        expected: list[list[str]] = []
        if first == "pyarrow" and shape != "shared":
            cut = min(cut, 1)
            path.write_bytes(pyarrow_bytes([table_of(one) for one in history[:cut]], kind, table_of(history[0]).schema))
            expected += map(texts, history[:cut])
            del batches[:cut]
        elif first == "ours":
            options = {"checksum": chance.random() < 0.3, "durable": False, **chance.choice(how)}
            expected += written(path, kind, False, like, batches[:cut], **options)
            del batches[:cut]
        while batches:
            cut = chance.randint(0, 2)
            data = path.read_bytes() if path.exists() else b""
            torn = data[: len(data) - chance.randint(0, 8)] if kind == "stream" else data  # without its end marker
            if data:
                path.write_bytes(torn)
            added = written(path, kind, True, like, batches[:cut], durable=False, **chance.choice(how))
            if data and path.read_bytes() == torn:
                path.write_bytes(data)
            expected += added
            seen["taken"] += len(added)
            del batches[:cut]
            if path.exists():
                check_stored(path, kind, expected, shape)
                seen["read"] += 1
    print(seen)
    assert seen["taken"] > rounds(20, 2000) / 2, seen


def check_stored(path: Path, kind: str, expected: list[list[str]], shape: str) -> None:
    assert [texts(one) for one in read(path, validate="strict", verify=None)] == expected, path
    report = ipc.validate(path)
    assert report.ok, (path, report)
    if shape != "nested":  # with checksums, others see a last batch without rows
        found = [texts(one) for one in read_by_pyarrow(path.read_bytes(), kind)[1]]
        assert found in (expected, [*expected, ["[]"] * len(found[-1])] if found else []), path


# -- what readers find ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ALL)
def test_every_reader_finds_the_values_and_puts_batches_together(shape, monkeypatch):
    for seed in range(COUNT):
        history, chance = drawn(shape, seed)
        data = pyarrow_bytes([table_of(one) for one in history], emit_dictionary_deltas=chance.random() < 0.7)
        monkeypatch.setattr(file_decoder, "KEPT_DICTIONARIES", chance.choice([0, 1 << 26]))
        last = len(history[0]) - 1
        some: dict[str, Any] = chance.choice([{}, {"columns": [last]}])
        reading = drive.read_stream(data, validate=chance.choice(drive.LEVELS), **some)
        assert [texts(one) for one in reading.batches] == [texts(one[last:] if some else one) for one in history], seed
        batches, shown, _ = came(history, shape, chance)
        rows = [*range(sum(batch.num_rows for batch in batches))]
        table = ipc.Table.from_batches(batches)
        for joined in (ipc.concat_batches(batches), table.combine(), table.take(rows).combine()):
            one = pa.record_batch(joined)
            one.validate(full=True)
            assert texts(one) == together(shown), seed


# -- what payloads become ------------------------------------------------------------------------------------

TORN = b"\xff\xff\xff\xff\x10\0\0\0garbage!garbage!"


@dataclass
class Cell:
    """A payload, and the batches in it, of which only those count that are `good`."""

    data: bytes
    batches: list[Batch]
    good: bool


def cells_of(history: list[Batch], chance: random.Random) -> list[Cell]:
    """Payloads of one batch or several: streams of pyarrow or of ours, files, and some that fail at their end."""
    found, at = [], 0
    while at < len(history):
        kind, codec = chance.choice(["stream", "stream", "file", "ours", "torn"]), chance.choice(CODECS)
        part = history[at : at + (1 if kind == "file" else chance.randint(1, 3))]
        at += len(part)
        tables = [table_of(one) for one in part]
        if kind == "ours":
            batches = [batch_of_columns(*one) for one in part]
            data = ipc_bytes(batches, dictionary_deltas=chance.random() < 0.5, compression=codec)
        elif kind == "file":
            data = pyarrow_bytes(tables, "file", compression=codec)
        else:
            data = pyarrow_bytes(tables, emit_dictionary_deltas=chance.random() < 0.5, compression=codec)
            data = data[:-8] + TORN if kind == "torn" else data
        found += [Cell(data, part, kind != "torn")] * chance.choice([1, 1, 2])
        if kind == "torn" and chance.random() < 0.7:
            found.append(Cell(data.removesuffix(TORN), part, True))
    return found


@pytest.mark.parametrize("how", ["unify", "decode"])
@pytest.mark.parametrize("shape", ALL)
def test_payloads_have_the_values_of_each_alone_and_one_dictionary_of_all(shape, how):
    for seed in range(COUNT):
        history, chance = drawn(shape, seed)
        cells = cells_of(history, chance) + cells_of(history[::-1], chance)
        level = chance.choice(drive.LEVELS)
        options: dict[str, Any] = {"validate": level, "dictionaries": how, "on_error": "skip"}
        at, steps = 0, []
        while at < len(cells):
            limit = chance.choice([{}, {}, {"max_rows": 1}, {"max_rows": 8}, {"max_bytes": 400}])
            made = ipc.decode_payloads([cell.data for cell in cells], start=at, **limit, **options)
            steps.append((made, cells[at : made.next]))
            at = made.next
        for made, some in steps:
            assert made.counts.to_pylist() == [cell.good * sum(len(one[0]) for one in cell.batches) for cell in some]
            if good := [columns for cell in some if cell.good for columns in cell.batches]:
                one = pa.record_batch(made.batch)
                one.validate(full=True)
                assert texts(one) == together(good), seed
                kept = [column.dictionary for column in made.batch.columns]
                assert how == "unify" or kept == [None] * len(kept)
                if how == "unify" and shape not in ("nested", "held"):
                    known = [list(map(repr, dictionary.to_pylist())) for dictionary in kept]
                    brought = zip(*(histories.spelled(columns, shape) for columns in good), strict=True)
                    assert known == [histories.distinct(each) for each in brought], seed


@pytest.mark.parametrize("trim", [True, False])
@pytest.mark.parametrize("shape", ALL)
def test_payloads_of_a_batch_have_its_rows(shape, trim):
    for seed in range(COUNT):
        history, chance = drawn(shape, seed)
        for batch, columns in list(zip(*came(history, shape, chance)[:2], strict=True))[:3]:
            every = [*range(batch.num_rows + 1)]
            ends = chance.choice([every, sorted(chance.choices(every, k=4))])
            payloads = ipc.encode_payloads(batch, ends, trim_dictionaries=trim, compression=chance.choice(CODECS))
            for cell, start, end in zip(payloads.to_pylist(), ends, ends[1:], strict=False):
                (found,) = ipc.open_stream(cell, validate="strict")
                assert texts(found) == [repr(one[start:end].to_pylist()) for one in columns], seed
                (theirs,) = read_by_pyarrow(cell)[1]
                theirs.validate(full=True)
                assert shape == "nested" or texts(theirs) == texts(found), seed
