"""The replay as a Spark application:

    spark-submit …/kraftd/replay/submit.py DIR… --out OUT [--at OFFSET|TIME] [--report HTML] [--show-secrets]

Master, memory and cores are spark-submit's to give; everything else is as in `kraftctl replay`. The report
goes to standard output, progress to the terminal on standard error. Exit code 0, 1 (the input is damaged,
incomplete or diverged, or the replay failed) or 64 (usage).
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

EXIT_ERROR = 1
EXIT_USAGE = 64


class _Parser(argparse.ArgumentParser):
    """argparse, with the exit code that the other commands use for wrong usage."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a replay from the command line and print its report."""
    from rich.console import Console

    from kraftd.errors import KraftdError
    from kraftd.replay.session import require_spark

    parser = _Parser(prog="replay", description="Replay metadata logs into Parquet tables and a report.")
    parser.add_argument(
        "dirs", nargs="+", metavar="DIR", help="a controller's directory, an export, a folder"
    )
    parser.add_argument("--out", required=True, help="a new or empty directory for the tables")
    parser.add_argument("--at", metavar="OFFSET|TIME", help="fold the image up to here only")
    parser.add_argument("--report", metavar="HTML", help="write a page of plots, too")
    parser.add_argument("--show-secrets", action="store_true", help="write keys and passwords too")
    options = parser.parse_args(arguments)
    errors = Console(stderr=True)
    try:
        require_spark()
        from kraftd.replay.job import run
        from kraftd.replay.report.summary import render

        report = run(
            options.dirs,
            options.out,
            at=options.at,
            show_secrets=options.show_secrets,
            page=options.report,
            console=errors,
        )
    except KraftdError as error:
        errors.print(f"replay: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return EXIT_ERROR
    Console().print(render(report))
    return report.exit_code


if __name__ == "__main__":
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [entry for entry in sys.path if entry != here]  # our modules are not top-level ones
    sys.exit(main())
