"""Progress on a terminal, and silence anywhere else.

Each step is one line: a bar where the whole is known (Spark tasks done), a spinner where it
is not. Lines go away when the replay ends; what stays is the report.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICK_S = 0.2


class Steps:
    """The steps of one replay. Without a terminal nothing is drawn."""

    def __init__(self, console: Console | None) -> None:
        shown = console is not None and console.is_terminal
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not shown,
        )

    def __enter__(self) -> "Steps":
        self._progress.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A step whose length nobody knows."""
        task = self._progress.add_task(what, total=None, note="")
        yield
        self._finish(task)

    @contextmanager
    def spark(self, what: str, spark: "SparkSession") -> Iterator[None]:
        """A step made of Spark tasks; the bar follows Spark's own count of them."""
        task = self._progress.add_task(what, total=None, note="")
        ended = threading.Event()
        watcher = threading.Thread(target=self._follow, args=(task, spark, ended), daemon=True)
        if not self._progress.disable:
            watcher.start()
        try:
            yield
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()
        self._progress.update(task, note="")
        self._finish(task)

    def _follow(self, task: TaskID, spark: "SparkSession", ended: threading.Event) -> None:
        tracker = spark.sparkContext.statusTracker()
        while not ended.wait(TICK_S):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            tasks = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
            if tasks:
                done, total = map(sum, zip(*tasks, strict=True))
                self._progress.update(task, completed=done, total=total, note=f"{done}/{total} tasks")

    def _finish(self, task: TaskID) -> None:
        self._progress.update(task, total=1, completed=1)
