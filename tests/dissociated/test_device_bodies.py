"""Bodies on devices pass without being read: memory of the device of these tests ends the process that reads it.

It is mapped twice: where arrays say that it is without any right to access it, and where the "driver" copies from.
"""

import ctypes
import gc
import mmap
import os
import random
import signal
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from dissociated import peers
from helpers import arrow_columns
from helpers.cdata import CArray, CDeviceArray, peek
from helpers.processes import run_python

import arrowipc as ipc
from arrowipc.decode.framing import Message, message_of
from arrowipc.dissociated.client import Client
from arrowipc.dissociated.connection import Frame
from arrowipc.dissociated.device import DeviceBatch, DeviceDecoder, DeviceMemory
from arrowipc.dissociated.link import Link
from arrowipc.dissociated.memory.address_pairs import Pairs, write_pairs
from arrowipc.dissociated.served import messages_of
from arrowipc.dissociated.session import Roles, Session
from arrowipc.events import BatchRead

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memfd is Linux's")

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


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    DEVICE.reads.clear()
    gc.collect()  # what the test before left


def buffers_of(array: CArray) -> Iterator[tuple[CArray, int, int]]:
    """Yield the pointers of an exported array and of all below it that are not NULL."""
    for i in range(array.n_buffers):
        if array.buffers[i]:
            yield array, i, array.buffers[i]
    for i in range(array.n_children):
        yield from buffers_of(array.children[i].contents)
    if array.dictionary:
        yield from buffers_of(array.dictionary.contents)


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


def on_device(message: Message, **more: Any) -> Message:
    """The same message with its body, of which a schema has none, on the device."""
    return message if message.kind == "Schema" else message_of(message.metadata, DEVICE.memory(message.body, **more))


def decoded(messages: Iterable[Message]) -> list[DeviceBatch]:
    """The batches of messages with bodies on the device."""
    decoder = DeviceDecoder(memory=DeviceMemory(DEVICE.address, DEVICE.size, CUDA, DEVICE_ID, EVENT))
    events = [decoder.decode_next(each) for each in messages]
    return [each.batch for each in events if isinstance(each, BatchRead)]


def received(source: Any, by_pairs: bool = False, **more: Any) -> list[DeviceBatch]:
    """The batches of a stream whose bodies a driver puts on the device, and tells of by pairs or not."""
    if not by_pairs:
        return decoded(on_device(each, **more) for each in messages_of(source))
    schema, *rest = messages_of(source)
    region = DeviceMemory(DEVICE.address, DEVICE.size, CUDA, DEVICE_ID, EVENT)
    told = [(each.metadata, Pairs(write_pairs(each, DEVICE.put(each.body)))) for each in rest]
    return decoded([schema, *(pairs.message(metadata, region, region.address) for metadata, pairs in told)])


@pytest.mark.nosanitize  # ends by a signal that the sanitizer answers in its own way
def test_d095_the_device_of_these_tests_cannot_be_read():
    code = "from dissociated.test_device_bodies import *; ctypes.string_at(DEVICE.put(b'secret'), 6)"
    assert run_python(code).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("by_pairs", [False, True])
def test_d095_a_received_body_is_never_read(by_pairs):
    """Every type, dictionaries too, by packed bodies and by pairs."""
    table = pa.Table.from_batches([arrow_columns.everything()] * 2)
    batches = received(table, by_pairs)
    assert len(batches) == 2
    for batch in batches:
        check_export(batch)
        assert batch.schema == ipc.Table.from_arrow(table).schema
    assert DEVICE.reads == []
    # Only who asks for it gets a copy on the host.
    for batch in batches:
        assert pa.record_batch(batch.to_host(DEVICE.read, "strict")).equals(arrow_columns.everything())


