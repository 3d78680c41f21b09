"""A device without a GPU: memory that is mapped twice, and that no CPU may read where arrays say that it is.

At the device's addresses it is mapped without any right to access it, so that a single read ends the process;
the "driver" copies to and from it through another mapping. `main` tries what is named, in a process of its own.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import random
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from dissociated import peers
from helpers import arrow_columns
from helpers.cdata import CArray, CDeviceArray, peek

import arrowipc as ipc
from arrowipc.dissociated.client import ClientStream
from arrowipc.dissociated.connection import Frame
from arrowipc.dissociated.device import DeviceBatch, DeviceDecoder, DeviceMemory, import_device
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Pairs, write_pairs
from arrowipc.dissociated.protocol import BodyType, Incoming, Outgoing, body_tag, metadata_prefix
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.session import Roles, Session
from arrowipc.events import BatchRead
from arrowipc.read.framing import message_of

CUDA, DEVICE_ID, EVENT = 2, 7, 0xE0E0
WANT_DATA = 0x7100_0001_0000_0000
PROT_NONE, PROT_READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE


class Device:
    """Memory of a device: `address` is where arrays say it is."""

    def __init__(self, size: int = 1 << 22) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        descriptor = os.memfd_create("device")
        os.ftruncate(descriptor, size)
        self.address, self._driver = (
            libc.mmap(None, size, rights, mmap.MAP_SHARED, descriptor, 0) for rights in (PROT_NONE, PROT_READ_WRITE)
        )
        os.close(descriptor)
        self.size = size
        self._used = 64
        self.reads: list[tuple[int, int]] = []

    def put(self, data: Any) -> int:
        """Copy bytes to the device; returns their address there."""
        data = bytes(data)
        at = self._used
        self._used += -(-len(data) // 64) * 64
        assert self._used <= self.size
        ctypes.memmove(self._driver + at, data, len(data))
        return int(self.address) + at

    def memory(self, data: Any, **more: Any) -> DeviceMemory:
        """Copy bytes to the device as the body of a message."""
        return DeviceMemory(self.put(data), len(data), CUDA, DEVICE_ID, EVENT, **more)

    def read(self, address: int, nbytes: int) -> bytes:
        """Copy bytes from the device."""
        assert self.address <= address <= address + nbytes <= self.address + self.size
        self.reads.append((address, nbytes))
        return ctypes.string_at(self._driver + address - self.address, nbytes)

    def has(self, address: int) -> bool:
        """Say if an address is the device's."""
        return bool(self.address <= address < self.address + self.size)


DEVICE = Device()


def buffers_of(array: CArray) -> Iterator[tuple[CArray, int, int]]:
    """Yield the pointers of an exported array and of all below it that are not NULL."""
    for i in range(array.n_buffers):
        if array.buffers[i]:
            yield array, i, array.buffers[i]
    for i in range(array.n_children):
        yield from buffers_of(array.children[i].contents)
    if array.dictionary:
        yield from buffers_of(array.dictionary.contents)


def all_buffers(array: pa.Array) -> Iterator[pa.Buffer]:
    """Yield every buffer of a pyarrow array, those of dictionaries too."""
    yield from (each for each in array.buffers() if each is not None)
    kind = array.type
    if isinstance(array, pa.DictionaryArray):
        yield from all_buffers(array.dictionary)
    elif pa.types.is_nested(kind) and hasattr(array, "flatten") and pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from all_buffers(array.field(i))
    elif hasattr(array, "values") and not pa.types.is_union(kind):
        yield from all_buffers(array.values)
    elif pa.types.is_union(kind):
        for i in range(kind.num_fields):
            yield from all_buffers(array.field(i))


def on_device(batch: pa.RecordBatch, uncounted: bool = False) -> tuple[Any, Any]:
    """Return capsules of a batch of pyarrow's whose buffers a driver has copied to the device."""
    pair = batch.__arrow_c_device_array__()
    device = peek(pair[1], CDeviceArray)
    device.device_type, device.device_id, device.sync_event = CUDA, DEVICE_ID, EVENT
    sizes = {each.address: each.size for column in batch.columns for each in all_buffers(column)}
    for array, i, address in list(buffers_of(device.array)):
        # What pyarrow has no buffer for are the sizes of the data of views.
        size = sizes.get(address, 8 * max(array.n_buffers - 3, 0))
        array.buffers[i] = DEVICE.put(ctypes.string_at(address, size))
        if uncounted and i == 0:
            array.null_count = -1
    return pair


