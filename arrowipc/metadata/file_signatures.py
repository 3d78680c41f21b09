"""Other formats that users open by mistake: recognised by their first bytes, with advice."""

from __future__ import annotations

#: So many bytes recognise all of these formats; four recognise most.
HEAD = 262

_STREAM = (
    "this is an Arrow IPC stream (it begins with a continuation marker), not a file: read it with "
    "open_stream(), or with open(), which takes both"
)
_FILE = (
    "this is an Arrow IPC file (it begins with ARROW1), not a stream: read it with open_file(), or with "
    "open(), which takes both"
)
_PICKLE = (
    "this is a Python pickle, not Arrow IPC: if you trust who made it, pickle.load() or pandas.read_pickle() reads it"
)
_COMPRESSED = "this is {}: decompress it first, or hand over the file object that {} gives"

# Read as a size of metadata, these are more than any schema has, or no multiple of 4.
_KINDS = {
    b"\xff\xff\xff\xff": _STREAM,
    b"ARRO": _FILE,
    b"FEA1": "this is a Feather V1 file, which has no messages: open() reads it, and new_file() writes what it "
    "gives as an Arrow IPC file",
    b"PAR1": "this is a Parquet file: read it with a Parquet library, for example polars.read_parquet()",
    b"ORC": "this is an ORC file: read it with an ORC library, for example pyarrow.orc.read_table()",
    b"Obj\x01": "this is an Avro file: read it with an Avro library, for example polars.read_avro()",
    b"\x1f\x8b\x08": _COMPRESSED.format("gzip", "gzip.open(path)"),
    b"BZh": _COMPRESSED.format("bzip2", "bz2.open(path)"),
    b"\xfd7zX": _COMPRESSED.format("xz", "lzma.open(path)"),
    b"\x28\xb5\x2f\xfd": _COMPRESSED.format("a zstd frame", "zstandard.open(path)"),
    b"\x04\x22\x4d\x18": _COMPRESSED.format("an LZ4 frame", "lz4.frame.open(path)"),
    b"PK\x03\x04": "this is a zip archive: hand over one of its members, zipfile.ZipFile(path).open(name)",
    b"\x93NUM": "this is a NumPy array: read it with numpy.load()",
    b"\x89HDF": "this is an HDF5 file: read it with h5py",
    b"SQLi": "this is an SQLite database: read it with sqlite3",
    b"%PDF": "this is a PDF document, not Arrow IPC",
    b"vers": "this is text, and may be a Git LFS pointer: `git lfs pull` brings the file itself",
}


def foreign(head: bytes) -> str | None:
    """Name the format of a source with this head (from 4 bytes on), and what to do; None if it is unknown."""
    for first, advice in _KINDS.items():
        if head.startswith(first):
            return advice
    if head[257:262] == b"ustar":
        return "this is a tar archive: hand over one of its members, tarfile.open(path).extractfile(name)"
    # From protocol 2 on. Read as a size of metadata, the first four bytes are 16 MiB at least, or no multiple of 4.
    if head[:1] == b"\x80" and 2 <= head[1] <= 5 and (head[3] or head[2] == 0x95):
        return _PICKLE
    text = head.removeprefix(b"\xef\xbb\xbf")
    # The four bytes of a small size of metadata include zeros or control characters.
    if len(head) < 4 or any(byte < 32 and byte not in b"\t\n\r" for byte in text) or not text[:4].isascii():
        return None
    start = text.lstrip()[:1]
    if start == b"<":
        return (
            "this is HTML or XML, not Arrow IPC, as a server sends for an error: look at it, and fetch the data again"
        )
    kind = "JSON" if start in (b"{", b"[") else "text (CSV?)"
    shown = ascii(text[:20])[2:-1]
    return f"this is {kind}, not Arrow IPC: it begins with '{shown}'; arrowipc reads Arrow files and streams"
