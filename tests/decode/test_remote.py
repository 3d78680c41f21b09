"""Files behind URLs: what is fetched, with how many requests, and what is said when a server is broken."""

import base64
import errno
import shutil
import struct
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers import randoms
from helpers.arrays import ipc_bytes, pyarrow_bytes
from helpers.web import Web
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import RemoteSource, recover
from arrowipc.sources.http import MOST
from arrowipc.sources.remote import GAP, HEADS, TAIL, WINDOW
from arrowipc.types import field, int64

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

ROWS = 1 << 16
COLUMNS = [f"c{number}" for number in range(12)]
WIDE = ipc.Schema([field(name, int64()) for name in COLUMNS])


def wide(rows: int, start: int = 0) -> ipc.RecordBatch:
    return ipc.RecordBatch.from_pydict(
        {name: np.arange(start, start + rows) + 1000 * i for i, name in enumerate(COLUMNS)}, WIDE
    )


@pytest.fixture(scope="module")
def large() -> bytes:
    """Three batches of 12 columns of 512 KiB: several windows, and columns that are further apart than GAP."""
    return ipc_bytes([wide(ROWS, start) for start in range(3)], "file")


@pytest.fixture(scope="module")
def small() -> bytes:
    """600 batches of 10 KB."""
    return ipc_bytes([wide(100, start) for start in range(600)], "file")


@pytest.fixture
def web() -> Iterator[Web]:
    with Web({}) as server:
        yield server


def same(url: Any, data: bytes, **options: Any) -> None:
    with ipc.open_file(url, **options) as found, ipc.open_file(data, **options) as wanted:
        assert found.schema.equals(wanted.schema)
        assert found.read_all().to_batches() == wanted.read_all().to_batches()


# How much is fetched.


def test_opening_costs_the_size_both_ends_and_no_more(web: Web, large: bytes) -> None:
    web.files["x.arrow"] = large
    for opener in (ipc.open_file, ipc.open):
        web.log.clear()
        with opener(web.url("x.arrow")) as reader:
            assert reader.num_record_batches == 3
        assert [request.method for request in web.log] == ["GET", "GET"]
        assert web.sent() == 8 + TAIL


def test_servers_that_know_no_ranges_from_the_end(web: Web, large: bytes) -> None:
    web.files["x.arrow"], web.fault = large, "no ends"
    with ipc.open_file(web.url("x.arrow"), columns=["c1"]) as reader:
        assert len(web.log) == 3  # the size, a range that is refused, and both ends; then the end that is known
        assert web.sent() == 8 + TAIL
        assert reader.get_batch(2).equals(ipc.open_file(large, columns=["c1"]).get_batch(2))


def test_a_small_file_comes_whole_with_its_ends(web: Web) -> None:
    web.files["x.arrow"] = data = ipc_bytes([wide(10), wide(20)], "file")
    assert len(data) < TAIL
    same(web.url("x.arrow"), data)
    assert [request.method for request in web.log] == ["GET", "GET"]
    assert web.sent() == 8 + len(data)
    for size in (0, 5, 9):
        web.files["x.arrow"] = data[:size]
        failure(lambda: ipc.open_file(web.url("x.arrow")), kind=ipc.FormatError)


def test_only_the_columns_asked_for_are_fetched(web: Web, large: bytes) -> None:
    web.files["x.arrow"] = large
    same(web.url("x.arrow"), large, columns=["c9", "c3"])
    # The ends, the metadata of all batches at once, and two columns of each batch in windows.
    assert web.sent() < 8 + TAIL + 3 * (2 * 8 * ROWS + 4096)
    assert len(web.gets()) == 2 + 3 + 3 * 2


