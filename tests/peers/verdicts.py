"""What every reader of ours, and pyarrow, say about the same bytes; run as a process that may die.

``python -m peers.verdicts KIND SEED COUNT FIRST`` makes COUNT mutants of the golden files of KIND ("stream"
or "file"), judges those from FIRST on, and prints JSON lines: before each stage one that names it, so that
the parent knows whose fault an end of the process is, and after each input one with the verdicts.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from helpers import arrays, drive, golden, mutate

import arrowipc as ipc
from arrowipc.columns.extensions import STORED_TIMES

ROWS = 1000
#: Of columns that cannot be handed over at all.
KEPT = "kept inside for a NUL in a name"
DRIVERS = {"stream": drive.from_bytes, "file": drive.from_file}


def goldens(kind: str) -> list[bytes]:
    return [golden.load(case).form(kind).read_bytes() for case in golden.cases()]


def shown(batch: Any) -> list[str]:
    """The columns of a batch as text, as far as they are compared."""
    part = batch.slice(0, min(batch.num_rows, ROWS))
    return [_column(column) for column in part.columns]


def _column(array: Any) -> str:
    try:
        return repr(array.to_pylist(extensions=STORED_TIMES))
    except ipc.LimitError:
        return f"{len(array)} rows that stand for too much"


def reading(driver: drive.Driver, data: bytes) -> tuple[str, Any]:
    """("values", schema and rows) or ("refused", the error)."""
    try:
        found = driver(data)
        schema = f"{found.schema}{found.schema.metadata}"
        return "values", (schema, [(batch.num_rows, shown(batch)) for batch in found.batches])
    except ipc.ArrowIpcError as error:
        return "refused", error


def in_a_payload(data: bytes) -> drive.Reading:
    found = ipc.decode_payloads([data])
    return drive.Reading(found.schema, [found.batch])


def joined(batches: list[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    """Batches as the one batch that a payload becomes."""
    columns = zip(*(columns for _, columns in batches), strict=True)
    rows = ["[" + ", ".join(part[1:-1] for part in parts if part != "[]") + "]" for parts in columns]
    return sum(count for count, _ in batches), rows


def disagreement(data: bytes) -> tuple[tuple[str, Any], str]:
    """How `open_stream` reads a stream, and which other reader of ours reads it otherwise ("": none)."""
    ours = reading(drive.from_bytes, data)
    for name, driver in (("object", drive.from_object), ("push", drive.pushed_in_bits)):
        other = reading(driver, data)
        if other[0] != ours[0]:
            return ours, f"{name}: {other}"
        if ours[0] == "values" and other[1] != ours[1]:
            return ours, f"{name}: other values"
        # How much of it is there decides what a stranger is taken for.
        strange = any("not Arrow IPC" in str(each[1]) for each in (ours, other))
        if ours[0] == "refused" and not strange and type(other[1]) is not type(ours[1]):
            return ours, f"{name}: {other[1]!r}, not {ours[1]!r}"
    other = reading(in_a_payload, data)
    if other[0] != ours[0]:
        return ours, f"payload: {other}"
    if ours[0] == "values" and ours[1][1] and other[1][1] != [joined(ours[1][1])]:
        return ours, "payload: other values"
    return ours, ""


def theirs(kind: str, data: bytes) -> list[Any]:
    """What pyarrow reads, fully validated."""
    _, batches = arrays.read_by_pyarrow(data, kind)
    for batch in batches:
        batch.validate(full=True)
    return batches


def handed_over(kind: str, data: bytes) -> str:
    """What pyarrow's full validation says about what *we* read, where it refuses the bytes themselves."""
    for batch in DRIVERS[kind](data).batches:
        drive.export_to_pyarrow(batch)
    return "safe"


def compared(kind: str, data: bytes, found: list[Any]) -> str:
    """Both accepted: whether the values are the same."""
    ours = DRIVERS[kind](data).batches
    if len(ours) != len(found):
        return f"{len(ours)} batches, pyarrow {len(found)}"
    for number, (mine, other) in enumerate(zip(ours, found, strict=True)):
        mine = pa.record_batch(mine)
        for index, name in enumerate(mine.schema.names):
            try:
                a, b = mine.column(index), other.column(index)
            except KeyError:  # pyarrow carries month intervals and has no class for them
                continue
            if a.type != b.type:
                return f"batch {number}, {name}: {a.type}, pyarrow {b.type}"
            if not a.equals(b) and repr(_rows(a)) != repr(_rows(b)):
                return f"batch {number}, {name}: other values"
    return "equal"


def _rows(array: Any) -> Any:
    try:
        return array.to_pylist()
    except Exception as error:  # types whose values pyarrow does not show
        return type(error).__name__


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def words(error: BaseException) -> str:
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= 400 else f"{text[:200]} ... {text[-200:]}"


def told(compare: Callable[..., str], *given: Any) -> str:
    """What a comparison says; it goes over the C data interface, which has no names with a NUL (rule 14)."""
    try:
        return compare(*given)
    except ipc.UnsupportedError as error:
        return KEPT if "contains a NUL" in str(error) else words(error)
    except Exception as error:
        return words(error)


def judge(kind: str, number: int, data: bytes) -> None:
    say(input=number, stage="ours")
    if kind == "stream":
        (verdict, detail), other = disagreement(data)
    else:
        (verdict, detail), other = reading(drive.from_file, data), ""
        again = reading(drive.from_file_object, data)
        if again[0] != verdict or (verdict == "values" and again[1] != detail):
            other = f"object: {again}"[:300]
    line = {"ours": verdict if verdict == "values" else words(detail), "between ours": other[:400]}
    say(input=number, stage="theirs", **line)
    try:
        found = theirs(kind, data)
        line["theirs"] = "values"
    except Exception as error:
        line["theirs"] = words(error)
    if line["theirs"] == line["ours"] == "values":
        say(input=number, stage="both")
        line["values"] = told(compared, kind, data, found)
    elif line["ours"] == "values":
        say(input=number, stage="both")
        line["handed over"] = told(handed_over, kind, data)
    say(input=number, **line)


def limit_memory() -> None:
    """What makes pyarrow allocate without bounds is a MemoryError there, not the end of the machine."""
    import resource

    with open("/proc/self/maps") as maps:
        if "libasan" not in maps.read():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main(kind: str, seed: str, count: str, first: str) -> None:
    pa.set_cpu_count(1)
    limit_memory()
    for number, data in enumerate(mutate.mixed(goldens(kind), int(seed), int(count))):
        if number >= int(first):
            judge(kind, number, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
