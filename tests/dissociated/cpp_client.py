"""The client of helpers/cpp/ucx_peer.cpp, with Arrow's side added: writes what it read to stdout, as an Arrow stream.

Run as ``python cpp_client.py PROGRAM IDENT METADATA_URI DATA_URI``.
"""

import struct
import subprocess
import sys

import arrowipc as ipc
from arrowipc.decode.framing import message_of
from arrowipc.decode.stream_decoder import StreamDecoder
from arrowipc.dissociated import DissociatedUri
from arrowipc.errors import ArrowIpcError

#: Of metadata and body of a message in a pipe.
LENGTHS = struct.Struct("<QQ")
NO_BODY = 2**64 - 1


def decoded(data: bytes) -> ipc.Table:
    """What the peer wrote, validated."""
    decoder, batches, at = StreamDecoder(None, "strict"), [], 0
    while at < len(data):
        head, body = LENGTHS.unpack_from(data, at)
        at += LENGTHS.size
        rest = None if body == NO_BODY else data[at + head : at + head + body]
        event = decoder.decode_next(message_of(data[at : at + head], rest))
        batches += [event.batch] if hasattr(event, "batch") else []
        at += head + len(rest or b"")
    return ipc.Table(decoder.schema, batches)


def main(program: str, ident: str, *uris: str) -> None:
    """Read a stream."""
    parsed = [DissociatedUri.parse(each) for each in uris]
    command = [program, "client", parsed[0].host, str(parsed[0].port), *(str(each.want_data) for each in parsed), ident]
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        sys.exit(f"the peer ended with {done.returncode}: {done.stderr.decode()[-200:]}")
    try:
        table = decoded(done.stdout)
    except ArrowIpcError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    with ipc.new_stream(sys.stdout.buffer, table.schema) as writer:
        writer.write(table)


if __name__ == "__main__":
    main(*sys.argv[1:])
