"""Brings what was measured into the rows of the speed table: the case that a row names, and its worst one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import QUESTIONS
from benchmarks.goals import ROWS, Row
from benchmarks.report import amount, times

HEADER = ("question", "pyarrow", "arrowipc", "times as fast", "worst case", "goal", "verdict")
UNMET = ("MISSED", "FAILED", "level")


@dataclass(frozen=True)
class Line:
    """What the table says about one row; results are those of `Result.as_json`.

    Attributes
    ----------
    row : Row
    named, worst : dict or None
        The results of the case that the row names and of the one that is worst; None if nothing was measured.
    skipped : str
        Why nothing was measured.
    """

    row: Row
    named: dict[str, Any] | None = None
    worst: dict[str, Any] | None = None
    skipped: str = ""

    @property
    def verdict(self) -> str:
        """Whether the goal is met."""
        if self.named is None:
            return f"not measured: {self.skipped}"
        said = str(self.named["verdict"]) or "not judged: tiny data"
        missed = self.worst is not None and self.worst["verdict"] in ("MISSED", "FAILED")
        return "met, the worst case not" if said == "met" and missed else said

    @property
    def reason(self) -> str:
        """Why a case misses the goal, else ""."""
        result = self.named if self.verdict in UNMET else self.worst
        if result is None or result["verdict"] not in UNMET:
            return ""
        said = [self.row.why] if self.row.why else []
        for kind, name in (("the floor", self.row.floor), ("for comparison", self.row.beside)):
            if speed := ratio(timing(result, name)):
                said.append(f"{kind} ({name}) takes {shown(result, timing(result, name))}, {speed}")
        return "; ".join([f"{figure(result)} for {result['case']}", *(said or ["no floor is known"])])

    def cells(self) -> tuple[str, ...]:
        """Return the cells below `HEADER`."""
        row = self.row
        if self.named is None:
            return (row.words, "", "", "", "", row.goal, self.verdict)
        name = self.named["baseline"]
        base = shown(self.named, timing(self.named, name)) + ("" if name == "pyarrow" else f" ({name})")
        ours = timing(self.named, self.named["ours"])
        worst = "" if self.worst is None or self.worst is self.named else figure(self.worst)
        words = row.words + per_unit(self.named)
        return (words, base, shown(self.named, ours), ratio(ours), worst, row.goal, self.verdict)


def per_unit(result: dict[str, Any]) -> str:
    """Return what the figures of a result are given for."""
    return "" if result["unit"] in ("bytes", "exponent") else f", per {result['unit']}"


def timing(result: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what was measured of a contender."""
    found: dict[str, Any] = next((each for each in result["timings"] if each["contender"] == name), {})
    return found


def shown(result: dict[str, Any], measured: dict[str, Any]) -> str:
    """Return a contender's figure, in words."""
    return "" if measured.get("median") is None else amount(measured["median"], result["unit"])


def ratio(measured: dict[str, Any]) -> str:
    """Return how many times as fast a contender is as the baseline."""
    return times(measured.get("times_as_fast") or math.nan)


def figure(result: dict[str, Any]) -> str:
    """Return the figure of ours that the goal is about."""
    ours = timing(result, result["ours"])
    return shown(result, ours) if result["goal"].startswith(("<=", "k")) else ratio(ours)


def margin(result: dict[str, Any]) -> float:
    """Return how much better than its goal a case is; what failed is worst, what was not judged best."""
    ours = timing(result, result["ours"])
    if result["verdict"] == "FAILED":
        return -math.inf
    if result["verdict"].startswith("not judged") or ours["median"] is None:
        return math.inf
    if result["goal"].startswith(("<=", "k")):
        return -float(ours["median"])
    return float(ours["times_as_fast"] or 0)


def lines(
    results: Iterable[dict[str, Any]], skipped: dict[str, str], asked: Iterable[str] = QUESTIONS
) -> Iterator[Line]:
    """Yield the rows of the questions that were asked; `skipped` says why some have no answer."""
    results = list(results)
    for row in ROWS:
        if row.question not in asked:
            continue
        counted = [result for result in results if result["row"] == row.key]
        named = [result for result in counted if result["named"]]
        judged = [result for result in counted if result["goal"]]
        if named:
            yield Line(row, min(named, key=margin), min(judged, key=margin, default=None))
        else:
            yield Line(row, skipped=skipped.get(row.question, "left out of this run"))
