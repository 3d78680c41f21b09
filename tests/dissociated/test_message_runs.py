"""Small messages that are written and read together: the same bytes, batches and errors as one by one."""

import random
import socket

import numpy as np
import pyarrow as pa
import pytest
from dissociated import peers
from dissociated.peers import OneByOne
from helpers.mutate import overwritten

from arrowipc import Limits
from arrowipc.dissociated.protocol import NUMBERS
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.transports.message_runs import read_run, write_run
from arrowipc.dissociated.transports.sockets import SocketConnection
from arrowipc.errors import ArrowIpcError

pytestmark = pytest.mark.usefixtures("nothing_left")


def sources() -> dict[str, pa.Table | list[pa.RecordBatch]]:
    wide = {f"c{i}": pa.array(np.arange(100.0) + i) for i in range(300)}
    return {
        "numbers": peers.numbers(10, batches=7),
        "nothing": peers.numbers(0, batches=2),
        "words": peers.words(),
        "wide": pa.table({**wide, "s": pa.array(["x", None] * 50)}),
        "large": pa.table({"x": np.arange(20_000), "y": pa.array([1, None] * 10_000, pa.int8())}),
    }


def messages(name: str, **options) -> list:
    return list(messages_of(sources()[name], **options))


def sent(kind: type[SocketConnection], number: int, made: list, role: str) -> bytes:
    """All that goes out for messages, over a connection of this kind."""
    raw, other = peers.raw_pair()
    with raw, kind(other, "ours") as connection:
        connection.corked = True
        connection.send_messages(number, made, role)
        return b"".join(b"".join(pieces) for pieces, _ in connection._outgoing)


@pytest.mark.parametrize("name", sources())
@pytest.mark.parametrize("role", ["both", "meta", "data"])
@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_run_is_what_messages_are_one_by_one(name, role, compression):
    made = messages(name, compression=compression)
    for number in (0, 77, NUMBERS - 2):
        assert sent(SocketConnection, number, made, role) == sent(OneByOne, number, made, role)
    for each in made:
        _ = each.body  # from here on in one stretch
    assert sent(SocketConnection, 5, made, role) == sent(OneByOne, 5, made, role)


def test_large_stretches_are_not_copied():
    made = messages("large")
    one, other = write_run(0, made), write_run(0, made)
    assert list(map(bytes, one)) == list(map(bytes, other))
    first, second = ({np.frombuffer(each, np.uint8).ctypes.data for each in found} for found in (one, other))
    assert len(first & second) == 2  # those of the two columns; what lies around them was copied


@pytest.mark.parametrize("number", [1, NUMBERS - 3])
@pytest.mark.parametrize("name", sources())
def test_all_whole_messages_with_the_next_numbers_are_read_together(name, number):
    made = messages(name)[1:]
    data = b"".join(write_run(number, made))
    for cut, count in ((len(data), len(made)), (len(data) - 1, len(made) - 1)):
        found, end = read_run(data, 0, cut, number)
        assert end == len(b"".join(write_run(number, made[:count])))
        assert all(one.equals(other) for one, other in zip(found, made[:count], strict=True))
    assert read_run(data, 0, len(data), number + 1) == ([], 0)


def test_bodies_of_a_run_are_aligned_and_live_as_long_as_their_batches():
    made = messages("numbers")[1:]
    data = bytearray(b"".join(write_run(1, made)))
    found, _ = read_run(data, 0, len(data), 1)
    assert all(np.frombuffer(each.body, np.uint8).ctypes.data % 64 == 0 for each in found)
    data[:] = bytes(len(data))  # it is the stage, which others fill
    assert all(one.equals(other) for one, other in zip(found, made, strict=True))


def test_limits_and_places_outside_are_for_the_general_way():
    made = messages("numbers")[1:]
    data = b"".join(write_run(1, made))
    size = len(made[0].metadata)
    assert len(read_run(data, 0, len(data), 1, Limits(metadata_bytes=size))[0]) == len(made)
    assert read_run(data, 0, len(data), 1, Limits(metadata_bytes=size - 1)) == ([], 0)
    for start, end in ((-1, 10), (len(data) + 1, len(data) + 2), (10, 5), (0, 0), (len(data), len(data))):
        assert read_run(data, start, end, 1)[0] == []
    assert len(read_run(data, 0, len(data) + 1000, 1)[0]) == len(made)


def outcome(kind: type[SocketConnection], data: bytes, limits: Limits | None):
    """What a client gets of what a server says: its batches, and its error."""
    batches = []
    with peers.heard(kind=kind, limits=limits) as (raw, connection):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        try:
            raw.sendall(data)
            raw.shutdown(socket.SHUT_WR)
            with peers.client_of((connection,)) as reader:
                batches.extend(batch.to_pydict() for batch in reader)
        except (ArrowIpcError, OSError) as error:
            return batches, type(error), str(error)
    return batches, None, ""


def sent_of(name: str) -> list[peers.Sent]:
    """The messages of a whole stream."""
    return peers.dissociated(peers.written(sources()[name]) if name != "words" else peers.written_words())


def framed(parts: list[peers.Sent]) -> bytes:
    return peers.HELLO + b"".join(peers.frame(*each) for each in parts)


def mixed(parts: list[peers.Sent], chance: random.Random) -> list[peers.Sent]:
    """Messages change places, come again, are missing, or have other tags; the first one stays."""
    found = list(parts)
    for _ in range(chance.randrange(1, 4)):
        i, j = chance.randrange(1, len(found)), chance.randrange(1, len(found))
        tag, body = found[i]
        other = tag if tag is None else tag | chance.choice((1 << 56, 1 << 40, 1 << 55, 8))
        if chance.random() < 0.25:
            found[i], found[j] = found[j], found[i]
        else:
            found[i : i + 1] = chance.choice([[found[j], found[i]], [], [(other, body)]])
    return found


@pytest.mark.parametrize(("name", "times"), [("numbers", 500), ("words", 500), ("large", 50)])
def test_streams_cut_short_or_changed_and_in_any_order_give_the_same_batches_and_error(name, times):
    parts, chance = sent_of(name), random.Random(name)
    whole = framed(parts)
    errors = 0
    for _ in range(times):
        for data in (whole[: chance.randrange(len(whole))], overwritten(whole, chance), framed(mixed(parts, chance))):
            limits = Limits(metadata_bytes=chance.randrange(100, 1000)) if chance.random() < 0.2 else None
            one, other = (outcome(kind, data, limits) for kind in (SocketConnection, OneByOne))
            assert one == other
            errors += one[1] is not None
    assert times < errors < 3 * times
