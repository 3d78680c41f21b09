"""One set of bytes, one answer: all our readers agree, and pyarrow and we differ only where we say why."""

import re
from collections import Counter
from typing import Any

import pytest
from helpers.arrays import ipc_bytes
from helpers.processes import judged, rounds
from peers import verdicts

import arrowipc as ipc

MUTANTS = rounds(600, 20_000)
SEED = 20261121


#: Why one side refuses what the other accepts, and what the words of the side that refuses match.
Reasons = dict[str, str]

# What pyarrow refuses and we accept: nothing that memory safety depends on, because what we make of it and
# hand over stands pyarrow's own full validation (`verdicts.handed_over`), whatever the reason.
WE_ACCEPT: Reasons = {
    "values outside their domain are read, and refused at strict (16 official files have them)": (
        r"does not fit in precision|whole number of days|is not within the acceptable range|padding bytes "
        r"were not all zero|Null array null_count unequal"
    ),
    "a null_count that is wrong and in range is refused at strict (case 67)": (
        r"null_count value \(-?\d+\) doesn't match actual number of nulls"
    ),
    "misaligned buffers are copied (case 74)": r"Buffer \d+ did not start on \d+-byte aligned offset",
    "values of dense unions may lie in any order (case 83)": r"Union value at position \d+ has non-monotonic offset",
    "without a bitmap there are no nulls (cases 67 and 69)": r"Buffer #0 too small in array",
    "without a bitmap a null count of -1 is 0 (case 67), which pyarrow takes for nulls in maps and in "
    "unions of V4; that no others are handed over is looked at apart": (
        r"^ArrowInvalid: (Map array \w+ array should have no nulls"
        r"|Cannot read \w+_union array with top-level validity bitmap)"
    ),
    "columns without rows need no offsets": r"isn't large enough for length: 0 and offset: 0",
    "unknown extension types are their storage (rule 15)": (
        r"Invalid storage type for|serialized metadata|Invalid serialized JSON data"
    ),
    "values of fixed size have any width that an int32 states (case 33)": (
        r"byte width of FixedSizeBinaryType too large"
    ),
    "dictionaries that no row needs may be missing (case 93)": (
        r"(ended without reading|did not have) the expected number \(\d+\) of dictionaries"
    ),
    "indices without a type are int32 (Schema.fbs)": r"Unexpected null field DictionaryEncoding.indexType",
    "compression is honoured in V4 too, where pyarrow takes compressed bytes for values": (
        r"array starts at negative offset -1|Buffer #[1-9]\d* too small in array"
    ),
    "parts of tables that nobody reads are not looked at": (
        r"Invalid flatbuffers message|Verification of flatbuffer-encoded Footer failed"
    ),
}

# What we refuse and pyarrow accepts: nothing that is valid.
WE_REFUSE: Reasons = {
    "every enum is one that the format knows (rule 5)": r"has the unknown value -?\d+",
    "every buffer lies inside the body (rule 1), also those that pyarrow leaves out: of columns without "
    "rows and validity without nulls": r"bytes -?\d+\.\.\+-?\d+ lie outside the \d+-byte body",
    "every compressed buffer has a sound prefix, also those that pyarrow leaves out": (
        r"the uncompressed length is -?\d+|buffer 0: claims [\d,]+ bytes|are too few for the 8-byte "
        r"|buffer 0: [\d,]+ bytes of \w+ do not decompress"
    ),
    "tables lie at multiples of 4 (case 21), and inside the metadata": (
        r"does not lie inside the metadata: the FlatBuffers data is broken"
    ),
    "names are UTF-8": r"the (name|timezone) is not UTF-8",
    # With -1 in its place the rest of it is the length of a stream's first message.
    "a file begins with its magic": (
        r"expected the magic .* at byte 0|this is an Arrow IPC stream|message 1: .* metadata: it needs 12,631 bytes"
    ),
    "there are as many nodes and buffers as the schema asks for (case 64)": (
        r"the batch has \d+ (FieldNodes|Buffers), the schema asks for \d+"
        r"|variadicBufferCounts: the number of entries is \d+"
    ),
    "types without children have none (case 34), where pyarrow does not look": (
        r"a type without children has \d+ children"
    ),
    "null counts are between 0 and the length (case 67), also those that pyarrow leaves out": (
        r"null_count is -?\d+: expected 0\.\.\d+"
    ),
    "dictionaries have a sound length of their own, which pyarrow leaves out": (
        r"dictionary ?batch.*(RecordBatch.length is -|claims \d+ rows, more than|FieldNode.length is -"
        r"|has \d+ rows, the batch has \d+)"
    ),
    "dictionaries are validated also if no row uses them": (
        r"\(DictionaryBatch\).*(buffer 1 \(offsets\): offset|value \d+ is not UTF-8)"
    ),
    "blocks lie in front of the footer and agree with their messages (rule 12)": (
        r"does not lie in bytes 8\.\.\d+|the footer says \d+ bytes"
    ),
    "offsets are sound also where there is no row": r"offset 0 is -?\d+, past the end at \d+",
    "runs have a value each (Run-End Encoded Layout), where pyarrow lets values be left over": (
        r"\.values': has \d+ elements, its parent needs \d+"
    ),
}


