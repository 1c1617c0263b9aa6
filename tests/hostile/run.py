"""Every attack on real processes, one after the other: `python -m tests.hostile.run`, or `make hostile`.

Each attack has a fresh quorum of three under a load of commits, which its rounds share unless its definition
says otherwise; a line of figures for each, the worst of its rounds, and a verdict: *held*, *slow* (held, but
slower than promised on this machine) or *BROKEN*. All nodes are restarted after the last round. Exit code 0
if all held, 1 if one was broken or slow, 130 if it was interrupted. No process is left behind.
"""

import tempfile
import time
from pathlib import Path

from tests import commands
from tests.hostile.attacks import ALL
from tests.hostile.ground import Attack
from tests.hostile.judge import play
from tests.hostile.quorum import Quorum
from tests.hostile.report import Report

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
    made.add_argument(
        "--rounds", type=commands.count, default=1, help="how often each is played, on one quorum (1)"
    )
    made.add_argument("--seed", type=int, default=1, help="of the attackers' random numbers (1)")
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
    began = time.monotonic()
    reports = [
        _play(attack, words.seconds, words.seed, rounds=words.rounds, restart=not words.no_restart)
        for attack in chosen
    ]
    held = sum(report.verdict == "held" for report in reports)
    print(f"{held} of {len(reports)} held, in {time.monotonic() - began:.0f} s")
    return 0 if held == len(reports) else 1


def _play(attack: Attack, seconds: float, seed: int, *, rounds: int, restart: bool) -> Report:
    began = time.monotonic()
    if attack.fresh and rounds > 1:
        report = Report(attack.name)
        for number in range(rounds):
            report.absorb(_stand(attack, seconds, seed + number, rounds=1, restart=restart))
            if report.wrong:
                break
    else:
        report = _stand(attack, seconds, seed, rounds=rounds, restart=restart)
    print(report.row(), flush=True)
    for line in [*report.wrong, *report.slow, *report.notes]:
        print(f"    {line[:1_500]}", flush=True)
    if time.monotonic() - began > 120:
        print(f"    it took {time.monotonic() - began:.0f} s in all", flush=True)
    return report


def _stand(attack: Attack, seconds: float, seed: int, *, rounds: int, restart: bool) -> Report:
    """Play it on a quorum of its own."""
    with tempfile.TemporaryDirectory(prefix="kraftd-hostile-") as folder:
        try:
            with Quorum(Path(folder) / "quorum", **attack.setup) as quorum:
                return play(quorum, attack, seconds=seconds, restart=restart, seed=seed, rounds=rounds)
        except (AssertionError, OSError) as error:
            return Report(attack.name, wrong=[f"{type(error).__name__}: {error}"])


if __name__ == "__main__":
    commands.run(main)
