"""`make conformance-kafka SEED=n OPS=m`: the same operations on kraftd's controller and on Kafka's own.

    python -m tests.conformance_kafka.run --seed 7 --ops 2000
    python -m tests.conformance_kafka.run --seeds 5 --ops 500      # both sides are reset between them
    python -m tests.conformance_kafka.run --script FILE
    python -m tests.conformance_kafka.run --against DIR, or --failover-every N      # `twins`

The first difference that is not intended ends the run: it is shrunk and printed as a script, which `--script`
takes. Exit code 0 if there is none, 1 if there is one, 2 for what makes no sense, 3 where Java, Maven or
Kafka's jars are missing.
"""

import argparse
import contextlib
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from random import Random

from kraftd.errors import ErrorCode
from tests import commands
from tests.conformance_kafka.acl_requests import ACL_REQUESTS
from tests.conformance_kafka.admin_requests import ADMIN_REQUESTS
from tests.conformance_kafka.broker_requests import BROKER_REQUESTS, registration
from tests.conformance_kafka.comparing import Comparison, Reach
from tests.conformance_kafka.drawing import BROKERS, Drawing
from tests.conformance_kafka.error_pairs import impossible, missing, reachable, unreachable, unreached
from tests.conformance_kafka.intended import is_intended
from tests.conformance_kafka.normal import Difference
from tests.conformance_kafka.operations import Operation, ScriptError, read_script, script_of
from tests.conformance_kafka.resetting import NotEmptyError, reset
from tests.conformance_kafka.scenes import NEWEST, USUAL, WORLDS, Scene, World
from tests.conformance_kafka.shrinking import Script, shrink
from tests.conformance_kafka.sides import Pair, TwoSides
from tests.conformance_kafka.token_requests import TOKEN_REQUESTS
from tests.conformance_kafka.twins import Twins
from tests.interop.peer import RELEASE, NoKafkaError, find_kafka

NO_KAFKA = 3
ALL_REQUESTS = {**BROKER_REQUESTS, **ADMIN_REQUESTS, **ACL_REQUESTS, **TOKEN_REQUESTS}
TRIES_MAX = 400
TRIES_OF_NEW_PROCESSES_MAX = 20
REFUSED_MIN = 0.3
MANY = 1_000
"""Operations from which on it is told which errors were not reached."""
PAIRS_MIN = 0.95
"""The share of the pairs that a request may get which `--pairs` reaches at least."""


class Bench:
    """A pair that scripts are tried on, brought back to its beginning before each."""

    def __init__(self, folder: Path, make: Callable[[Path], TwoSides]) -> None:
        """Start the first pair. `make` makes one below a folder, and does not start it."""
        self._folder = folder
        self._make = make
        self._is_used = False
        self._starts = 0
        self.pair = self._started()

    def close(self) -> None:
        """End both processes."""
        self.pair.close()

    def comparison(self, *, new: bool = False) -> Comparison:
        """A comparison from the beginning, on new processes if asked for or needed."""
        if self._is_used:
            try:
                if new:
                    raise NotEmptyError("asked for")
                reset(self.pair, self._features, self._configs)
            except (NotEmptyError, OSError, AssertionError, IndexError) as why:
                if not new:
                    print(f"new processes: {why!r}", file=sys.stderr)
                self.pair.close()
                self.pair = self._started()
        self._is_used = True
        return Comparison(self.pair)

    def _started(self) -> TwoSides:
        self._starts += 1
        folder = self._folder / str(self._starts)
        folder.mkdir()
        pair = self._make(folder)
        try:
            pair.start()
        except BaseException:
            pair.close()
            raise
        self._features = dict(pair.kafka.account.features)
        self._configs = {key: dict(names) for key, names in pair.kafka.account.configs.items()}
        return pair


