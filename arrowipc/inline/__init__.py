"""The lowest package: structs and ``static inline`` functions that kernels are compiled with.

``loads`` (unaligned loads, sums that cannot overflow) and ``bits`` (bitmaps) are what all others use;
``fault`` is how kernels without Python report an error; ``flatbuf`` reads FlatBuffers tables by the slots
of ``fbs_layout`` (the numbers of ``format/*.fbs``); ``plan`` has the structs that all kernels share,
``layouts`` says which buffers a layout has, ``element`` reads one untrusted element of them; ``utf8``,
``minmax``, ``hash`` and ``slots`` are loops and tables, ``room`` is memory that is reused, ``threads``
shares work and protects shared data, ``huge_pages`` is advice about large memory, ``body_parts`` is the list
of parts of a message's body, and ``footer_block`` writes where a message lies.

Imports nothing of ours.
"""
