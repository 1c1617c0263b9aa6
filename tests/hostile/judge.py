"""Plays one attack on a quorum under load, and judges what became of it.

Entered through `play`. A `Report` has the figures, what is wrong (`wrong`: somebody ended, something durable
changed, memory grew, the leader changed, all was never well again, or not after a restart of all), and
what is slower than promised (`slow`: those depend on the machine, and only `make hostile` judges by them).
"""

import time
from dataclasses import dataclass, field

from tests.hostile.ground import Attack, Ground
from tests.hostile.quorum import Commit, Durable, Facts, MemoryWatch, Quorum, epoch_of, last_words

WELL_AFTER_S = 5.0
AS_BEFORE_S = 2.0
COMMIT_MAX_S = 1.0
COMMITS_MIN_SHARE = 0.5
PATIENCE_S = 30.0
RSS_MAX_BYTES = 64 << 20
RSS_PER_BYTE = 3
RSS_NOISE_BYTES = 8 << 20
"""What a node's memory may grow by under the innocent load alone, for arenas and caches."""


@dataclass
class Report:
    """Figures of one attack, and what is to be said against them."""

    name: str
    wrong: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: float = 0.0
    during: float = 0.0
    after: float = 0.0
    worst_wait_s: float = 0.0
    elections: int = 0
    rss_growth: int = 0
    sent: int = 0
    taken: int = 0
    refused: int = 0
    opened: int = 0
    attack_s: float = 0.0
    well_s: float = 0.0

    HEADER = (
        f"{'attack':<44} {'bef/s':>6} {'dur/s':>6} {'aft/s':>6} {'worst s':>8} {'elec':>4} {'RSS MB':>7} "
        f"{'sent':>11} {'taken':>11} {'refused':>11} {'conns':>6} {'well s':>6}  verdict"
    )

    @property
    def verdict(self) -> str:
        return "BROKEN" if self.wrong else "slow" if self.slow else "held"

    def row(self) -> str:
        """One line of the table."""
        return (
            f"{self.name:<44} {self.before:>6.0f} {self.during:>6.0f} {self.after:>6.0f} "
            f"{self.worst_wait_s:>8.3f} {self.elections:>4} {self.rss_growth / 1e6:>7.1f} "
            f"{self.sent:>11,} {self.taken:>11,} {self.refused:>11,} "
            f"{self.opened:>6} {self.well_s:>6.2f}  {self.verdict}"
        )


def play(
    quorum: Quorum,
    attack: Attack,
    *,
    seconds: float,
    calm_s: float = 2.0,
    restart: bool = True,
    seed: int = 1,
) -> Report:
    """Play one attack for so long, and judge.

    Args:
        quorum: Well, and under load.
        attack: What to do to it.
        seconds: How long those attacks last that could go on for ever.
        calm_s: How long commits are counted before and after.
        restart: Whether all nodes are killed and started again afterwards.
        seed: Of the attack's dice.
    """
    report = Report(attack.name)
    if attack.prepare is not None:
        with Ground(quorum, seconds, seed) as ground:
            attack.prepare(ground)
        quorum.wait_well(PATIENCE_S)
    time.sleep(calm_s)
    facts, durable = quorum.wait_facts(), quorum.durable()
    watch = MemoryWatch(quorum)
    began = time.monotonic()
    with Ground(quorum, seconds, seed) as ground:
        attack.play(ground)
        ended = time.monotonic()
    report.attack_s = ended - began
    _count(report, ground)
    _wait_well(report, quorum, ended)
    time.sleep(calm_s)
    watch.stop()
    _judge_end(report, quorum, attack, facts, durable, ground)
    _judge_memory(report, watch)
    _judge_commits(report, attack, quorum.commits(), (began, ended), calm_s)
    if restart and not report.wrong:
        _judge_restart(report, quorum)
    return report


def _count(report: Report, ground: Ground) -> None:
    tally = ground.tally
    report.sent, report.taken, report.refused = tally["sent"], tally.taken, tally["refused"]
    report.opened = tally["opened"]
    report.wrong += ground.failures
    report.notes += ground.notes


def _wait_well(report: Report, quorum: Quorum, ended: float) -> None:
    try:
        quorum.wait_well(PATIENCE_S)
    except AssertionError as error:
        report.wrong.append(str(error))
    report.well_s = time.monotonic() - ended
    if report.well_s > WELL_AFTER_S:
        report.slow.append(f"all was well only {report.well_s:.1f} s after the attack")
    elif report.well_s > AS_BEFORE_S:
        report.slow.append(
            f"all was well {report.well_s:.1f} s after the attack, {AS_BEFORE_S} s are promised"
        )


