"""`kraftctl replay DIR… --out OUT [--at OFFSET|TIME] [--report HTML]`: fold exported logs with Spark into
tables and a summary, and into a page of plots.

The work is `kraftd.replay`'s, which comes with the extra of that name; it is loaded only here, and only
when called.

Schema: that of the job's report (`kraftd.replay.report.cluster_report`). Exit code 1 if the input is damaged,
incomplete or diverged.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from kraftd.cli.failures import CommandError
from kraftd.cli.options import OutputOption, output_of
from kraftd.cli.output import Format, emit
from kraftd.cli.times import parse_point

app = typer.Typer()

EXTRA_MODULES = frozenset({"pyspark", "pyarrow", "numpy", "pandas", "py4j"})


@app.command("replay")
def replay(
    context: typer.Context,
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR…", readable=False, help="Exports, node directories, folders of them, patterns."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="OUT", help="Where the Parquet tables go.", show_default=False)
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="OFFSET|TIME",
            help="Fold up to here. (default: the committed end)",
            show_default=False,
        ),
    ] = None,
    show_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Write keys, passwords and the records that hold them too.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="HTML", help="Write a page of plots, too.", show_default=False),
    ] = None,
    output: OutputOption = None,
) -> None:
    """Replay metadata logs with Spark into tables, and judge them."""
    if at is not None:
        parse_point(at)  # a usage error, before Spark starts
    try:
        from rich.console import Console

        from kraftd.replay.job import run
        from kraftd.replay.report.summary import render
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_MODULES:
            raise
        raise CommandError(
            f"replay needs {error.name}, which is not installed; run pip install 'kraftd[replay]'"
        ) from error
    report = run(directories, out, at=at, show_secrets=show_secrets, page=page, console=Console(stderr=True))
    if output_of(context, output) is Format.TABLE:
        Console(file=sys.stdout).print(render(report))
    else:
        emit(report.to_builtins(), output_of(context, output), str)
    raise typer.Exit(report.exit_code)