def check_export(batch: DeviceBatch, event: int = EVENT) -> None:
    """What a consumer gets: the device as it was, and addresses of it alone."""
    pair: Any = batch.__arrow_c_device_array__()
    device = peek(pair[1], CDeviceArray)
    assert (device.device_type, device.device_id, device.sync_event) == (CUDA, DEVICE_ID, event or None)
    assert device.array.length == batch.num_rows
    found = list(buffers_of(device.array))
    assert found
    for array, i, address in found:
        # The sizes of the data of views are host memory, as consumers expect.
        assert DEVICE.has(address) or i == array.n_buffers - 1 >= 2, (i, hex(address))
    assert all(DEVICE.has(address) for address, size in batch.places if size)


def received(source: Any, by_pairs: bool = False, **more: Any) -> list[DeviceBatch]:
    """Send a stream whose bodies a driver puts on the device, in any order, and return its batches."""
    outgoing, incoming = Outgoing(), Incoming()
    frames: list[tuple[int | None, Any]] = []
    region = DeviceMemory(DEVICE.address, DEVICE.size, CUDA, DEVICE_ID, EVENT)
    for message in messages_of(source):
        number = outgoing.number()
        frames.append((None, metadata_prefix(number) + bytes(message.metadata)))
        if message.kind == "Schema":
            continue
        if by_pairs:
            told = write_pairs(message, DEVICE.put(message.body))
            frames.append((body_tag(number, BodyType.PAIRS), told))
        else:
            frames.append((body_tag(number, BodyType.PACKED), DEVICE.memory(message.body, **more)))
    frames.append((None, outgoing.end()))
    random.Random(96).shuffle(frames)
    for tag, data in frames:
        if tag is None:
            incoming.receive_metadata(data)
        else:
            incoming.receive_body(tag, data)
    decoder, batches = DeviceDecoder(memory=region), []
    while (arrival := incoming.take()) is not None:
        if arrival.body_type == BodyType.PAIRS:
            message = Pairs(arrival.body).message(arrival.metadata, region, region.address)
        else:
            message = message_of(arrival.metadata, arrival.body)
        event = decoder.decode_next(message)
        if hasattr(event, "batch"):
            batches.append(event.batch)
    assert incoming.is_complete
    assert decoder.schema is not None
    return batches


def refused(call: Any, words: str) -> None:
    """Call something that needs to read; the error must say what and how."""
    found = None
    try:
        call()
    except NotImplementedError as error:
        found = error
    assert isinstance(found, ipc.UnsupportedError), f"nothing was refused: {words}"
    assert words in str(found), found
    assert "read_device" in str(found), found


# -- what is tried ------------------------------------------------------------------------


def a_read_ends_the_process() -> None:
    """The control: memory of this device cannot be read."""
    ctypes.string_at(DEVICE.put(b"secret"), 6)


def a_received_body_is_never_read() -> None:
    """Every type, dictionaries too, by packed bodies and by pairs."""
    table = pa.Table.from_batches([arrow_columns.everything()] * 2)
    for by_pairs in (False, True):
        batches = received(table, by_pairs)
        assert len(batches) == 2
        assert DEVICE.reads == []
        for batch in batches:
            check_export(batch)
            assert batch.schema == ipc.Table.from_arrow(table).schema
        assert DEVICE.reads == []
        # Only who asks for it gets a copy on the host.
        for batch in batches:
            assert pa.record_batch(batch.to_host(DEVICE.read, "strict")).equals(arrow_columns.everything())
        assert DEVICE.reads
        DEVICE.reads.clear()


def a_replaced_dictionary_is_that_of_its_batch() -> None:
    """Batches keep the dictionary that they came with."""
    words = (["a", "b"], ["c", None])
    table = pa.Table.from_batches([pa.record_batch({"d": pa.array(each).dictionary_encode()}) for each in words])
    found = [batch.to_host(DEVICE.read).to_pydict()["d"] for batch in received(table)]
    assert found == [list(each) for each in words], found


def empty_batches_are_nowhere() -> None:
    """A batch without a body has no device to be on."""
    (batch,) = received(pa.record_batch({"x": pa.array([], pa.int64())}))
    assert (batch.num_rows, batch.device_type, batch.device_id, batch.sync_event) == (0, 1, -1, 0)
    assert batch.to_host(DEVICE.read).num_rows == 0


def memory_lives_as_long_as_what_points_there() -> None:
    """The owner of a body goes when the last export of it is released."""

    class Owner:
        pass

    owner = Owner()
    gone = weakref.ref(owner)
    (batch,) = received(pa.table({"x": [1, 2]}), owner=owner)
    del owner
    pair: Any = batch.__arrow_c_device_array__()
    del batch
    gc.collect()
    assert gone() is not None
    del pair
    gc.collect()
    assert gone() is None


