"""Remote servers that lie, replace files or stall: right values or an error with words, in bounds."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.arrays import ipc_bytes
from helpers.processes import printed, rounds, run_module
from helpers.web import Web
from hostile.broken_servers import FOREVER, LIES, Answer, Ask, BrokenServer, head, honest, on_get, part

import arrowipc as ipc
from arrowipc import RemoteSource
from arrowipc.sources.file_objects import replaced
from arrowipc.types import field, int64

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")

#: What any number of lies may cost together, and one alone.
MIB, SECONDS = 128, 60
SCHEMA = ipc.Schema([field(name, int64()) for name in "abcd"])


def written(kind: str, shift: int, batches: int = 6, rows: int = 2_000) -> bytes:
    """A file or stream; all of them are of one size and layout."""
    parts = [{name: range(start, start + rows) for name in "abcd"} for start in range(shift, shift + batches)]
    return ipc_bytes(parts, kind, SCHEMA)


@pytest.fixture(scope="module")
def files() -> dict[str, tuple[bytes, bytes]]:
    made = {
        "arrow": (written("file", 0), written("file", 7_000)),
        "arrows": (written("stream", 0), written("stream", 7_000)),
    }
    assert all(len(first) == len(second) for first, second in made.values())
    return made


@pytest.mark.nosanitize  # measured memory
@pytest.mark.campaign
def test_a_server_that_lies_costs_little_and_gives_no_wrong_values(tmp_path: Path, files: Any) -> None:
    for ending, versions in files.items():
        for number, data in enumerate(versions):
            (tmp_path / f"{number}.{ending}").write_bytes(data)
    names = list(LIES)
    assert len(names) >= 40
    with BrokenServer(files, *(LIES[name][0] for name in names)) as broken:
        urls = {broken.url(f"{number}/x"): name for number, name in enumerate(names)}
        # The default deadline, also in a quick run for who tells the truth: the machine may have much to do.
        jobs = [f"{30 if LIES[name][1] == 'right' else rounds(1, 30)}@{url}" for url, name in urls.items()]
        child = run_module("hostile.broken_servers", tmp_path, *jobs, timeout=1800)
    *lines, last = map(json.loads, printed(child).splitlines())
    wrong = []
    for line in lines:
        name = urls[line["url"]]
        wanted = LIES[name][1]
        is_sure = wanted == "right" or (wanted == "refused" and line["way"] in ("file", "pieces"))
        allowed = (wanted,) if is_sure else ("right", "refused")
        if line["outcome"] not in allowed or line["seconds"] > SECONDS:
            wrong.append(f"{name}, {line['way']}: {line['outcome']} in {line['seconds']:.1f} s {line['words']}")
    slowest = max(lines, key=lambda line: line["seconds"])
    print(
        f"\n{len(lines)} readings of {len(names)} servers: {last['mib']:.0f} MiB together, at most "
        f"{slowest['seconds']:.1f} s ({urls[slowest['url']]})"
    )
    assert not wrong, "\n".join(wrong)
    assert len(lines) == 5 * len(names)
    assert last["mib"] <= MIB


# One by one.


def test_a_server_that_stalls_is_given_up_in_time_and_in_words(files: Any) -> None:
    with BrokenServer(files, lambda ask: FOREVER) as broken:
        url = broken.url("0/x.arrow")
        for opener in (ipc.open_file, ipc.open, ipc.open_stream, ipc.recover):
            start = time.monotonic()
            with pytest.raises(TimeoutError, match=r"the server stalls: 0 bytes came in 0\.3 s") as caught:
                opener(RemoteSource(url, timeout=0.3))
            assert url in str(caught.value)
            assert time.monotonic() - start < 30
        # aiohttp's own deadline takes the place of ours
        with pytest.raises(TimeoutError, match="no answer in time"):
            ipc.open_file(RemoteSource(url, {"timeout": 0.3}))
    for wrong in (0, -1, float("inf"), float("nan"), "5"):
        with pytest.raises(ipc.UsageError, match="timeout"):
            RemoteSource(url, timeout=wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_slow_link_is_not_given_up(files: Any) -> None:
    def slow(ask: Ask) -> Answer:
        yield from honest(ask, [])
        data = part(ask)
        for start in range(0, len(data), 1000):
            yield data[start : start + 1000]
            yield 0.05

    data = written("stream", 0, rows=250), written("file", 0, rows=250)
    assert len(data[0]) > 45_000
    with BrokenServer({"arrows": data[:1] * 2, "arrow": data[1:] * 2}, on_get(slow)) as broken:
        for ending in ("arrows", "arrow"):
            with ipc.open(RemoteSource(broken.url(f"0/x.{ending}"), timeout=2)) as reader:
                assert sum(batch.num_rows for batch in reader) == 1_500


@pytest.mark.slow
def test_a_slow_reader_does_not_use_up_the_time_of_the_server(files: Any) -> None:
    def late(ask: Ask) -> Answer:
        return honest(ask, [part(ask)[:1_000], 2.6, part(ask)[1_000:]])

    with BrokenServer(files, on_get(late)) as broken:
        reader = ipc.open_stream(RemoteSource(broken.url("0/x.arrows"), timeout=2))
        time.sleep(2.3)
        assert sum(batch.num_rows for batch in reader) == 12_000


def test_a_file_that_is_replaced_while_it_is_read(files: Any) -> None:
    before, after = files["arrow"]
    with Web({"x.arrow": before}) as web:
        source = RemoteSource(web.url("x.arrow"), gap=0, tail=1000)
        with ipc.open_file(source, columns=["a", "c"]) as reader:
            assert reader.get_batch(0)["a"][0] == 0
            web.files["x.arrow"] = after
            for _ in range(2):
                with pytest.raises(OSError, match="replaced"):
                    reader.get_batch(1)
            web.files["x.arrow"] = before
            assert reader.get_batch(1)["a"][0] == 1
        web.files["x.arrow"] = after
        with pytest.raises(OSError, match="replaced"):
            ipc.open_file(RemoteSource(web.url("x.arrow"), version=source.version))
        with ipc.open_file(web.url("x.arrow")) as reader:
            assert reader.get_batch(1)["a"][0] == 7_001


def test_a_server_that_hangs_up_on_head_is_asked_for_the_length_by_get(files: Any) -> None:
    with BrokenServer(files, lambda ask: [] if ask.method == "HEAD" else honest(ask)) as broken:
        assert RemoteSource(broken.url("0/x.arrow")).known_size == len(files["arrow"][0])


def test_what_decides_alone_whether_a_file_is_the_same() -> None:
    assert replaced({"etag": '"0x8D"', "time": "1"}, {"etag": "0x8D", "time": "2"}) is None, "as in listings"
    assert replaced({"version": "1", "etag": "a"}, {"version": "1", "etag": "b"}) is None, "of its metadata"
    assert replaced({"version": "1", "size": "3"}, {"version": "1", "size": "4"}) is not None
    assert replaced({"etag": "W/a", "time": "1"}, {"etag": "W/a", "time": "2"}) is not None
    assert replaced({"etag": "a"}, {"etag": "b"}) is not None


def test_every_request_names_the_version_that_was_seen(files: Any) -> None:
    with BrokenServer(files, honest) as broken:
        ipc.open_file(broken.url("0/x.arrow")).read_all()
        asked = [headers for _, headers in broken.seen]
    assert not any("if-match" in headers for headers in asked[:2]), "both ends, side by side"
    assert len(asked) > 2
    assert [headers["if-match"] for headers in asked[2:]] == ['"one"'] * (len(asked) - 2)
    assert {headers["accept-encoding"] for headers in asked} == {"identity"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda size: bytes(size + 3), r"read\([\d,]+\) returned [\d,]+ bytes: expected [\d,]+ bytes at most"),
        (lambda size: "text", "reads text"),
        (lambda size: None, r"read\(\d+\) returned NoneType None: expected bytes"),
    ],
)
def test_files_of_other_file_systems_whose_reads_lie(monkeypatch: Any, answer: Any, words: str) -> None:
    from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

    class Lies(MemoryFile):
        def read(self, size: int = -1) -> Any:
            return answer(size)

    system = fsspec.filesystem("memory")
    system.pipe("/lies/x.arrows", bytes(100))
    monkeypatch.setattr(MemoryFileSystem, "_open", lambda *_, **__: Lies(system, "/lies/x.arrows", bytes(100)))
    for opener in (ipc.open_stream, ipc.recover):
        with pytest.raises(OSError, match=words) as caught:
            opener("memory://lies/x.arrows")
        assert str(caught.value).startswith("memory://lies/x.arrows: ")


@pytest.mark.parametrize("opener", [ipc.open_file, ipc.open_stream, ipc.open])
def test_sources_of_other_file_systems_that_are_replaced(opener: Any) -> None:
    system, kind = fsspec.filesystem("memory"), "file" if opener is ipc.open_file else "stream"
    data = written(kind, 0, batches=12, rows=32_000)
    system.pipe("/replaced/x", data)
    with opener(RemoteSource("memory://replaced/x", gap=0, tail=1000)) as reader:
        batches = iter(reader)
        next(batches)
        system.pipe("/replaced/x", data)
        with pytest.raises(OSError, match="replaced while it was read"):
            list(batches)


def test_what_is_secret_stays_with_the_first_host(files: Any) -> None:
    options = {"headers": {"Authorization": "Bearer abc", "X-Key": "abc"}, "cookies": {"session": "abc"}}
    names = {"authorization", "x-key", "cookie"}
    with BrokenServer(files, honest) as other:
        place = other.url("0/x.arrow")
        lies = [lambda ask: [head(307, {"Location": place})], lambda ask: [head(302, {"Location": "/2/x.arrow"})]]
        with BrokenServer(files, *lies, honest) as broken:
            assert ipc.open_file(RemoteSource(broken.url("0/x.arrow"), options)).num_record_batches == 6
            assert other.seen
            assert not any(names & headers.keys() for _, headers in other.seen)
            url = broken.url("1/x.arrow")
            assert ipc.open_file(RemoteSource(url, options)).num_record_batches == 6
            assert ipc.open_file(url.replace("127", "me:secret@127")).num_record_batches == 6
            with_user = [headers for _, headers in broken.seen if "authorization" in headers]
            assert [headers["authorization"][:5] for headers in with_user][-3:] == ["basic"] * 3
            everywhere = {"client_kwargs": {"headers": {"X-Key": "abc"}}}
            with pytest.raises(OSError, match="client_kwargs"):
                ipc.open_file(RemoteSource(broken.url("0/x.arrow"), everywhere))
        kept = [names & headers.keys() for path, headers in broken.seen if path == "/2/x.arrow"]
        assert kept[0] == names