def test_d095_a_replaced_dictionary_is_that_of_its_batch():
    """Batches keep the dictionary that they came with."""
    words = (["a", "b"], ["c", None])
    table = pa.Table.from_batches([pa.record_batch({"d": pa.array(each).dictionary_encode()}) for each in words])
    found = [batch.to_host(DEVICE.read).to_pydict()["d"] for batch in received(table)]
    assert found == [list(each) for each in words], found


def test_d095_empty_batches_are_nowhere():
    """A batch without a body has no device to be on."""
    (batch,) = received(pa.record_batch({"x": pa.array([], pa.int64())}))
    assert (batch.num_rows, batch.device_type, batch.device_id, batch.sync_event) == (0, 1, -1, 0)
    assert batch.to_host(DEVICE.read).num_rows == 0


def test_d096_memory_lives_as_long_as_what_points_there():
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


def test_d005_d095_a_client_passes_bodies_on():
    """The client of every transport, where one puts bodies on a device as they arrive."""

    class ToDevice(peers.OneByOne):
        def receive(self) -> Frame | None:
            frame = super().receive()
            return frame if frame is None or frame.tag is None else Frame(frame.tag, DEVICE.memory(frame.data))

    there, here = peers.socket_pair(ToDevice)
    table = pa.Table.from_batches([arrow_columns.everything()] * 3)
    session = Session(here, {b"x": table}.get, Roles({WANT_DATA: "both"}, None))
    there.send(WANT_DATA, [b"x"])
    stream = Client(Link(there, there), DeviceDecoder())  # type: ignore[arg-type]
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


def test_d095_mutated_metadata_never_leads_to_a_read():
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


def test_d096_what_needs_a_read_is_refused():
    """Received bodies that cannot be passed on by their addresses."""
    plain = pa.record_batch({"x": [1, None, 3]})
    schema, batch = messages_of(plain)
    node = (3).to_bytes(8, "little") + (1).to_bytes(8, "little")
    assert bytes(batch.metadata).count(node) == 1
    uncounted = bytes(batch.metadata).replace(node, node[:8] + b"\xff" * 8)
    shifted = DeviceMemory(DEVICE.put(bytes(4) + bytes(batch.body)) + 4, batch.body_length, CUDA)
    big = ipc.Schema(ipc.RecordBatch.from_arrow(plain).schema.fields, endianness="big")
    grown = [pa.record_batch({"d": pa.DictionaryArray.from_arrays([0], each)}) for each in (["a"], ["a", "b"])]
    refused = {
        "compressed": map(on_device, messages_of(plain, compression="lz4")),
        "null_count -1": [schema, message_of(uncounted, DEVICE.memory(batch.body))],
        "multiple of 8": [schema, message_of(batch.metadata, shifted)],
        "isDelta": map(on_device, messages_of(pa.Table.from_batches(grown), dictionary_deltas=True)),
        "big-endian": [ipc.read_message(big.serialize()), on_device(batch)],
    }
    assert len(decoded([schema, on_device(batch)])) == 1
    for words, messages in refused.items():
        with pytest.raises(ipc.UnsupportedError, match=f"{words}.*copy the data to the CPU"):
            decoded(messages)


def test_d096_batches_on_the_cpu_say_so():
    batch = ipc.RecordBatch.from_arrow(pa.record_batch({"x": [1, None], "y": ["a", "b"]}))
    for exported in (batch, batch["y"]):
        pair = exported.__arrow_c_device_array__()
        device = peek(pair[1], CDeviceArray)
        assert (device.device_type, device.device_id, device.sync_event) == (1, -1, None)
        assert list(device.reserved) == [0, 0, 0]
        exported.__arrow_c_device_array__(None, later=None)
        with pytest.raises(NotImplementedError, match="'later'"):
            exported.__arrow_c_device_array__(None, later=1)


def test_device_memory_is_a_place():
    for address, nbytes in ((2**64 - 1, 2), (0, -1)):
        with pytest.raises(ipc.UsageError, match="no memory"):
            DeviceMemory(address, nbytes, 2)
    with pytest.raises(ipc.UsageError, match="made by"):
        DeviceBatch()