def a_client_passes_bodies_on() -> None:
    """The client of every transport, where one puts bodies on a device as they arrive."""

    def to_device(frame: Frame) -> list[Frame]:
        return [frame if frame.tag is None else Frame(frame.tag, DEVICE.memory(frame.data))]

    there, here = peers.socket_pair(kinds=(peers.Weathered, peers.SocketConnection))
    there.weather = to_device
    table = pa.Table.from_batches([arrow_columns.everything()] * 3)
    session = Session(here, {b"x": table}.get, Roles({WANT_DATA: "both"}, None))
    there.send(WANT_DATA, [b"x"])
    stream = ClientStream(Link(there, there), DeviceDecoder())  # type: ignore[arg-type]
    found: list[Any] = []
    while not stream.is_complete:
        session.step()
        found.append(stream.step())
    batches = [each for each in found if isinstance(each, DeviceBatch)]
    assert len(batches) == 3
    assert DEVICE.reads == []
    for batch in batches:
        check_export(batch)
        assert pa.record_batch(batch.to_host(DEVICE.read)).equals(arrow_columns.everything())
    stream.close()
    session.close()


def mutated_metadata_never_leads_to_a_read() -> None:
    """Any bytes of metadata give a batch that can be handed over, or an error."""
    chance = random.Random(95)
    messages = [(bytes(each.metadata), bytes(each.body)) for each in messages_of(arrow_columns.everything())]
    bodies = [DEVICE.memory(body) if body else b"" for _, body in messages]
    taken = errors = 0
    for _ in range(1500):
        decoder = DeviceDecoder()
        victim = chance.randrange(len(messages))
        try:
            for i, (head, _) in enumerate(messages):
                changed = bytearray(head)
                for _ in range(chance.randrange(1, 4) if i == victim else 0):
                    at = chance.randrange(len(changed))
                    changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
                event = decoder.decode_next(message_of(bytes(changed), bodies[i]))
            if isinstance(event, BatchRead):
                event.batch.__arrow_c_device_array__()
                taken += 1
        except ipc.ArrowIpcError:
            errors += 1
    assert taken > 50, taken
    assert errors > 50, errors
    assert DEVICE.reads == []


def what_needs_a_read_is_refused() -> None:
    """Received bodies that cannot be passed on by their addresses."""
    plain = pa.record_batch({"x": [1, None, 3]})

    def decoded(change: Any = None, compression: Any = None, shift: int = 0) -> Any:
        decoder = DeviceDecoder()
        for message in messages_of(plain, compression=compression):
            head = bytearray(message.metadata)
            if change is not None and message.kind != "Schema":
                change(head)
            at = DEVICE.put(bytes(shift) + bytes(message.body)) + shift
            decoder.decode_next(message_of(bytes(head), DeviceMemory(at, message.body_length, CUDA)))
        return decoder

    def uncount(head: bytearray) -> None:
        node = (3).to_bytes(8, "little") + (1).to_bytes(8, "little")
        assert head.count(node) == 1
        at = head.index(node) + 8
        head[at : at + 8] = b"\xff" * 8

    decoded()
    refused(lambda: decoded(compression="lz4"), "compressed")
    refused(lambda: decoded(uncount), "null_count -1")
    refused(lambda: decoded(shift=4), "multiple of 8")
    grown = [pa.record_batch({"d": pa.DictionaryArray.from_arrays([0], each)}) for each in (["a"], ["a", "b"])]

    def delta() -> None:
        decoder = DeviceDecoder()
        for message in messages_of(pa.Table.from_batches(grown), dictionary_deltas=True):
            body = DEVICE.memory(message.body) if message.body_length else b""
            decoder.decode_next(message_of(message.metadata, body))

    refused(delta, "isDelta")
    big = ipc.Schema(ipc.RecordBatch.from_arrow(plain).schema.fields, endianness="big")
    decoder = DeviceDecoder()
    decoder.decode_next(ipc.read_message(big.serialize()))
    *_, last = messages_of(plain)
    body = DEVICE.memory(last.body)
    refused(lambda: decoder.decode_next(message_of(last.metadata, body)), "big-endian")


def a_foreign_batch_goes_out_and_comes_in() -> None:
    """From another library's device array to messages and back, whatever the types are."""
    batch = arrow_columns.everything()
    found = import_device(on_device(batch), DEVICE.read)
    check_export(found)
    # Only what decides about sizes was read.
    assert sum(size for _, size in DEVICE.reads) < 400, DEVICE.reads
    assert pa.record_batch(found.to_host(DEVICE.read, "full")).equals(batch)
    # What was sent and received by a transport that moves memory of devices.
    decoder, again = DeviceDecoder(), None
    for message in found.messages:
        pieces = []
        for stretch in message.stretches:
            view = memoryview(stretch)
            address = address_of(view)
            pieces.append(DEVICE.read(address, view.nbytes) if DEVICE.has(address) else bytes(view))
        body = DEVICE.memory(b"".join(pieces)) if pieces else b""
        event = decoder.decode_next(message_of(message.metadata, body))
        again = getattr(event, "batch", None)
    assert again is not None
    check_export(again)
    assert pa.record_batch(again.to_host(DEVICE.read, "full")).equals(batch)