def _judge_end(
    report: Report, quorum: Quorum, attack: Attack, facts: Facts, durable: dict[int, Durable], ground: Ground
) -> None:
    report.wrong += [
        f"node {node.node_id} ended: {last_words(node)}" for node in quorum.cluster if not node.is_running
    ]
    if any(not node.is_running for node in quorum.cluster):
        return
    try:
        now = quorum.wait_facts(PATIENCE_S)
    except AssertionError as error:
        report.wrong.append(str(error))
        return
    report.elections = now.epoch - facts.epoch
    if attack.elections >= 0 and report.elections > attack.elections:
        report.wrong.append(f"{report.elections} elections; {attack.elections} are allowed")
    if attack.elections == 0 and now.leader_id != facts.leader_id:
        report.wrong.append(f"node {facts.leader_id} led, now node {now.leader_id} does")
    if now.high_watermark < facts.high_watermark:
        report.wrong.append(f"the high watermark fell from {facts.high_watermark} to {now.high_watermark}")
    for node_id, there in quorum.durable().items():
        _judge_durable(
            report, node_id, durable[node_id], there, ground.restarted, has_elections=report.elections > 0
        )


def _judge_durable(
    report: Report, node_id: int, was: Durable, there: Durable, restarted: set[int], *, has_elections: bool
) -> None:
    if not has_elections and was.election != there.election:
        report.wrong.append(f"quorum-state of node {node_id} is {there.election!r}, and was {was.election!r}")
    if epoch_of(there.election) - epoch_of(was.election) > report.elections:
        report.wrong.append(f"quorum-state of node {node_id} has epoch {epoch_of(there.election)}")
    for voter_id in was.peers.keys() | there.peers.keys():
        old, new = was.peers.get(voter_id), there.peers.get(voter_id)
        if voter_id in restarted and old is not None and new is not None:
            if old[0] != new[0] or not old[1] <= new[1] <= old[1] + 3:
                report.wrong.append(
                    f"kraftd.state of node {node_id} has voter {voter_id} as {new}, and had {old}"
                )
        elif old != new:
            report.wrong.append(
                f"kraftd.state of node {node_id} has voter {voter_id} as {new}, and had {old}"
            )


def _judge_memory(report: Report, watch: MemoryWatch) -> None:
    growth = watch.growth
    report.rss_growth = sum(growth.values())
    if report.rss_growth > RSS_MAX_BYTES:
        report.wrong.append(f"memory grew by {report.rss_growth:,} bytes in all: {growth}")
    elif report.rss_growth > max(RSS_PER_BYTE * report.sent, len(growth) * RSS_NOISE_BYTES):
        report.wrong.append(
            f"memory grew by {report.rss_growth:,} bytes for {report.sent:,} hostile ones: {growth}"
        )


def _judge_commits(
    report: Report, attack: Attack, commits: list[Commit], span: tuple[float, float], calm_s: float
) -> None:
    began, ended = span
    report.before = rate(commits, began - calm_s, began)
    report.during = rate(commits, began, ended)
    report.after = rate(commits, ended, ended + report.well_s + calm_s)
    waits = [commit.ended - commit.began for commit in commits if commit.ended >= began]
    report.worst_wait_s = max(waits, default=time.monotonic() - began)
    if not attack.halves:
        return
    if report.worst_wait_s > COMMIT_MAX_S:
        report.slow.append(f"a commit waited {report.worst_wait_s:.2f} s")
    if report.attack_s > 1.0 and report.during < COMMITS_MIN_SHARE * report.before:
        report.slow.append(f"{report.during:.0f} commits/s during the attack, {report.before:.0f} before")


def rate(commits: list[Commit], begin: float, end: float) -> float:
    """Commits a second between two moments."""
    return sum(begin <= commit.ended < end for commit in commits) / max(end - begin, 0.001)


def _judge_restart(report: Report, quorum: Quorum) -> None:
    """Kill all, start all: well again, and every confirmed write is there."""
    quorum.stop_load()
    quorum.restart()
    try:
        took = quorum.wait_well(PATIENCE_S)
        if took > 2 * WELL_AFTER_S:
            report.slow.append(f"all was well only {took:.1f} s after a restart of all")
        report.wrong += quorum.lost()
    except AssertionError as error:
        report.wrong.append(f"after a restart of all: {error}")
    quorum.start_load()
