"""Messages for a client, and the required result: the table of the conformance check and the tests.

Streams are written in words: ``S`` is the schema, ``M1`` and ``B1`` metadata and body of batch 1, ``P1`` its body as
pairs of address and length, ``E3`` the end of the metadata at number 3, ``=02`` an untagged message in hexadecimal,
``*lz4`` a whole other stream of `STREAMS`. ``@`` gives another number or, for bodies, another tag.
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from arrowipc.columns.record_batch import RecordBatch
from arrowipc.dissociated.memory.address_pairs import write_pairs
from arrowipc.dissociated.served import messages_of
from arrowipc.schemas import Schema
from arrowipc.types import dictionary, field, int8, int64, null, utf8

#: A tag (None: untagged) and the bytes of a message.
Sent = tuple[int | None, bytes]
#: The place of batch 1's body in the shared memory: segment 1, behind 64 bytes.
BEHIND = 64
ADDRESS = (1 << 48) + BEHIND

PLAIN = Schema([field("x", int64()), field("s", utf8())], {"key": "value"})
WORDS = Schema([field("d", dictionary(int8(), utf8()))])
#: Name of a stream -> its schema, batches, options of the writer.
STREAMS: dict[str, tuple[Schema, list[dict[str, list[Any]]], dict[str, Any]]] = {
    "plain": (PLAIN, [{"x": [1, None, 3], "s": ["a", "", "ccc"]}, {"x": [4], "s": ["é"]}], {}),
    "empty": (PLAIN, [], {}),
    "nulls": (Schema([field("n", null())]), [{"n": [None] * 5}], {}),
    "lz4": (PLAIN, [{"x": [7] * 200, "s": ["text"] * 200}], {"compression": "lz4"}),
    "dictionaries": (WORDS, [{"d": ["a", "b"]}, {"d": ["b", "c", "a"]}, {"d": ["z"]}], {"dictionary_deltas": True}),
}


class Vector(NamedTuple):
    """Messages in the order in which a client receives them."""

    item: int  #: of the checklist
    words: str
    means: str
    messages: tuple[Sent, ...]
    values: dict[str, list[Any]] | None  #: None: the client must end with an error
    is_lost: bool = False  #: the server disconnects after the last message

    @property
    def name(self) -> str:
        """str: number of the item, and `words`."""
        return f"{self.item:03} {self.words}".strip()

    @property
    def has_pairs(self) -> bool:
        """bool: a body is in shared memory."""
        return " P" in self.words


#: Item, words, number of batches that the client must read (None: it must fail; negative: the first one so many times),
#: meaning. "lost": the server disconnects after the last message.
ROWS: tuple[tuple[int, str, int | None, str], ...] = (
    (24, "S M1 B1 M2 B2 E3", 2, "a stream: a schema, two batches, the end of the metadata"),
    (2, "S0 M1 B1 E2", 1, "the schema is in its encapsulated frame, FFFFFFFF and a length"),
    (21, "", None, "the connection ends and nothing was sent: the stream is unknown"),
    (25, "S =0200000000 M1 B1 E2", None, "an untagged message of type 2"),
    (25, "S =ff00000000 M1 B1 E2", None, "an untagged message of type 255"),
    (26, "M1@0 B1@0 E1", None, "the first message is a batch, not the schema"),
    (27, "S@1 M1@2 B1@2 E3", None, "the schema has number 1, not 0"),
    (28, "S M2 B2 E3 lost", None, "message 1 is missing"),
    (29, "*plain", 2, "metadata are bare flatbuffers"),
    (31, "=01 E1", None, "an untagged message of 1 byte: shorter than its prefix"),
    (31, "=01000000 E1", None, "an untagged message of 4 bytes: shorter than its prefix"),
    (31, "=0100000000 E1", None, "metadata without any byte"),
    (31, "=0100000000ffffffffffffffff E1", None, "metadata that are no flatbuffer"),
    (33, "S M1 B1 =000200000000", None, "an end of the metadata of 6 bytes"),
    (34, "S M1 B1 E2", 1, "the end has the number behind the last message"),
    (34, "S M1 B1 E1", None, "the end has the number of the last message"),
    (35, "*empty", 0, "a schema and the end with number 1"),
    (35, "E0", None, "an end without a schema"),
    (36, "*dictionaries", 3, "a dictionary, then a delta, then one that replaces it, each before its batch"),
    (37, "S S@1 M1@2 B1@2 E3", None, "a second schema"),
    (38, "S M1 B1 E2", 1, "the schema has custom metadata: key = value"),
    (39, "S M1 E2 E2 B1", None, "a second end of the metadata"),
    (39, "S M1 E2 M2 B1 B2", None, "a message behind the end of the metadata"),
    (39, "S B1@3 E2 M1 B1", None, "a body whose number the end excludes"),
    (39, "S E0 M1 B1 E2", None, "an end at 0, where the schema is"),
    (40, "*nulls", 1, "a batch of no bytes has a tagged message of no bytes"),
    (41, "S B1@0 M1 B1 E2", None, "a body for the schema, which has none"),
    (41, "B1@0 S M1 B1 E2", None, "a body for the schema, before it"),
    *((45, f"S M1 B1@{1 << bit | 1:#x} E2", None, f"bit {bit} of a tag, which is reserved") for bit in (32, 44, 55)),
    *((46, f"S M1 B1@{kind << 56 | 1:#x} E2", None, f"a body of type {kind}") for kind in (2, 255)),
    (47, "S M1 B0 E2", None, "a body of 8 bytes, where the metadata announce more"),
    (56, "*lz4", 1, "a compressed body"),
    (59, "S B1 B1 M1 E2", None, "a body arrives twice"),
    (60, "S M1 B1 B2 E2", None, "a body without metadata"),
    (61, "B2 M2 S B1 M1 E3", 2, "later messages arrive first"),
    (61, "E3 M2 M1 S B2 B1", 2, "everything arrives backwards"),
    (62, "S B1 M1 E2", 1, "a body arrives before its metadata"),
    (66, "S M1 M1 B1 E2", None, "metadata arrive twice"),
    (66, "S M1 B1 S M2 B2 E3", None, "the schema arrives again"),
    (66, "S M1 B1 B1 M2 B2 E3", None, "a body arrives again after its message was complete"),
    (66, f"S M1 B1 M2@{2**31 + 5} E3", None, "a number that is more than half of all numbers ahead, so behind"),
    (67, "S E3 M2 B2 M1 B1", 2, "the end arrives before the metadata of two batches"),
    (69, "S M1 M2 E3 B1 B2", 2, "bodies arrive behind the end of the metadata"),
    (70, "S M1 B1 lost", None, "the server is gone before the end"),
    (70, "S M1 E2 lost", None, "the server is gone before the body of message 1"),
    (70, "S M2 B2 E3 lost", None, "the server is gone before message 1"),
    (90, f"S M1@{2**31} E2", None, "a number that is two thousand million ahead"),
    (90, f"S B1@{2**31} E2", None, "a body whose number is two thousand million ahead"),
    # -- bodies in shared memory --
    (48, "S M1 P1 E2", 1, "a body as pairs: one for each buffer, (0, 0) for those of no bytes"),
    (49, "S M1 P1total E2", None, "the sum of the lengths is 8 more than the lengths"),
    (50, "S M1 P1odd E2", None, "pairs that end in the middle of one"),
    (52, "S M1 P1whole E2", 1, "one pair for the whole body"),
    (52, "S M1 P1padding E2", 1, "buffers of no bytes have no pair, and a pair of address 0 stands for padding"),
    (53, "S M1 P1short E2", None, "the last pair is shorter than its buffer"),
    (53, "S M1 P1outside E2", None, "a pair outside the segment"),
    (55, "S M1 P1 M2 B2 E3", 2, "one body by reference, one that is sent"),
    (71, "S P1 M1 E2", 1, "the body is found by the lowest 32 bits of its tag"),
    (81, "S M1 P1 M1@2 P1@2 E3", -2, "the same addresses twice are two leases: each is given back twice"),
    (90, "S M1 P1count E2", None, "2**60 pairs are announced"),
)


@functools.cache
def _stream(name: str) -> tuple[list[Any], list[dict[str, list[Any]]]]:
    """Return the messages of a stream of `STREAMS`, and its batches."""
    schema, batches, options = STREAMS[name]
    given = [RecordBatch.from_pydict(each, schema) for each in batches]
    return list(messages_of(given, schema=schema, **options)), batches


@functools.cache
def memory() -> bytes:
    """Return the contents of the shared memory: the body of batch 1 at its place."""
    return bytes(BEHIND) + bytes(_stream("plain")[0][1].body)


def _pairs(variant: str) -> bytes:
    """Return the body of batch 1 as pairs, in a correct or a wrong variant."""
    message = _stream("plain")[0][1]
    places = list(struct.iter_unpack("<2Q", write_pairs(message, ADDRESS)[16:]))
    if variant == "whole":
        places = [(ADDRESS, message.body_length)]
    elif variant == "padding":
        filled = [each for each in places if each[1]]
        places = [*filled[:-1], (0, 8), filled[-1]]
    elif variant == "short":
        places[-1] = (places[-1][0], 1)
    elif variant == "outside":
        places[-1] = (ADDRESS + (1 << 32), places[-1][1])
    total, count = sum(size for _, size in places), len(places)
    total += 8 * (variant == "total")
    count = 1 << 60 if variant == "count" else count
    words = struct.pack(f"<{2 + 2 * len(places)}Q", total, count, *(word for each in places for word in each))
    return words[:-8] if variant == "odd" else words


def _sent(word: str) -> Iterator[Sent]:
    """Yield the messages of a word."""
    word, _, place = word.partition("@")
    kind, rest = word[0], word[1:]
    messages = _stream("plain")[0]
    number = int(place, 0) if place else int(rest[:1] or 0) if kind in "SMBP" else 0
    if kind == "=":
        yield None, bytes.fromhex(rest)
    elif kind == "E":
        yield None, struct.pack("<BI", 0, int(rest))
    elif kind == "S":
        head = bytes(messages[0].metadata)
        framed = struct.pack("<iI", -1, len(head)) if rest else b""
        yield None, struct.pack("<BI", 1, number) + framed + head
    elif kind == "M":
        yield None, struct.pack("<BI", 1, number) + bytes(messages[int(rest)].metadata)
    elif kind == "B":
        yield number or (0 if place else 1), bytes(messages[int(rest)].body) if rest != "0" else bytes(8)
    elif kind == "P":
        yield 1 << 56 | number, _pairs(rest[1:])
    else:
        stream = _stream(rest)[0]
        for at, message in enumerate(stream):
            yield None, struct.pack("<BI", 1, at) + bytes(message.metadata)
            if message.kind != "Schema":
                yield at, bytes(message.body)
        yield None, struct.pack("<BI", 0, len(stream))


def _values(words: str, batches: int | None) -> dict[str, list[Any]] | None:
    """Return the values that a client must read; None if it must fail."""
    if batches is None:
        return None
    schema, found, _ = STREAMS[words[1:] if words[:1] == "*" else "plain"]
    read = found[:1] * -batches if batches < 0 else found[:batches]
    return {name: [value for each in read for value in each[name]] for name in schema.names}


@functools.cache
def vectors() -> tuple[Vector, ...]:
    """Return all vectors."""
    made = []
    for item, words, batches, means in ROWS:
        sent = tuple(each for word in words.removesuffix("lost").split() for each in _sent(word))
        made.append(Vector(item, words, means, sent, _values(words, batches), not words or words.endswith("lost")))
    return tuple(made)


def as_json() -> str:
    """Return the vectors for programs in any language: a file in tests/data/dissociated, whose README describes it."""
    rows = [
        {
            "name": each.name,
            "item": each.item,
            "means": each.means,
            "messages": [
                {"tag": tag if tag is None else f"{tag:#018x}", "hex": data.hex()} for tag, data in each.messages
            ],
            "server_gone": each.is_lost,
            "must": "fail" if each.values is None else "read",
            "values": each.values,
        }
        for each in vectors()
    ]
    shared = {"segment": ADDRESS >> 48, "hex": memory().hex()}
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in rows)
    return f'{{"memory": {json.dumps(shared)},\n"vectors": [\n{lines}\n]}}\n'