def address_of(view: memoryview) -> int:
    """Return where a buffer is, without a look at it."""
    import numpy as np

    return int(np.frombuffer(view, np.uint8).ctypes.data) if view.nbytes else 0


def a_foreign_batch_without_a_hook() -> None:
    """What needs no read passes; what does is refused and says how."""
    numbers = pa.record_batch(
        {
            "i": pa.array([1, None, 3], pa.int32()),
            "b": pa.array([True, None, False]),
            "l": pa.array([[1], [], [2, 3]], pa.list_(pa.int8())),
            "f": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
            "s": pa.array([{"x": 1}, {"x": 2}, {"x": 3}]),
        }
    )
    found = import_device(on_device(numbers))
    check_export(found)
    assert pa.record_batch(found.to_host(DEVICE.read, "full")).equals(numbers)
    DEVICE.reads.clear()
    refused(lambda: import_device(on_device(pa.record_batch({"t": ["a", "b"]}))), "'t'")
    views = pa.record_batch({"v": pa.array(["long enough to lie outside"] * 2, pa.string_view())})
    refused(lambda: import_device(on_device(views)), "views")
    refused(lambda: import_device(on_device(numbers.select(["i"]), uncounted=True)), "null_count -1")
    words = pa.record_batch({"d": pa.array(["a", "b"]).dictionary_encode()})
    refused(lambda: import_device(on_device(words)), "last offset")
    assert DEVICE.reads == []
    counted = import_device(on_device(numbers.select(["i"]), uncounted=True), DEVICE.read)
    assert counted.to_host(DEVICE.read).to_pydict() == {"i": [1, None, 3]}


def slices_of_foreign_batches() -> None:
    """Offsets are added to addresses; bits are not moved."""
    values = pa.record_batch(
        {
            "i": list(range(40)),
            "n": [None if i % 3 == 0 else i for i in range(40)],
            "b": [i % 2 == 0 for i in range(40)],
            "t": [str(i) for i in range(40)],
            "s": [{"x": i, "y": [i] * (i % 4)} for i in range(40)],
        }
    )
    for offset, length in ((8, 20), (16, 24), (40, 0)):
        part = values.slice(offset, length)
        found = import_device(on_device(part), DEVICE.read)
        assert pa.record_batch(found.to_host(DEVICE.read, "full")).to_pydict() == part.to_pydict(), offset
    part = values.select(["i", "t"]).slice(3, 20)
    found = import_device(on_device(part), DEVICE.read)
    assert pa.record_batch(found.to_host(DEVICE.read, "full")).to_pydict() == part.to_pydict()
    for name in ("n", "b"):
        refused(
            lambda name=name: import_device(on_device(values.select([name]).slice(3, 20)), DEVICE.read),
            "bits",
        )


def foreign_arrays_are_released_once() -> None:
    """A producer's memory goes with the last thing that points there, and a second taking is refused."""
    before = pa.total_allocated_bytes()
    pair = on_device(pa.record_batch({"x": pa.array(range(100_000))}))
    found = import_device(pair)
    for wrong in (pair, (pair[0], pair[0]), object(), (1, 2, 3)):
        try:
            import_device(wrong)
        except ipc.UsageError:
            continue
        raise AssertionError(wrong)
    exported = found.__arrow_c_device_array__()
    del found, pair
    gc.collect()
    assert pa.total_allocated_bytes() > before
    del exported
    gc.collect()
    assert pa.total_allocated_bytes() == before


def hosts_refuse_what_is_not_theirs() -> None:
    """The importers for the CPU do not take a device's array for one of theirs."""
    for taker in (ipc.RecordBatch.from_arrow, ipc.Table.from_arrow):
        found = None
        try:
            taker(on_device(pa.record_batch({"x": [1, 2]})))
        except (ipc.UsageError, ipc.UnsupportedError) as error:
            found = error
        assert "on a device of type 2" in str(found), found


def main(*names: str) -> None:
    """Try what is named, each thing for itself."""
    for name in names:
        DEVICE.reads.clear()
        gc.collect()  # what the one before left
        try:
            globals()[name]()
            print(name, "is done", flush=True)
        except Exception:
            traceback.print_exc()
