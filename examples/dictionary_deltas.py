"""A producer whose dictionary grows sends only the new words to a consumer in another process.

python dictionary_deltas.py
"""

import socket
from multiprocessing import get_context

import arrowipc as ipc

SCHEMA = ipc.schema({"city": ipc.types.dictionary("int32", "string")})


def produce(end: socket.socket) -> None:
    """Send a batch per minute; each has one more city than the last."""
    cities: list[str] = []
    with end, end.makefile("wb") as sink:
        with ipc.new_stream(sink, SCHEMA, dictionary_deltas=True, unify_dictionaries=True) as writer:
            for minute in range(5):
                cities.append(f"city {minute}")
                writer.write({"city": cities})


def main() -> None:
    """Start the producer, and read each batch when it arrives."""
    near, far = socket.socketpair()
    producer = get_context("fork").Process(target=produce, args=(far,))
    producer.start()
    far.close()
    with near, near.makefile("rb") as source, ipc.open_stream(source) as reader:
        for batch in reader:
            print(batch.num_rows, "rows, the last one is", batch["city"].to_pylist()[-1])
        print("read:", reader.stats.num_dictionary_deltas, "deltas")
    producer.join()


if __name__ == "__main__":
    main()
