"""Plays the other side of an implementation of Dissociated IPC, and checks the protocol item by item."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator

from arrowipc.dissociated.conformance.clients import Client, check_client
from arrowipc.dissociated.conformance.items import ITEMS, REQUIRED
from arrowipc.dissociated.conformance.servers import Result, Subject, check_server
from arrowipc.dissociated.conformance.vectors import as_json
from arrowipc.dissociated.protocol import ident_of
from arrowipc.dissociated.uri import DissociatedUri
from arrowipc.errors import ArrowIpcError, printable

EPILOG = """levels: M the text says MUST, S should, I implies it, O allows it; L is a rule of arrowipc where the text
is silent. Exit code: 0 all items of level M, S and I are met (--strict: all items); 1 some are not; 2 nothing could be
checked."""


def numbers(text: str) -> set[int]:
    """Return the items of "24,26,40-60"."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    if not found <= ITEMS.keys():
        raise ValueError(text)
    return found


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m arrowipc.dissociated.conformance", description=__doc__, epilog=EPILOG
    )
    sides = made.add_subparsers(dest="side", required=True, metavar="SIDE")
    server = sides.add_parser("server", help="check a server: read a stream of it", epilog=EPILOG)
    server.add_argument("uri", nargs="+", help="its URI; two: of metadata and data; three: all of them")
    server.add_argument("--ident", default="", help="of a stream that it has, best of several batches (default: empty)")
    client = sides.add_parser("client", help="check a client: serve streams to it", epilog=EPILOG)
    client.add_argument(
        "uri", help="where to listen, as in arrowipc+tcp://127.0.0.1:0, arrowipc+unix:, ucx://127.0.0.1:0"
    )
    client.add_argument(
        "command",
        help="starts the client with {uri}, or {metadata} and {data}, and {ident}; it writes the stream to its output "
        "in the streaming format, and ends with another code than 0 if it could not read it",
    )
    client.add_argument("--no-memory", action="store_true", help="it does not read bodies in shared memory")
    for each in (server, client):
        each.add_argument("--only", type=numbers, default=set(ITEMS), metavar="24,40-60", help="items to check")
        each.add_argument("--timeout", type=float, default=10.0, help="seconds to wait for the other side (10)")
        each.add_argument("--strict", action="store_true", help="the rules of levels O and L count too")
    sides.add_parser("items", help="print the items of the protocol")
    sides.add_parser("vectors", help="print messages, and what a client must do with them, as JSON")
    return made


def missed(results: Iterable[Result], strict: bool) -> list[int]:
    """Return the items that are not met: only those that the text requires, or all if `strict`."""
    wrong = {each.number for each in results if each.ok is False}
    return sorted(number for number in wrong if strict or ITEMS[number][0] in REQUIRED)


def lines(results: list[Result], only: set[int], strict: bool) -> Iterator[str]:
    """Yield the lines of the report: for each item, the messages sent and received; then the totals."""
    bad, counts = missed(results, strict), dict.fromkeys(("ok", "FAIL", "note", "-"), 0)
    numbers = {each.number for each in results}
    for number in sorted(numbers):
        level, words = ITEMS[number]
        mine = [each for each in results if each.number == number]
        seen = [each for each in mine if each.ok is not None]
        wrong = [each for each in seen if not each.ok]
        mark = "-" if not seen else "ok" if not wrong else "FAIL" if number in bad else "note"
        counts[mark] += 1
        yield f"{mark:4} {number:2} {level}  {words}"
        for each in wrong or seen or mine:
            yield f"           sent: {each.sent}"
            yield f"           came: {printable(each.came)}"
    yield f"cannot be seen from outside: {', '.join(map(str, sorted(only - numbers))) or 'none'}"
    yield (
        f"{counts['ok']} met, {counts['FAIL']} not met, {counts['note']} differ from a rule that the text does not "
        f"have, {counts['-']} had no occasion"
    )
    if bad:
        yield f"not met: {', '.join(map(str, bad))}"


def main(arguments: list[str] | None = None) -> int:
    """Check, and print the report."""
    given = parser().parse_args(arguments)
    if given.side == "items":
        print("\n".join(f"{number:2} {level}  {words}" for number, (level, words) in ITEMS.items()))
        return 0
    if given.side == "vectors":
        print(as_json(), end="")
        return 0
    try:
        if given.side == "server":
            uris = [DissociatedUri.parse(each) for each in given.uri]
            ways = {1: [uris], 2: [uris], 3: [uris[:1], uris[1:]]}[len(uris)]
            results = check_server(Subject(ways, ident_of(given.ident), given.timeout), given.only)
        else:
            results = check_client(Client(given.uri, given.command, given.timeout, not given.no_memory), given.only)
    except (ArrowIpcError, OSError, KeyError) as error:
        print(f"nothing was checked: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines(results, given.only, given.strict)))
    if given.side == "server" and any(each.number == 1 and "numbers none" in each.came for each in results):
        print("it sent nothing: --ident names a stream that it has")
    return 1 if missed(results, given.strict) else 0


if __name__ == "__main__":
    sys.exit(main())