def test_small_batches_in_order_share_requests(web: Web, small: bytes) -> None:
    web.files["x.arrow"] = small
    for options in ({}, {"columns": ["c1"]}):
        web.log.clear()
        same(web.url("x.arrow"), small, **options)
        assert len(web.gets()) == 2 + -(-len(small) // WINDOW)
        assert web.sent() <= len(small) + TAIL + 8
    web.log.clear()
    with ipc.open_file(web.url("x.arrow")) as reader:
        batch = reader.get_batch(300)
        assert batch.equals(ipc.open_file(small).get_batch(300))
        size = sum(reader.blocks[300][1:])
    assert web.sent() == 8 + TAIL + size  # no neighbours of what is read alone


def test_what_is_expected_may_have_holes(web: Web, small: bytes) -> None:
    web.files["x.arrow"] = small
    wanted = ipc.open_file(small)
    with ipc.open_file(web.url("x.arrow")) as reader:
        numbers = [0, 3, 4, 400, 599]
        reader.expect(numbers)
        web.log.clear()
        for number in [*numbers, 5, 3]:
            assert reader.get_batch(number).equals(wanted.get_batch(number))
        # 0..4 lie near each other; 400; 599 in the tail that is known; 5 and 3 were not expected any more
        assert len(web.gets()) == 4


def test_rows_are_counted_from_metadata(web: Web, large: bytes, small: bytes) -> None:
    web.files |= {"large": large, "small": small}
    with ipc.open_file(web.url("large")) as reader:
        assert reader.count_rows() == 3 * ROWS
    assert web.sent() < 8 + TAIL + 3 * 4096
    web.log.clear()
    with ipc.open_file(web.url("small")) as reader:
        assert reader.count_rows() == 600 * 100
    assert len(web.gets()) <= 2 + -(-600 // HEADS)


def test_a_large_footer_is_fetched_whole(web: Web) -> None:
    schema = ipc.Schema([field(f"a long name of a column {number}", int64()) for number in range(2_000)])
    batch = ipc.RecordBatch.from_pydict({item.name: [1] for item in schema}, schema)
    web.files["x.arrow"] = data = ipc_bytes([batch], "file")
    with ipc.open_file(web.url("x.arrow")) as reader:
        assert reader.schema.equals(schema)
    assert len(web.gets()) == 3
    same(web.url("x.arrow"), data, columns=[schema[1_999].name])


def test_streams_are_read_in_order_with_one_request(web: Web, small: bytes) -> None:
    data = ipc_bytes([wide(100, start) for start in range(600)])
    web.files["x.arrows"] = data
    for opener in (ipc.open_stream, ipc.open):
        web.log.clear()
        with opener(web.url("x.arrows")) as reader:
            assert reader.read_all().to_batches() == ipc.open_stream(data).read_all().to_batches()
        assert len(web.gets()) <= 2
        assert web.sent() <= len(data) + 8
    with ipc.open_stream(web.url("x.arrows"), columns=["c2"]) as reader:
        assert reader.schema.names == ["c2"]


@pytest.mark.parametrize("gap", [0, GAP])
def test_given_batches_are_planned_together(web: Web, large: bytes, small: bytes, gap: int) -> None:
    for data, options in ((large, {"columns": ["c3", "c9"]}), (small, {"columns": ["c1"]})):
        web.files["x.arrow"] = data
        wanted = ipc.open_file(data, **options)
        last = len(wanted) - 1
        for numbers in ([2, 0], [0, last, 0], [-1], [1, 1], [], list(range(last, -1, -37))):
            with ipc.open_file(RemoteSource(web.url("x.arrow"), gap=gap), **options) as reader:
                found = list(reader.get_batches(numbers))
            assert found == list(wanted.get_batches(numbers)) == [wanted.get_batch(i) for i in numbers]
    web.files["x.arrow"] = large
    with ipc.open_file(web.url("x.arrow"), columns=["c9"]) as reader:
        web.log.clear()
        assert [batch.num_rows for batch in reader.get_batches(iter([2, 0]))] == [ROWS] * 2
        # The metadata of both, then both bodies.
        assert [end - start >= 8 * ROWS for _, _, (start, end), _ in web.gets()] == [False, False, True, True]
        web.log.clear()
        for numbers in ([0, 3], [-4]):
            with pytest.raises(IndexError, match="there are 3"):
                reader.get_batches(numbers)
        assert not web.log
    with pytest.raises(ipc.UsageError, match="closed"):
        reader.get_batches([0])


def test_ranges_that_are_none_are_refused() -> None:
    source = RemoteSource("memory://x")
    for call, words in (
        (lambda: source.read("2", 1), "start must be an int"),
        (lambda: source.read(2, 1.0), "length must be an int"),
        (lambda: source.read(2, -1), "2 to 1"),
        (lambda: source.fetch(5), "ranges must be"),
        (lambda: source.fetch("x"), "a pair"),
        (lambda: source.fetch([("a", 1)]), "start must be an int"),
        (lambda: source.fetch([(3, 2)]), "3 to 2"),
    ):
        with pytest.raises(ipc.UsageError, match=words):
            call()


def test_requests_in_flight_are_bounded(web: Web, small: bytes) -> None:
    web.files["x.arrow"], web.delay = small, 0.01
    source = RemoteSource(web.url("x.arrow"), {"skip_instance_cache": True}, gap=0)
    with ipc.open_file(source, columns=["c3", "c9"]) as reader:
        assert reader.num_record_batches == 600
        web.most_busy = 0
        reader.get_batches(range(HEADS)).__next__()
        assert len(list(reader.get_batches(range(HEADS, HEADS + 40)))) == 40
    assert 1 < web.most_busy <= MOST  # how many is a matter of the machine


def test_what_is_fetched_ahead_is_bounded_with_what_lies_between(web: Web) -> None:
    """Columns of a few bytes in batches that are not much further apart than what is read as one."""
    batch = wide(60 << 10)
    web.files["x.arrow"] = data = ipc_bytes([batch] * 6, "file")
    size = sum(ipc.open_file(data).blocks[0][1:])
    with ipc.open_file(RemoteSource(web.url("x.arrow"), gap=size - (400 << 10)), columns=["c1"]) as reader:
        web.log.clear()
        next(iter(reader))
        assert len(data) > 3 * WINDOW
        assert WINDOW // 2 < max(end - start for _, _, (start, end), _ in web.gets()) <= WINDOW
        assert web.sent() < 2 * WINDOW


def test_metadata_beyond_the_limits_is_not_asked_for(web: Web, large: bytes) -> None:
    offset, head, body = ipc.open_file(large).blocks[1]
    at = large.rindex(struct.pack("<qi4xq", offset, head, body))
    claim, limits = 2 << 20, ipc.Limits(metadata_bytes=1 << 20)
    web.files["x.arrow"] = large[:at] + struct.pack("<qi4xq", offset, claim, body - claim + head) + large[at + 24 :]
    with ipc.open_file(web.url("x.arrow"), columns=["c1"], limits=limits) as reader:
        web.log.clear()
        for call in (reader.get_batch, reader.get_batch_metadata):
            with pytest.raises(ipc.FormatError, match=r"record batch 1.*metadata_bytes"):
                call(1)
        assert not web.log
        assert len(list(reader.get_batches([0, 2]))) == 2


# Other file systems, other calls.


@pytest.mark.parametrize("gap", [0, 100, GAP])
@given(parts=randoms.batches(), chance=st.randoms(use_true_random=False))
def test_any_columns_of_any_types_are_those_of_the_local_file(gap: int, parts: Any, chance: Any) -> None:
    data = pyarrow_bytes(parts, kind="file", compression=chance.choice([None, "lz4"]))
    fsspec.filesystem("memory").pipe("/law/x.arrow", data)
    count = len(ipc.read_schema(data))
    columns = chance.sample(range(count), chance.randint(0, count))
    source = RemoteSource("memory://law/x.arrow", gap=gap, tail=10)  # so that little is known before
    with ipc.open_file(source, columns=columns) as found, ipc.open_file(data, columns=columns) as wanted:
        for left, right in zip(found, wanted, strict=True):
            assert left.equals(right, nan_equal=True)


def test_damage_is_told_of_the_batch_it_is_in(web: Web, large: bytes, small: bytes) -> None:
    for data, columns, number in ((large, ["c1"], 2), (small, None, 5), (large, None, 1)):
        offset, head, _ = ipc.open_file(data).blocks[number]
        web.files["x.arrow"] = data[: offset + 8] + b"\xff" * (head - 8) + data[offset + head :]
        wanted = ipc.open_file(data, columns=columns)
        with ipc.open_file(web.url("x.arrow"), columns=columns) as reader:
            reader.expect(range(len(reader)))
            for i in range(min(len(reader), 8)):
                if i == number:
                    with pytest.raises(ipc.FormatError, match=f"record batch {number}"):
                        reader.get_batch(i)
                else:
                    assert reader.get_batch(i).equals(wanted.get_batch(i))


# What goes wrong.


def failure(call: Any, *parts: str, kind: type[Exception] = OSError) -> Exception:
    with pytest.raises(kind) as caught:
        call()
    for part in parts:
        assert part in str(caught.value), caught.value
    return caught.value


def test_files_that_are_missing_or_forbidden(web: Web) -> None:
    for opener in (ipc.open, ipc.open_file, ipc.open_stream, recover):
        url = web.url("nix.arrow")
        error = failure(lambda opener=opener, url=url: opener(url), url, kind=FileNotFoundError)
        assert "404" in str(error)
    failure(lambda: ipc.open("memory://no/such"), "memory://no/such", kind=FileNotFoundError)
    failure(lambda: ipc.open("nowhere://x.arrow"), "nowhere", kind=ipc.UsageError)  # nobody knows such URLs
    web.token = "Bearer abc"
    failure(lambda: ipc.open_file(web.url("nix.arrow")), "401")


@pytest.mark.parametrize(
    ("fault", "words"), [("no ranges", "range"), ("says no ranges", "range"), ("no length", "how long")]
)
def test_servers_that_give_no_parts(web: Web, small: bytes, fault: str, words: str) -> None:
    web.files |= {"x.arrow": small, "y.arrow": ipc_bytes([wide(10)], "file"), "z.arrows": small[8:]}
    web.fault, url = fault, web.url("x.arrow")
    for opener in (ipc.open_file, ipc.open):
        failure(lambda opener=opener: opener(url), url, words, "simplecache::")
    if fault != "no length":
        same(web.url("y.arrow"), web.files["y.arrow"])  # a small file comes whole anyway
    for opener in (ipc.open_stream, ipc.open, recover):
        with opener(web.url("z.arrows")) as reader:
            assert len(list(reader)) == 600
    same(f"simplecache::{url}", small, columns=["c1"])


@pytest.mark.parametrize("call", [recover, partial(recover, resync=True), ipc.validate])
def test_what_is_copied_from_a_server_that_says_no_length_has_a_limit(web: Web, small: bytes, call: Any) -> None:
    web.files["z.arrows"] = small[8:]
    url, limits = web.url("z.arrows"), ipc.Limits(spool_bytes=len(small) // 2)
    call(url, limits=limits)
    web.fault = "no length"
    call(url)
    call(f"simplecache::{url}", limits=limits)
    with pytest.raises(ipc.LimitError, match=r"how long.* more than [\d,]+ bytes .*spool_bytes.*; put 'simplecache::'"):
        call(url, limits=limits)


@pytest.mark.parametrize("call", [recover, partial(recover, resync=True), ipc.validate])
def test_what_the_disk_has_no_room_for_is_not_copied(web: Web, small: bytes, call: Any, monkeypatch: Any) -> None:
    web.files["z.arrows"] = data = small[8:]
    url, free = web.url("z.arrows"), len(data)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    call(url)
    web.log.clear()
    free -= 1
    with pytest.raises(OSError, match=f"room for {free:,}: set TMPDIR.*{url}") as caught:
        call(url)
    assert caught.value.errno == errno.ENOSPC
    assert web.sent() <= 8


def test_broken_servers(web: Web, large: bytes) -> None:
    web.files |= {"x.arrow": large, "z.arrows": large[8:]}
    reader = ipc.open_file(web.url("x.arrow"))
    lies = [("short", "asked for bytes"), ("shifted", "asked for bytes"), ("cut", "bytes"), ("broken", "500")]
    for web.fault, words in lies:
        failure(lambda: reader.get_batch(1), web.url("x.arrow"), words)
    web.fault = "broken"
    error = failure(lambda: ipc.open_file(web.url("x.arrow")), web.url("x.arrow"), "500")
    assert not isinstance(error, FileNotFoundError)
    web.fault = "cut"
    failure(lambda: ipc.open_file(web.url("x.arrow")), web.url("x.arrow"))
    with ipc.open_stream(web.url("z.arrows")) as stream:
        failure(lambda: list(stream), web.url("z.arrows"))
    web.fault = ""
    assert reader.get_batch(1).num_rows == ROWS
    web.files["x.arrow"] = large[: len(large) // 2]
    failure(lambda: reader.get_batch(2), web.url("x.arrow"))


# What nobody may see.

SECRET = "hunter2"
#: What stands in the header for user "me" and that password.
BASIC = f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}"


def quiet(call: Any) -> None:
    """Check that what is raised, with all that led to it, shows no secret, and still says where it was."""
    with pytest.raises((ipc.ArrowIpcError, OSError)) as caught:
        call()
    shown = f"{caught.value!r} {caught.value} {''.join(traceback.format_exception(caught.value, limit=0))}"
    assert SECRET not in shown
    assert "secret place" in shown or "127.0.0.1" in shown


@pytest.mark.parametrize(
    "name", ["x.arrow", "x.arrow?sig=hunter2", "x.arrow?part=1&X-Amz-Signature=hunter2/+hunter2=="]
)
def test_no_error_shows_who_asks_or_signatures_or_options(web: Web, caplog: Any, name: str) -> None:
    data = ipc_bytes([wide(4000)] * 3, "file")
    web.token = BASIC
    web.files |= {
        name: data,
        "torn.arrow": data[:-1000],
        "other.arrow": ipc_bytes([ipc.RecordBatch.from_pydict({"c0": ["x"]})], "file"),
    }
    url, plain = (f"{begin}127.0.0.1:{web.port}/" for begin in ("http://me:hunter2@", "http://"))
    for opener in (ipc.open, ipc.open_file, recover, ipc.validate, ipc.open_dataset, ipc.read_schema):
        quiet(lambda opener=opener: opener(f"{url}nix.arrow?token={SECRET}"))
    for missing in ("torn.arrow", "nix*.arrow"):
        quiet(lambda missing=missing: ipc.open_dataset(url + missing))
    reader, dataset = ipc.open(url + name), ipc.open_dataset([url + name])
    source = RemoteSource(plain + name, {"headers": {"Authorization": BASIC, "X-Key": SECRET * 2}})
    for opener in (ipc.open, ipc.open_file, recover):  # which get the options
        assert opener(source).read_all().num_rows == reader.read_all().num_rows == dataset.read_all().num_rows
    assert SECRET not in repr(source) + repr(dataset) + repr(dataset.fragments) + repr(reader)
    assert "X-Amz" not in str(dataset.schema)  # nor are there columns of what looks like a folder's key
    for web.fault in ("short", "cut", "broken"):
        for call in (
            lambda: ipc.open(url + name)[1],
            lambda: dataset.take([5000]),
            lambda: source.fetch([(9, 99_999)]),
            lambda: ipc.open(source)[1],
        ):
            quiet(call)
    web.fault = ""
    quiet(lambda: ipc.open_dataset([url + name, url + "other.arrow"], on_missing="error"))
    ipc.open_dataset([url + name, url + "torn.arrow"], on_error="skip")
    quiet(lambda: ipc.open(f"http://me:{SECRET}/@127.0.0.1:{web.port}/x.arrow?token={SECRET}"))  # a stray slash
    quiet(lambda: RemoteSource(f"nowhere://me:{SECRET}@127.0.0.1/x"))
    quiet(lambda: ipc.new_file(f"nowhere://me:{SECRET}@127.0.0.1/x"))
    assert "torn.arrow" in caplog.text
    assert SECRET not in caplog.text


def test_no_error_of_a_library_shows_the_options_that_it_refused() -> None:
    class Refusing(fsspec.AbstractFileSystem):
        protocol = "refusing"

        def info(self, path: str, **options: Any) -> Any:
            raise ValueError(f"{self.storage_options} of secret place are no good")

        def _open(self, path: str, *arguments: Any, **options: Any) -> Any:
            raise FileNotFoundError(f"{self.storage_options} of secret place")

    fsspec.register_implementation("refusing", Refusing, clobber=True)
    options = {"key": SECRET, "nested": {"list": [{"token": f"other{SECRET}"}]}}
    for call in (ipc.open, ipc.open_file, ipc.open_stream):
        quiet(lambda call=call: call(RemoteSource("refusing://place/x", options)))
    quiet(lambda: ipc.open_dataset("refusing://place/x", storage_options=options))


def test_no_command_shows_secrets(web: Web, tmp_path: Path) -> None:
    from helpers.terminal import run

    data = ipc_bytes([wide(4000)] * 3, "file")
    web.token = BASIC
    web.files |= {f"{name}?sig=hunter2": data for name in ("x.arrow", "y.arrow")} | {
        "text?sig=hunter2": b"hello, world" * 100
    }
    first, second, text, missing = (
        f"http://me:hunter2@127.0.0.1:{web.port}/{name}?sig=hunter2" for name in ("x.arrow", "y.arrow", "text", "nix")
    )
    for command in (
        *(
            [each, where]
            for each in ("head", "check", "messages", "schema", "count")
            for where in (first, text, missing)
        ),
        ["diff", first, second],
        ["diff", first, missing],
        ["convert", first, "memory://a:hunter2@b/x.arrow"],
        ["convert", first, "memory://a:hunter2@b/x.arrow", "--json"],
        ["cat", "--merge", first, second, "-o", tmp_path / "s.arrow"],
        ["convert", first, first],
        ["head", first, "-c", "nix"],
        ["browse", first, "--json"],
    ):
        found = run(*command)
        assert SECRET not in found.out + found.err, command
