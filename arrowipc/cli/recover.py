"""`recover`: counts the intact batches of a damaged or unfinished source, or writes them to a new file."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.outputs import checked_output, codec_option, output_options
from arrowipc.cli.sources import about, for_shell, seekable_source, sink, size_of
from arrowipc.cli.terminal import FILE, Progress, json_option, say_json, say_line, say_note
from arrowipc.errors import ArrowIpcError, FormatError, printable
from arrowipc.values.preview import counted

SHOWN = 20


@click.command()
@FILE
@click.option("--resync", is_flag=True, help="Also look for intact messages after damage.")
@codec_option("keep")
@output_options(("file", "stream"), None, "Output file. Without it, rows are only counted.")
@json_option
def recover(
    file: str, output: str | None, resync: bool, kind: str | None, force: bool, compression: str, as_json: bool
) -> None:
    """Recover the intact batches of a truncated, damaged or unfinished FILE.

    The output appears when it is complete. Exits with 0 if rows were found, also if others are lost. The report goes to
    stderr if the rows go to standard output.

    JSON: {"complete", "format", "batches", "rows", "bytes", "lost_batches", "lost_rows", "lost_bytes",
    "error", "offset", "skipped": [{"reason", "offset", "length", "message", "column", "rows"}], "more_at", "written"}.
    """
    choice: Any = None if output is None else checked_output(output, kind, force, [file], ("file", "stream"))
    target = None if output is None else sink(output)
    with about(file), Progress("recovering", size_of(file)) as progress:
        data = seekable_source(file)
        try:
            if target is None:
                with ipc.recover(data, resync=resync) as reader:
                    for _ in reader:
                        progress.reach(reader.report.num_bytes + (reader.report.lost_bytes or 0))
                    report = reader.report
            else:
                codec: Any = None if compression == "none" else compression
                report = ipc.recover(
                    data, into=target, resync=resync, format=choice, compression=codec, watch=progress.reach
                )
        except FormatError as error:
            advice = "" if resync else _advice(data, 0)
            error.args = (f"{error}{advice and '; '}{advice}",)
            raise
        advice = "" if resync or report.complete else _advice(data, report.num_rows)
    _say(report, output, as_json)
    if advice:
        say_note(advice)
    if not report.num_rows and not report.complete:
        raise click.exceptions.Exit(1)


def searched(data: Any, resync: bool = True) -> ipc.Recovery | None:
    """Return the report of a recovery of `data`; None if nothing can be recovered."""
    with suppress(ArrowIpcError), ipc.recover(data, resync=resync) as reader:
        for _ in reader:
            pass
        return reader.report
    return None


def _advice(data: Any, rows: int) -> str:
    """Return advice to use --resync, if that saves more than `rows` rows; else an empty text."""
    report = searched(data)
    more = 0 if report is None else report.num_rows - rows
    return f"--resync saves {counted(more, 'more row' if rows else 'row')}" if more > 0 else ""


def _say(report: ipc.Recovery, output: str | None, as_json: bool) -> None:
    to_stderr = output == "-"
    if as_json:
        fields = {name.removeprefix("num_"): value for name, value in report._asdict().items()}
        fields["error"] = None if report.error is None else str(report.error)
        fields["skipped"] = [each._asdict() for each in report.skipped]
        document = {"complete": report.complete, **fields, "written": output}
        say_json(document, line=to_stderr, error=to_stderr)
        return
    lines = [*str(report).split("\n"), *[f"  {each}" for each in report.skipped[:SHOWN]]]
    if output not in (None, "-"):
        lines.append(f"written: {output}")
    elif output is None:
        lines.append("nothing was written; use -o FILE to save the rows")
    for line in lines:
        say_note(line) if to_stderr else say_line(printable(for_shell(line)))
