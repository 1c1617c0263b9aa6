"""Which branches of the quorum does no seed reach? Seeds under SlipCover, and a table of excuses.

    python -m tests.sim.branches --seeds 160

It runs seeds on all cores, prints every branch and every function of `raft`, `storage` and the executor of
effects that none of them reached and that `excused.toml` does not name, and exits with 1 if there is one.
While something is missing it goes on with more seeds, up to `MORE`: what one seed in a hundred reaches is
missed by a given 160 of them now and then, and each change of the code makes them other seeds. A name that
nothing needs is printed, too. Left out is what a function rules out itself: a branch that ends in an
`InvariantError`, and the way past the last case of a `match`.

A branch is named by its function, the line that decides, and the line that it would have led to. SlipCover
takes each probe out once it was hit: a seed takes hardly longer than without (under coverage.py, which traces
every line, three times as long).

Not here: what the seeds themselves find (`run`), and whether what is reached is judged (`tests/sabotage`).
"""

import ast
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests import commands

if TYPE_CHECKING:
    from tests.sim.run import Result

ROOT = Path(__file__).resolve().parents[2]
WATCHED = ("kraftd/raft", "kraftd/storage", "kraftd/runtime/effect_executor.py")
SEEDS = 160
MORE = 240
"""How many seeds are run beyond those at most, while something is missing."""
STEP = 40
"""So many of them at once."""
END = "the end"
"""Where a branch leads that leaves its function."""
NEVER = "never called"
EXCUSES = Path(__file__).with_name("excused.toml")


class Branch(NamedTuple):
    """A branch that nothing took, or a function that nothing called."""

    function: str
    """`module:Class.method`."""
    decides: str
    """The line that decides, or `NEVER`."""
    leads_to: str

    @property
    def name(self) -> str:
        """As `excused.toml` names it: not by where it leads to."""
        return self.function if self.decides == NEVER else f"{self.function} | {self.decides}"

    def __str__(self) -> str:
        if self.decides == NEVER:
            return f"{self.function}: {NEVER}"
        return f"{self.function}: {self.decides!r} -> {self.leads_to!r}"


def unreached_at_last(seeds: range, jobs: int) -> "tuple[list[Branch], list[Result]]":
    """What neither these seeds reach, nor up to `MORE` behind them while nobody excuses it; with what became
    of each. No more are run behind one that failed.
    """
    more = range(seeds.stop, seeds.stop + MORE)
    shares = [seeds, *(more[number : number + STEP] for number in range(0, MORE, STEP))]
    excuses = excused()
    found: list[Branch] = []
    results: list[Result] = []
    for found, of_share in unreached(shares, jobs):
        results += of_share
        if all(branch.name in excuses for branch in found) or any(result.violation for result in of_share):
            break
    return found, results


def unreached(shares: Iterable[Sequence[int]], jobs: int) -> "Iterator[tuple[list[Branch], list[Result]]]":
    """Run one share of seeds after the other; after each: what none has reached so far, excused or not, and
    what became of the seeds of this share.
    """
    with tempfile.TemporaryDirectory() as folder:
        for place, seeds in enumerate(shares):
            parts = [(seeds[number::jobs], f"{folder}/{place}.{number}") for number in range(jobs)]
            # Each in a process of its own: modules get their probes when they are imported.
            with multiprocessing.get_context("spawn").Pool(
                jobs, initializer=commands.end_when_interrupted
            ) as pool:
                results = pool.starmap(_run, parts)
            yield sorted(_read(folder)), [result for part in results for result in part]


def _run(seeds: Sequence[int], data_file: str) -> "list[Result]":
    import slipcover  # here, since the table of excuses is read without it, too

    assert "kraftd.raft" not in sys.modules, "what was imported before has no probes"
    probes = slipcover.Slipcover(branch=True)
    watched = slipcover.FileMatcher(sources=[ROOT / each for each in WATCHED])
    with slipcover.ImportManager(probes, watched):
        from tests.sim.run import run_seed

        results = []
        for seed in seeds:
            results.append(run_seed(seed))
            gc.collect()
    Path(data_file).write_text(json.dumps(probes.get_coverage()), encoding="utf-8")
    return results


def _read(folder: str) -> Iterator[Branch]:
    import slipcover

    first, *others = (json.loads(path.read_text()) for path in Path(folder).iterdir())
    for other in others:
        slipcover.merge_coverage(first, other)
    for name, found in first["files"].items():
        yield from _branches_of(ROOT / name, found)


def _branches_of(path: Path, found: dict[str, Any]) -> Iterator[Branch]:
    """What of a module is missing, with the lines as they are written."""
    source = path.read_text()
    lines = source.splitlines()
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    tree = ast.parse(source)
    functions = list(functions_of(tree))
    cases = dict(_cases_of(tree))
    missing = set(found["missing_lines"])
    for name, first, last in functions:
        body = [line for line in found["executed_lines"] if first < line <= last]
        if not body and any(first < line <= last for line in missing):
            yield Branch(f"{module}:{name}", NEVER, "")
    for start, end in found["missing_branches"]:
        if start in missing:
            continue  # whatever leads there is missing itself
        if start in cases:
            if end not in cases[start]:
                continue  # past the last case
            start = cases[start][end]
        owner = max((f for f in functions if f[1] <= start <= f[2]), key=lambda f: f[1], default=None)
        if owner is not None:
            leads_to = lines[end - 1].strip() if end > 0 else END
            branch = Branch(f"{module}:{owner[0]}", lines[start - 1].strip(), leads_to)
            if not _rules_itself_out(branch):
                yield branch


def _rules_itself_out(branch: Branch) -> bool:
    return branch.leads_to.startswith("raise InvariantError(")


def _cases_of(tree: ast.AST) -> Iterator[tuple[int, dict[int, int]]]:
    """For the line of every `match`: the line of each case, by the first line of its body."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield node.lineno, {case.body[0].lineno: case.pattern.lineno for case in node.cases}


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, int, int]]:
    """Every function of a module: its name, the line of its `def`, its last line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{prefix}{node.name}", node.body[0].lineno - 1, node.end_lineno
            yield from functions_of(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")


def excused() -> frozenset[str]:
    """The names of all branches and functions that need not be reached."""
    kinds = tomllib.loads(EXCUSES.read_text()).values()
    return frozenset(f"kraftd.{name}" for kind in kinds for name in kind["unreached"])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = commands.Parser(prog="tests.sim.branches", description="What no seed reaches.")
    parser.add_argument("--seeds", type=commands.count, default=SEEDS, help="how many, from --first on")
    parser.add_argument("--first", type=commands.count, default=1)
    parser.add_argument("--jobs", type=commands.count, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args(arguments)
    found, results = unreached_at_last(range(asked.first, asked.first + asked.seeds), asked.jobs)
    for failed in (result for result in results if result.violation):
        print(f"seed {failed.seed}: {failed.violation}")
        return 1
    excuses = excused()
    bare = [branch for branch in found if branch.name not in excuses]
    idle = sorted(excuses - {branch.name for branch in found})
    print(f"{len(found)} branches are unreached, of which {len(bare)} are not excused")
    for branch in bare:
        print(f"  {branch}")
    for name in idle:
        print(f"  not needed: {name}")
    return 1 if bare else 0


if __name__ == "__main__":
    commands.run(main)
