"""Every attack on real processes, one after the other: `python -m tests.hostile.run`, or `make hostile`.

Each attack has a fresh quorum of three under a load of commits; a line of figures for each, and a verdict:
*held*, *slow* (held, but slower than promised on this machine) or *BROKEN*. Exit code 0 if all held, 1 if one
was broken or slow, 130 if it was interrupted. However it ends, no process is left behind.
"""

import tempfile
import time
from pathlib import Path

from tests import commands
from tests.hostile.attacks import ALL
from tests.hostile.ground import Attack
from tests.hostile.judge import Report, play
from tests.hostile.quorum import Quorum

SECONDS = 8.0


def parser() -> commands.Parser:
    made = commands.Parser(prog="python -m tests.hostile.run", description=(__doc__ or "").split("\n")[0])
    made.add_argument("attacks", nargs="*", metavar="ATTACK", help="only these; all if none is named")
    made.add_argument("--list", action="store_true", help="show every attack and what it does")
    made.add_argument(
        "--seconds",
        type=commands.duration,
        default=SECONDS,
        help="of each attack that could go on for ever (8)",
    )
    made.add_argument("--rounds", type=commands.count, default=1, help="how often each is played (1)")
    made.add_argument("--seed", type=int, default=1, help="of the attackers' dice (1)")
    made.add_argument("--no-restart", action="store_true", help="do not restart all nodes after each attack")
    return made


def main() -> int:
    words = parser().parse_args()
    if words.list:
        for attack in ALL.values():
            print(f"{attack.name:<44} {attack.section:<4} {attack.who:<9} {attack.text}")
        return 0
    unknown = [name for name in words.attacks if name not in ALL]
    if unknown:
        parser().error(f"there is no attack {unknown[0]!r}; --list shows them")
    chosen = [ALL[name] for name in words.attacks] or list(ALL.values())
    print(Report.HEADER, flush=True)
    reports = [
        _once(attack, words.seconds, words.seed + number, restart=not words.no_restart)
        for attack in chosen
        for number in range(words.rounds)
    ]
    held = sum(report.verdict == "held" for report in reports)
    print(f"{held} of {len(reports)} held")
    return 0 if held == len(reports) else 1


def _once(attack: Attack, seconds: float, seed: int, *, restart: bool) -> Report:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kraftd-hostile-") as folder:
        try:
            with Quorum(Path(folder) / "quorum", **attack.setup) as quorum:
                report = play(quorum, attack, seconds=seconds, restart=restart, seed=seed)
        except (AssertionError, OSError) as error:
            report = Report(attack.name, wrong=[f"{type(error).__name__}: {error}"])
    print(report.row(), flush=True)
    for line in [*report.wrong, *report.slow, *report.notes]:
        print(f"    {line[:1_500]}", flush=True)
    if time.monotonic() - began > 120:
        print(f"    it took {time.monotonic() - began:.0f} s in all", flush=True)
    return report


if __name__ == "__main__":
    commands.run(main)
