"""`check`: lists all errors of a source, and gives a verdict."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.foreign import FORMATS, format_of
from arrowipc.cli.recover import searched
from arrowipc.cli.sources import about, for_shell, seekable_source, size_of
from arrowipc.cli.terminal import FILE, Progress, json_option, say_json, say_line
from arrowipc.errors import ArrowIpcError, UnsupportedError, printable, showable
from arrowipc.values.preview import counted

#: What each level checks, in the order of rising strictness.
LEVELS = {
    "structure": "messages can be decoded, and their buffers are large enough",
    "full": "all values are safe to use; checksums, where there are some, are right",
    "strict": "all values are in the range of their types; the footer lists all batches in order",
}

#: Errors that are printed.
SHOWN = 20


@click.command()
@FILE
@click.option("--strict", is_flag=True, help="Also exit with 1 if only the level strict finds errors.")
@json_option
def check(file: str, strict: bool, as_json: bool) -> None:
    """Check all of FILE, also after the first error, and list its errors.

    There are three levels: structure, full (safe to read), strict (values in the range of their types). Notes about a
    file that is valid and unusual follow. Exits with 1 if the data are not safe to read.

    JSON: {"verdict": "good" | "questionable" | "bad", "format", "levels": {"structure", "full", "strict"},
    "batches", "rows", "bytes", "bad_batches", "bad_rows", "bad_bytes", "damage": [{"reason", "offset",
    "length", "message", "column", "rows"}], "remarks": [{"code", "words", "offset", "times"}], "recover": null or
    {"resync", "batches", "rows"}: what `arrowipc recover` saves, with --resync or without}.
    """
    with about(file):
        data = seekable_source(file)
        with Progress("checking", size_of(file)) as progress:
            report = checked(data, progress.reach)
    if as_json:
        say_json(report)
    else:
        _say(file, report)
    if report["verdict"] == "bad" or (strict and report["verdict"] == "questionable"):
        raise click.exceptions.Exit(1)


def checked(data: Any, watch: Callable[[int], object] | None = None) -> dict[str, Any]:
    """Check a source that can be read more than once; return the document of `check --json`."""
    strict = ipc.validate(data, level="strict", watch=watch)
    full = strict if strict.ok else ipc.validate(data, level="full", watch=watch)
    levels = {"structure": full.ok or _opens(data), "full": full.ok, "strict": strict.ok}
    shown = full if not full.ok else strict
    fields = {name.removeprefix("num_"): value for name, value in full._asdict().items() if name != "level"}
    return {
        "verdict": "good" if strict.ok else "questionable" if full.ok else "bad",
        "format": full.format,
        "levels": levels,
        **fields,
        "damage": [each._asdict() for each in shown.damage],
        "remarks": [each._asdict() for each in full.remarks],
        "recover": None if full.ok else _recoverable(data),
    }


def _recoverable(data: Any) -> dict[str, Any] | None:
    """Return what `arrowipc recover` saves, with --resync if that saves more; None if it saves nothing."""
    found = [(report.num_rows, not resync, report) for resync in (False, True) if (report := searched(data, resync))]
    rows, plain, report = max(found, default=(0, True, None), key=lambda each: each[:2])
    return {"resync": not plain, "batches": report.num_batches, "rows": rows} if report and rows else None


def _opens(data: Any) -> bool:
    """Whether all batches can be read without validation of values."""
    try:
        with ipc.open(data, validate="none") as reader:
            for _ in reader:
                pass
    except UnsupportedError:
        raise
    except ArrowIpcError:
        return False
    return True


def _say(file: str, report: dict[str, Any]) -> None:
    name = "standard input" if file == "-" else showable(file)
    if report["format"] is None and report["damage"]:
        _say_foreign(file, name, report["damage"][0]["reason"])
        return
    valid = counted(report["batches"], "valid batch", "valid batches")
    say_line(f"{name}: Arrow IPC {report['format']}", bold=True)
    for level, words in LEVELS.items():
        passed = report["levels"][level]
        mark = click.style("ok ", fg="green") if passed else click.style("bad", fg="red")
        say_line(f"  {mark}  {level:<9}  {words}")
    say_line(f"  {valid}, {counted(report['rows'], 'row')}, {counted(report['bytes'], 'byte')}")
    damage = report["damage"]
    for each in damage[:SHOWN]:
        say_line("  " + click.style("bad", fg="red") + f"  {_place(each)}{printable(for_shell(each['reason']))}")
    if len(damage) > SHOWN:
        say_line(f"       and {len(damage) - SHOWN:,} more: --json lists them", dim=True)
    for each in report["remarks"]:
        times = f" ({each['times']:,} times)" if each["times"] > 1 else ""
        say_line("  " + click.style("note", fg="yellow") + f" {_place(each)}{printable(each['words'])}{times}")
    _say_verdict(report)


def _say_foreign(file: str, name: str, reason: str) -> None:
    """Print what a source is that is not Arrow data, and how to convert it."""
    words = printable(for_shell(reason.removeprefix("message 1: ")))
    say_line(f"{name}: {words if words.startswith('this is') else 'not Arrow IPC data: ' + words}", bold=True)
    if format_of(file) in FORMATS:
        say_line(f"`arrowipc convert {name} {os.path.splitext(name)[0]}.arrow` converts it to Arrow", dim=True)


def _place(what: dict[str, Any]) -> str:
    """Return the place of damage or of a remark, in words."""
    parts = (("byte", what["offset"]), ("message", what.get("message")))
    words = ", ".join([f"{name} {number:,}" for name, number in parts if number is not None])
    return words and f"{words}: "


def _say_verdict(report: dict[str, Any]) -> None:
    if report["verdict"] == "bad":
        saved = report["recover"]
        flag = " --resync" if saved and saved["resync"] else ""
        hope = f"; `arrowipc recover{flag}` saves {counted(saved['rows'], 'row')}" if saved else ""
        say_line(f"bad: this {report['format'] or 'source'} is not safe to read{hope}", fg="red", bold=True)
    elif report["verdict"] == "questionable":
        say_line("questionable: safe to read, but not valid by the specification", fg="yellow", bold=True)
    elif report["remarks"]:
        say_line("good: valid; some other readers may reject what the notes say", fg="green", bold=True)
    else:
        say_line("good: valid", fg="green", bold=True)
