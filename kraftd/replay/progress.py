"""Progress: lines that move on a terminal, and anywhere else a line on stderr every ten seconds.

Each step is one line: a bar where the whole is known (Spark tasks done), a spinner where it
is not. Lines go away when the replay ends; what stays is the report. Where nothing can be drawn, in a job's
log or behind a pipe, a step that takes long is named again and again, so that nobody takes it for dead.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICK_S = 0.2
LINE_S = 10.0
"""How often a step is named where nothing can be drawn."""


class Steps:
    """The steps of one replay. Without a console nothing is said."""

    def __init__(self, console: Console | None, *, line_s: float = LINE_S) -> None:
        self._console = console
        self._line_s = line_s
        self._is_drawn = console is not None and console.is_terminal
        self._began = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._is_drawn,
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
        with self._step(what, None):
            yield

    @contextmanager
    def spark(self, what: str, spark: "SparkSession") -> Iterator[None]:
        """A step made of Spark tasks; the bar follows Spark's own count of them."""
        with self._step(what, spark):
            yield

    @contextmanager
    def _step(self, what: str, spark: "SparkSession | None") -> Iterator[None]:
        task = self._progress.add_task(what, total=None, note="")
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(what, task, spark, ended), daemon=True)
        if self._console is not None:
            watcher.start()
        try:
            yield
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()
        self._progress.update(task, note="", total=1, completed=1)

    def _watch(self, what: str, task: TaskID, spark: "SparkSession | None", ended: threading.Event) -> None:
        while not ended.wait(TICK_S if self._is_drawn else self._line_s):
            done, total = (0, 0) if spark is None else tasks_of(spark)
            note = f"{done}/{total} tasks" if total else ""
            if not self._is_drawn:
                self._say(f"{what}: {note}" if note else what)
            elif total:
                self._progress.update(task, completed=done, total=total, note=note)

    def _say(self, text: str) -> None:
        if self._console is not None:
            seconds = time.monotonic() - self._began
            self._console.print(f"kraftctl: replay: {text}, {seconds:.0f} s", highlight=False, soft_wrap=True)


def tasks_of(spark: "SparkSession") -> tuple[int, int]:
    """How many tasks of the stages that run now are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    running = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage is not None]
    return sum(done for done, _ in running), sum(total for _, total in running)
