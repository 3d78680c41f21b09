"""What was found, item by item, as a text that is read from the top."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from arrowipc.arguments import printable
from arrowipc.dissociated.conformance.items import ITEMS, REQUIRED, UNSEEN

__all__ = ["Result", "lines", "missed"]


class Result(NamedTuple):
    """What was found about an item; `ok` is None where there was no occasion to see it."""

    number: int
    ok: bool | None
    sent: str
    came: str


def missed(results: Iterable[Result], strict: bool) -> list[int]:
    """Return the items that are not met: those that the text asks for, and if strict the others too."""
    return sorted(
        {each.number for each in results if each.ok is False and (strict or ITEMS[each.number][0] in REQUIRED)}
    )


def lines(side: str, results: list[Result], only: set[int], strict: bool) -> Iterable[str]:
    """Yield the report: each item, what was sent and what came; then what cannot be seen, and why; then the sum."""
    bad, counts = missed(results, strict), dict.fromkeys(("ok", "FAIL", "note", "-"), 0)
    for number in sorted({each.number for each in results}):
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
    yield ""
    for reason, numbers in UNSEEN[side].items():
        if shown := [str(each) for each in numbers if each in only]:
            yield f"not seen, because {reason}: {', '.join(shown)}"
    yield (
        f"{counts['ok']} met, {counts['FAIL']} not met, {counts['note']} differ from a rule that the text does not "
        f"have, {counts['-']} had no occasion"
    )
    if bad:
        yield f"not met: {', '.join(map(str, bad))}"