def drawn(
    bench: Bench, seed: int, count: int, *, has_sessions: bool = True
) -> tuple[list[Operation], Difference | None, Reach]:
    """Draw operations and do each: all that were done, the difference that ended it, and what was reached."""
    comparison = bench.comparison()
    account = bench.pair.kafka.account
    draw = Drawing(Random(seed), account, ALL_REQUESTS)
    draw.has_sessions = has_sessions
    done: list[Operation] = []
    beginning = [draw.operation("BrokerRegistration", registration(draw, broker)) for broker in BROKERS]
    while len(done) < count:
        done.append(beginning.pop() if beginning else draw.next())
        found = comparison.step(done[-1])
        if found is not None:
            return done, found, comparison.reach
    return done, comparison.images(done[-1]), comparison.reach


def played(bench: Bench, scene: Scene) -> tuple[list[Operation], Difference | None, Reach]:
    """Play a scene from the beginning: what was done, the difference that ended it, and what was reached.

    A difference that is meant may end it, too.
    """
    comparison = bench.comparison()
    done: list[Operation] = []
    for operation in scene(bench.pair.kafka.account):
        done.append(operation)
        found = comparison.step(operation)
        if found is not None and (meant := is_intended(found)) is not None:
            comparison.reach.intended[meant.name] += 1
            return done, None, comparison.reach
        if found is not None:
            return done, found, comparison.reach
    return done, comparison.images(done[-1]), comparison.reach


def shortened(bench: Bench, script: Script, found: Difference) -> tuple[Script, Difference]:
    """The script, shrunk: by what is taken away again in between, or if need be with new processes."""
    again = bench.comparison().run(script)
    if again is not None and again.kind == found.kind:
        return shrink(script, again, lambda each: bench.comparison().run(each), TRIES_MAX)
    print(
        f"it takes new processes to see it again, the script is shrunk a little only; now {again}",
        file=sys.stderr,
    )
    return shrink(
        script, found, lambda each: bench.comparison(new=True).run(each), TRIES_OF_NEW_PROCESSES_MAX
    )


