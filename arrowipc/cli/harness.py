"""`arrowipc --integration`: the verbs that the tests between Arrow's implementations call."""

from __future__ import annotations

import json

import click

import arrowipc as ipc
from arrowipc.cli.sources import about, opened, sink
from arrowipc.errors import UsageError

MODES = ("JSON_TO_ARROW", "ARROW_TO_JSON", "VALIDATE", "STREAM_TO_FILE", "FILE_TO_STREAM")


@click.command()
@click.option("--mode", type=click.Choice(MODES), required=True)
@click.option("--arrow", metavar="PATH", default="-", help="An Arrow IPC file or stream; default: standard input.")
@click.option("--json", "document", metavar="PATH", help="A document of the JSON integration format, also gzipped.")
@click.option("-o", "--output", metavar="PATH", default="-", help="Of STREAM_TO_FILE and FILE_TO_STREAM.")
@click.option("--verbose", is_flag=True, help="Say what was done.")
def integration(mode: str, arrow: str, document: str | None, output: str, verbose: bool) -> None:
    """Take part in Arrow's integration tests.

    JSON_TO_ARROW writes the file --arrow, ARROW_TO_JSON the document --json; VALIDATE exits with 1 if the two
    differ. STREAM_TO_FILE and FILE_TO_STREAM read --arrow and write --output.
    """
    if mode in MODES[3:]:
        _convert(arrow, output, mode == "STREAM_TO_FILE")
    elif document is None:
        raise UsageError(f"--mode={mode} needs --json PATH")
    elif mode == "JSON_TO_ARROW":
        _to_arrow(document, arrow)
    elif mode == "ARROW_TO_JSON":
        _to_json(arrow, document)
    else:
        _validate(document, arrow)
    if verbose:
        click.echo(f"{mode}: done", err=True)


def _convert(source: str, output: str, to_file: bool) -> None:
    with opened(source) as reader, about(output, True):
        begin = ipc.new_file if to_file else ipc.new_stream
        with begin(sink(output), reader.schema, unify_dictionaries=to_file) as writer:
            ipc.copy(reader, writer)


def _to_arrow(document: str, arrow: str) -> None:
    from arrowipc.inspection.integration_json import read_json

    with about(document):
        schema, batches = read_json(document)
    with about(arrow), ipc.new_file(sink(arrow), schema) as writer:
        writer.write(iter(batches))


def _to_json(arrow: str, document: str) -> None:
    from arrowipc.inspection.integration_json import write_json

    with opened(arrow) as reader:
        found = write_json(reader.schema, reader)
    with about(document), open(document, "w", encoding="utf-8") as file:
        json.dump(found, file, ensure_ascii=False, indent=1)


def _validate(document: str, arrow: str) -> None:
    from arrowipc.inspection.integration_json import differences, read_json

    with about(document):
        expected = read_json(document)
    with opened(arrow) as reader:
        found = differences(expected, (reader.schema, reader))
    for words in found[:20]:
        click.echo(words[:2000], err=True)
    if found:
        raise click.exceptions.Exit(1)
