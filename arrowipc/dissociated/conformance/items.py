"""The checklist of the protocol: its requirements."""

from __future__ import annotations

#: Levels that an implementation has to meet: the text says MUST (M) or should (S), or implies it (I). The other levels:
#: the text allows it (O), or it is a rule of arrowipc where the text says nothing (L).
REQUIRED = "MSI"

_TEXT = """
1 M Untagged messages keep their boundaries, any split of the byte stream
2 O Metadata in the frame of the IPC format (FFFFFFFF, length) is accepted
3 M A tagged message is a 64-bit tag and a body of any length, also 0
4 I Tagged and untagged messages share one connection and are never confused
5 I The tag is known in host memory without touching the body
6 I A body is found by its tag; others stay queued
7 I A tag is a little-endian u64 where it is stored
8 S The scheme of the URI names the transport; an unknown one is an error
9 M want_data is in the URI, a decimal u64; without it there is an error
10 O free_data is in the URI, a decimal u64
11 S A server that may send bodies of type 1 publishes free_data
12 L A body of type 1 although the URI has no free_data: it is usable, and nothing is given back
13 O remote_handle is base64, percent-encoded; also the other alphabet, without padding, a space for a plus
14 L Unknown parameters of the URI are ignored, known ones that are repeated are an error
15 L want_data and free_data differ, and have a top byte above 1 and bits 32-55 that are not all 0
16 L The URI survives being read and written
17 I The server is idle until a tagged message has its want_data; other tags start nothing
18 S The ident in the body of want_data is opaque: any bytes
19 S The first message of a client is the tagged want_data
20 I Separate connections: one want_data for each, with its own tag and the same ident
21 L Unknown ident: no metadata, and the connection is closed; the client ends with an error
22 L Several streams at once do not mix
23 L A second want_data on a busy connection is an error or waits
24 I A metadata message: byte 0 is the type, bytes 1-4 the number, a little-endian u32
25 I Types other than 0 and 1 are an error
26 M The first message is the schema
27 M The first message has number 0
28 M Each further message has the next number, dictionaries too
29 I The rest of a metadata message is a complete flatbuffer Message, without a frame
30 L A client reads the flatbuffer at offset 5, which is not aligned
31 L Messages below 5 bytes, or of type 1 without a valid flatbuffer, are an error
32 M The end is sent behind the last metadata message
33 M The end has exactly 5 bytes; other lengths are an error
34 I The end has the number behind the last message
35 I An empty stream is a schema and an end with number 1, and no tagged message
36 I Dictionaries (first, delta, replacement) come before the batches that use them
37 L A second schema is an error
38 I custom_metadata of the schema and of messages is kept
39 L A second end, or a message at or behind the number of the end, is an error
40 M Each batch and dictionary has exactly one tagged message, also where its body is empty
41 I A schema has none
42 S Bits 0-31 of a body's tag are the number of its message
43 I Bits 56-63 of the tag are the type of the body
44 M Bits 32-55 of the tag are 0
45 L Reserved bits that are not 0 are an error
46 L A body of a type above 1 is an error
47 I A body of type 0 is the packed body, as long as the metadata say
48 I A body of type 1: u64 sum of the lengths, u64 number of pairs, then the pairs
49 I The first word is the sum of the lengths; another value is an error
50 I A pair is address and length, both little-endian u64
51 L One pair per buffer in the order of the metadata; a buffer of no bytes is (0, 0)
52 L A client also reads padding pairs of address 0, no pairs for empty buffers, one pair for the body
53 L A pair that is shorter than its buffer or outside the memory is an error
54 O A body of type 1 may have no pairs
55 I Both types of bodies may be in one stream
56 I Bodies may be compressed
57 L Buffers are aligned to 8 bytes where they are used
58 I The framing is little-endian also for a big-endian schema
59 L A body that arrives twice is an error
60 L A body without metadata is an error at the end
61 S Batches are delivered in the order of their numbers, whatever the order of arrival
62 I A body may arrive before its metadata
63 S A server of both streams sends bodies beside the metadata: the first before the end
64 I One connection and separate connections give the same stream
65 S Numbers go on with 0 behind 2**32 - 1
66 L A number that was there, or is behind, is an error
67 I An end that arrives before earlier metadata ends nothing until the gaps are filled
68 I The metadata connection may be closed after the end, while bodies are still due
69 S After the end, all metadata and bodies that are due are still processed
70 L A connection that is lost before the end is an error
71 S A client finds bodies by bits 0-31 of their tags
72 M Memory that was handed out stays valid until it is freed
73 M A client gives back every address
74 I A free_data message has 8 bytes for each of at least one address; other lengths are an error
75 O Addresses are freed in any grouping and order
76 S A client frees memory only when nothing uses it any more
77 S Addresses come back exactly as they were given
78 S The server keeps the data connection behind the last body, and waits for what is freed
79 I The stream is complete when nothing is held
80 L Memory may be freed during the stream
81 L The same address twice is two leases
82 L Addresses that the client does not hold are ignored
83 L Pairs of no bytes are not held
84 O Memory of a client that disconnects is released
85 L Memory of a client that is killed is released
86 L Memory of a client that disconnected is not used again while it may read
87 L A client can read what it has mapped when the server is gone
88 L A slow client makes a server keep a bounded amount
89 L No room in shared memory: the body is sent
90 L Numbers, counts and lengths far beyond everything are an error, and cost nothing
91 I Flight: GetFlightInfo, a location and a stream give the same as DoGet
92 L Flight: selection of a location, pairs, fallback
93 I UCX: the C++ reference client reads the server
94 I UCX: the client reads the C++ reference server
95 I Bodies on a device are not touched by the processor
96 I Device arrays: device type and id are kept
"""

#: Number -> level and text.
ITEMS: dict[int, tuple[str, str]] = {}
for _line in _TEXT.strip().splitlines():
    _number, _level, _words = _line.split(" ", 2)
    ITEMS[int(_number)] = (_level, _words)