def survey(bench: Bench, seed: int, count: int, folder: Path) -> dict[str, Difference]:
    """Go on after each difference, from the beginning: the first one of each kind and place.

    What leads to each is left in a folder, as a script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Difference] = {}
    done = 0
    while done < count:
        operations, difference, _ = drawn(bench, seed, count - done)
        done, seed = done + len(operations), seed + 1_000_000
        if difference is not None:
            place = re.sub(r"\.\d+", ".N", difference.part)
            key = f"{difference.operation.api}: {place}"
            if len(repr(difference.kafka)) < 20:
                key += f" {difference.kafka!r}/{difference.kraftd!r}"
            if found.setdefault(key, difference) is difference:
                script = folder / f"{len(found)}.jsonl"
                script.write_text(script_of(operations, str(difference).splitlines()), encoding="utf-8")
    return found


def report(reach: Reach, began: float) -> str:
    """What was reached, for people."""
    by_api: dict[str, list[str]] = {}
    for (api, code), count in sorted(reach.codes.items()):
        by_api.setdefault(api, []).append(f"{ErrorCode(code).name} {count}")
    lines = [f"  {api}: {', '.join(codes)}" for api, codes in by_api.items()]
    not_reached = missing(reach.codes)
    known = unreached()
    total = len(reachable())
    if reach.operations >= MANY:
        for api in sorted({api for api, _ in not_reached}):
            names = [name for each, name in not_reached if each == api]
            told = ", ".join(f"{name} ({known.get(api, {}).get(name, 'not in this run')})" for name in names)
            lines.append(f"  not reached of {api}: {told}")
    lines += [
        f"  {api} {name} was reached, and is unreachable.json's" for api, name in impossible(reach.codes)
    ]
    lines += [f"  intended: {name} {count}" for name, count in sorted(reach.intended.items())]
    share = reach.refused / max(reach.operations, 1)
    lines.append(
        f"{reach.operations} operations, {share:.0%} of them refused at least in part; "
        f"{total - len(not_reached)} of {total} pairs of an API and an error code, beside "
        f"{sum(map(len, unreachable().values()))} that no request can get; "
        f"images compared {reach.images} times; {commands.spent(began)}"
    )
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    """Run; the exit code."""
    parser = commands.Parser(prog="conformance-kafka", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="what operations are drawn from")
    parser.add_argument("--ops", type=commands.count, default=500, help="how many")
    parser.add_argument("--level", type=int, default=NEWEST, help="metadata.version, by number")
    parser.add_argument(
        "--survey", type=Path, help="shrink nothing: scripts of all differences into this folder"
    )
    parser.add_argument("--seeds", type=commands.count, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--against", type=Path, help="a checkout of kraftd to compare with, not Kafka")
    parser.add_argument(
        "--failover-every",
        type=commands.count,
        default=0,
        help="kraftd against kraftd, which loses its leader after every so many operations",
    )
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="after the seeds the scenes of all worlds: every error that is met",
    )
    parser.add_argument(
        "--world",
        choices=[each.name for each in WORLDS],
        help="what a script is done in, if it is of a scene",
    )
    parser.add_argument("--script", type=Path, help="do these operations, and draw none")
    options = parser.parse_args(words)
    try:
        script = read_script(options.script) if options.script else None
        world = next((each for each in WORLDS if each.name == options.world), USUAL)
        level = options.level if world is USUAL else world.level
        make = maker(level, options.against, options.failover_every, world=world)
    except (ScriptError, OSError) as error:
        parser.error(str(error))
    except NoKafkaError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return NO_KAFKA
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        bench = Bench(Path(folder), make)
        try:
            if options.survey:
                kinds = survey(bench, options.seed, options.ops, options.survey)
                print("\n\n".join(f"{key}\n{each}" for key, each in kinds.items()))
                return int(bool(kinds))
            if script is not None:
                comparison = bench.comparison()
                return _told(bench, script, comparison.run(script), comparison.reach, began)
            return _seeds(bench, range(options.seed, options.seed + options.seeds), options, began)
        finally:
            bench.close()


def maker(
    level: int, against: Path | None = None, failover_every: int = 0, *, world: World = USUAL
) -> Callable[[Path], TwoSides]:
    """What makes a pair below a folder: of Kafka and kraftd with a world's settings, or of two of kraftd.

    Raises:
        NoKafkaError: There is no Kafka to compare with.
    """
    if against is None and not failover_every:
        kafka = find_kafka(RELEASE)
        return lambda folder: Pair(kafka, folder, level, world.settings)
    return lambda folder: Twins(folder, level, against, failover_every)


def _seeds(bench: Bench, seeds: Iterable[int], options: argparse.Namespace, began: float) -> int:
    reach = Reach()
    for seed in seeds:
        script, found, reached = drawn(bench, seed, options.ops, has_sessions=not options.failover_every)
        reach.take(reached)
        if found is not None:
            print(f"seed {seed}:", file=sys.stderr)
            return _told(bench, script, found, reach, began)
    if options.pairs:
        return _worlds(bench, reach, began)
    return _told(bench, (), None, reach, began)


def _worlds(usual: Bench, reach: Reach, began: float) -> int:
    """Play all scenes, after the seeds; a world that is not the usual one has a bench of its own."""
    for world in WORLDS:
        with contextlib.ExitStack() as stack:
            bench = usual
            if world is not USUAL:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="conformance-")))
                bench = stack.enter_context(
                    contextlib.closing(Bench(folder, maker(world.level, world=world)))
                )
            for scene in world.scenes:
                script, found, reached = played(bench, scene)
                reach.take(reached)
                print(f"{world.name}: {scene.__name__}, {len(script)} operations", file=sys.stderr)
                if found is not None:
                    return _told(bench, script, found, reach, began)
    _told(usual, (), None, reach, began)
    share = 1 - len(missing(reach.codes)) / len(reachable())
    return int(share < PAIRS_MIN or bool(impossible(reach.codes)))


def _told(bench: Bench, script: Script, found: Difference | None, reach: Reach, began: float) -> int:
    if found is None:
        print(report(reach, began))
        is_thin = reach.operations >= 200 and reach.refused < REFUSED_MIN * reach.operations
        return int(is_thin)
    print(found, file=sys.stderr)
    shortest, shown = shortened(bench, script, found)
    print(script_of(shortest, (f"{len(shortest)} operations", *str(shown).splitlines())), end="")
    print(report(reach, began), file=sys.stderr)
    return 1


if __name__ == "__main__":
    commands.run(main)