def reason(reasons: Reasons, words: str) -> str | None:
    return next((name for name, pattern in reasons.items() if re.search(pattern, words, re.I)), None)


def verdict(line: dict[str, Any]) -> tuple[str, str]:
    """The class that one mutant falls into; ("unexplained", ...) is what a test fails for."""
    if "died" in line and line.get("stage") != "theirs":
        return "unexplained", f"input {line['input']}: we died of signal {line['died']}: {line}"
    if line["between ours"]:
        return "unexplained", f"input {line['input']}: {line['ours']}; {line['between ours']}"
    died = "died" in line
    theirs = f"signal {line['died']}" if died else line["theirs"]
    if line.get("handed over", "safe") not in ("safe", verdicts.KEPT):
        return "unexplained", f"input {line['input']}: {line['handed over']}"
    match line["ours"] == "values", theirs == "values":
        case True, True:
            return "both accept", line["values"]
        case False, False:
            return "both refuse", "pyarrow by dying" if died else ""
        case True, False:
            why = "pyarrow dies" if died else reason(WE_ACCEPT, theirs)
            return ("we accept", why) if why else ("unexplained", f"input {line['input']}: {theirs}")
    why = reason(WE_REFUSE, line["ours"])
    return ("we refuse", why) if why else ("unexplained", f"input {line['input']}: {line['ours']}")


def table(kind: str, counts: Counter[tuple[str, str]]) -> str:
    rows = [f"{count:>7,}  {what}{': ' if why else ''}{why}" for (what, why), count in sorted(counts.items())]
    return "\n".join([f"\n{sum(counts.values()):,} mutants of golden {kind}s", *rows])


@pytest.mark.nosanitize  # pyarrow brings its own allocator
@pytest.mark.campaign
@pytest.mark.parametrize("kind", verdicts.DRIVERS)
def test_mutants_are_judged_alike(arrow_data, kind):
    lines = judged("peers.verdicts", kind, str(SEED), str(MUTANTS // 2))
    counts = Counter(map(verdict, lines))
    print(table(kind, counts))
    assert sum(counts.values()) == MUTANTS // 2
    unexplained = [why for what, why in counts if what == "unexplained"]
    assert not unexplained, "\n".join(unexplained[:20])
    others = {why for what, why in counts if what == "both accept"} - {"equal", verdicts.KEPT}
    assert not others, others
    # A reader that refuses everything would pass the above.
    assert counts["both accept", "equal"] > MUTANTS // 100


def test_a_reader_that_differs_is_found(monkeypatch):
    data = ipc_bytes({"x": [1, 2], "s": ["a", "b"]})
    assert verdicts.disagreement(data)[1] == ""
    true = ipc.decode_payloads

    def wrong(column):
        found = true(column)
        return type("Found", (), {"schema": found.schema, "batch": found.batch.slice(1)})

    monkeypatch.setattr(ipc, "decode_payloads", wrong)
    assert verdicts.disagreement(data)[1] == "payload: other values"


def test_a_verdict_without_a_reason_is_found():
    line = {"input": 1, "ours": "values", "between ours": "", "theirs": "ArrowInvalid: offsets out of bounds"}
    assert verdict(line)[0] == "unexplained"
    assert verdict({**line, "ours": "FormatError: no", "theirs": "values"})[0] == "unexplained"
    assert verdict({**line, "died": 11, "stage": "ours"})[0] == "unexplained"
    assert verdict({**line, "died": 11, "stage": "theirs"}) == ("we accept", "pyarrow dies")
