"""Shows the job on the terminal: a progress bar while it runs, a table of its steps at the end."""

from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import pipeline
from arrowipc.arguments import printable
from report import size_text

__all__ = ["Bar", "show"]


class Bar(pipeline.Progress):
    """A progress bar over the steps of the job, which moves with the Spark tasks of each step.

    Parameters
    ----------
    console : rich.console.Console
        Where it is drawn; without a terminal it stays away.
    steps : int
        How many there will be.
    """

    def __init__(self, console: Console, steps: int) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(40),
            TextColumn("{task.description}"),
            TextColumn("[dim]{task.fields[tasks]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=steps, tasks="")
        self._done = 0

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, name: str) -> None:
        """Name the step that runs."""
        self._bar.update(self._task, description=name, tasks="")

    def tasks(self, done: int, total: int) -> None:
        """Move within the step."""
        text = f"{done} of {total} tasks" if total > 1 else ""
        self._bar.update(self._task, completed=self._done + done / total, tasks=text)

    def end(self, step: pipeline.Step) -> None:
        """Move to the end of the step."""
        self._done += 1
        self._bar.update(self._task, completed=self._done, tasks="")


def show(console: Console, result: pipeline.Result, report: Path) -> None:
    """Print the steps, whether the sources agree, and where the results are."""
    table = Table(title=result.title, title_justify="left", box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("step", no_wrap=True)
    for name in ("seconds", "rows", "rows/s", "read", "per second"):
        table.add_column(name, justify="right", no_wrap=True)
    for step in result.steps:
        table.add_row(
            step.name,
            f"{step.seconds:.2f}",
            "" if step.rows is None else f"{step.rows:,}",
            "" if step.rows_per_second is None else f"{step.rows_per_second:,.0f}",
            "" if step.size is None else size_text(step.size),
            "" if step.bytes_per_second is None else f"{size_text(step.bytes_per_second)}/s",
        )
    table.add_row("all", f"{sum(step.seconds for step in result.steps):.2f}", style="bold")
    console.print(table)
    console.print()
    found = result.comparison
    if found is not None and found.agree:
        console.print(
            f"[green]same rows:[/] {', '.join(found.names)} ({found.counts[0]:,} rows each)",
            soft_wrap=True,
        )
    elif found is not None:
        counts = ", ".join(f"{name}: {count:,}" for name, count in zip(found.names, found.counts, strict=True))
        console.print(f"[red]{found.differing:,} distinct rows differ[/] ({counts}); nothing was written. Some:")
        for row, times in found.examples:
            held = ", ".join(f"{name}: {count} times" for name, count in zip(found.names, times, strict=True))
            console.print(f"  {row}  ({held})", markup=False, highlight=False)
    if result.query is not None:
        console.print(f"\n{result.query.text}", soft_wrap=True, highlight=False, markup=False)
        for row in result.query.answer:
            console.print(
                "  " + ", ".join(f"{name} {value}" for name, value in row.items()), highlight=False, markup=False
            )
        console.print(result.query.plan, soft_wrap=True, highlight=False, markup=False)
    console.print(f"\nread and written by {result.reader}", soft_wrap=True, highlight=False)
    for path in [*result.written, report]:
        console.print(f"written: {printable(str(path))}", soft_wrap=True, highlight=False, markup=False)
