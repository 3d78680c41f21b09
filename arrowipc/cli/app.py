"""The commands by name; their exceptions become a text on stderr and an exit code."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

import arrowipc as ipc
from arrowipc.cli.sources import OUTPUT, Failure, for_shell, looks_arrow
from arrowipc.errors import ArrowIpcError, MissingPackageError, UsageError, printable, showable

#: Command -> the module that contains it, and its description in the list of commands.
COMMANDS = {
    "schema": ("look", "show columns, types, nullability, dictionaries and metadata"),
    "head": ("rows", "show the first rows, rows by number or random rows, as a table"),
    "tail": ("rows", "show the last rows"),
    "count": ("rows", "count the rows"),
    "stat": ("stat", "show bytes, nulls, minimum and maximum of each column"),
    "messages": ("look", "list all messages: offset, kind and size"),
    "browse": ("browse", "write an HTML page of rows, columns, batches, layout and errors"),
    "check": ("check", "find all errors in a file or a stream"),
    "diff": ("diff", "compare two sources"),
    "convert": ("convert", "convert to another format, codec, framing or batch size"),
    "cat": ("convert", "concatenate sources, with --merge also of different schemas"),
    "recover": ("recover", "recover the intact batches of a damaged or unfinished file"),
    "serve": ("network", "serve files to other processes (Dissociated IPC)"),
    "fetch": ("network", "write a served stream to a file"),
}

#: What else people call a command.
GUESSES = {"validate": "check", "verify": "check", "repair": "recover", "info": "stat", "read": "head", "show": "head"}

EPILOG = """FILE is an Arrow IPC file or stream (the command finds out which), a URL, or - for
standard input; head, tail, count and cat --merge also take folders. Each command has --help and --json.
NO_COLOR switches colours off.

\b
Exit codes:
    0  fine
    1  the data are invalid, not supported, or differ
    2  the command line is wrong
    3  a file or the network cannot be read or written, or memory ran out
    4  a package is not installed
  130  interrupted
  141  the reader of the output closed the pipe
"""

#: Advice for classes of errors; the first class that fits is used.
ADVICE: dict[type[ArrowIpcError], str] = {
    ipc.TruncatedError: "`arrowipc recover {path} -o NEW.arrow` writes the intact batches to a new file.",
    ipc.LimitError: (
        "The data ask for more memory than is safe for unknown data. Other limits can be set in Python only."
    ),
    ipc.FormatError: "`arrowipc check {path}` lists all errors, and says what `arrowipc recover` saves.",
}


class Commands(click.Group):
    """A group of commands; it imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, in the order of `--help`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command."""
        if name not in COMMANDS:
            return None
        command = getattr(import_module(f"arrowipc.cli.{COMMANDS[name][0]}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[Any, Any, list[str]]:
        """Find the command; for an unknown name, suggest a similar one."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = [GUESSES[args[0]]] if args[0] in GUESSES else get_close_matches(args[0], COMMANDS, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version=ipc.__version__, message="arrowipc %(version)s")
def commands() -> None:
    """Look at, check and convert Arrow IPC files and streams."""


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code, also for errors. The arguments do not contain the program's name."""
    for name, flags in (("stdin", os.O_WRONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        stream = getattr(sys, name)
        if stream is None or stream.closed:
            # Otherwise the next file opened gets this descriptor's number. Reading and writing fail here, except for
            # messages on stderr, which are lost.
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), "r" if name == "stdin" else "w"))
        elif name != "stdin" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # for characters that the terminal's encoding lacks
    code = 0
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
    except OSError as error:
        code = 141 if isinstance(error, BrokenPipeError) else code or _failed(error, OUTPUT)
        # Otherwise Python reports the error again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _run_command(arguments: list[str]) -> int:
    """Run a command, print the error that it raises, and return the exit code."""
    try:
        if "_ARROWIPC_COMPLETE" in os.environ:
            commands.main(arguments, prog_name="arrowipc")  # completion in shells
        # Not `commands.main`, which ends the process if the reader of the output closed the pipe.
        with commands.make_context("arrowipc", arguments) as context:
            commands.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            _say(error.format_message())
            if isinstance(error, click.UsageError) and error.ctx is not None:
                click.echo(f"Try '{error.ctx.command_path} --help'.", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        raise
    except Failure as failure:
        return _failed(failure.error, failure.path)
    except Exception as error:
        if os.environ.get("ARROWIPC_DEBUG"):
            raise
        return _failed(error, None)


def _failed(error: Exception, path: str | None) -> int:
    """Print the error, its source and advice; return the exit code."""
    before = "" if path is None else f"{'standard input' if path == '-' else showable(path)}: "
    if isinstance(error, ArrowIpcError):
        words = for_shell(str(error))
        _say(words if words.startswith(before) else before + words)
        for kind, words in ADVICE.items():
            if isinstance(error, kind) and path is not None and looks_arrow(path):
                click.echo(printable(words.format(path="FILE" if path == "-" else path)), err=True)
                break
        return 4 if isinstance(error, MissingPackageError) else 2 if isinstance(error, UsageError) else 1
    if isinstance(error, ModuleNotFoundError):
        _say(str(error))
        return 4
    if isinstance(error, OSError):
        if isinstance(error.filename, str):  # it may be that of the output
            before = f"{showable(error.filename)}: "
        words = for_shell(error.strerror or str(error) or type(error).__name__)
        _say(words if words.startswith(before) else before + words)
        return 3
    if isinstance(error, MemoryError):
        _say(f"{before}there is not enough memory for this")
        return 3
    _say(f"{before}{type(error).__name__}: {error}")
    click.echo("This is a bug of arrowipc: please report it. ARROWIPC_DEBUG=1 shows where it happened.", err=True)
    return 1


def _say(words: str) -> None:
    from arrowipc.cli.terminal import coloured, folded  # not needed for --help

    text = folded(click.style("arrowipc: ", fg="red") + showable(words), sys.stderr)
    click.echo(text, err=True, color=coloured())
