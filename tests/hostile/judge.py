"""Plays one attack on a quorum under load, once or many times, and judges what became of it.

Entered through `play`. What is wrong with a `Report` is wrong on any machine; what is slower than promised
depends on the machine, and only `make hostile` judges by it.
"""

import time
from collections.abc import Iterable, Mapping

from tests.hostile.ground import Attack, Ground
from tests.hostile.quorum import Commit, Durable, Facts, MemoryWatch, Quorum, epoch_of, last_words
from tests.hostile.report import Report

WELL_AFTER_S = 5.0
AS_BEFORE_S = 2.0
COMMIT_MAX_S = 1.0
COMMITS_MIN_SHARE = 0.5
PATIENCE_S = 30.0
RSS_MAX_BYTES = 64 << 20
RSS_PER_BYTE = 3
RSS_NOISE_BYTES = 8 << 20
"""What a node's memory may grow by under the innocent load alone, for arenas and caches."""
RECORDS_KEPT_BYTES = 16 << 20
"""What a node keeps of its log in memory, so that followers need not wait for its disk (D-15). Bytes that
were taken as valid writes are records at each node: of those none may hold more than it wrote, nor than this.
"""
DEFECTS = frozenset({"decision_failed", "timer_failed"})
"""What a node logs of code that raised where the process goes on: nobody's request may bring it there."""
DEFECTS_TOLD = 5


def play(
    quorum: Quorum,
    attack: Attack,
    *,
    seconds: float,
    calm_s: float = 2.0,
    restart: bool = True,
    seed: int = 1,
    rounds: int = 1,
) -> Report:
    """Play one attack for so long, so many times, and judge.

    What was before is looked at once, before the first round; after each round the leader of before leads and
    nothing durable has changed, or there are no more rounds. Memory is judged over all of them.

    Args:
        quorum: Well, and under load.
        attack: What to do to it.
        seconds: How long those attacks last that could go on for ever.
        calm_s: How long commits are counted before the first round, and after the last.
        restart: Whether all nodes are killed and started again afterwards.
        seed: Of the attack's random numbers; each round has the next.
        rounds: How often it is played on this quorum.
    """
    report = Report(attack.name)
    if attack.prepare is not None:
        with Ground(quorum, seconds, seed) as ground:
            attack.prepare(ground)
        quorum.wait_well(PATIENCE_S)
    calm_from = time.monotonic()
    time.sleep(calm_s)
    calm = calm_from, time.monotonic()
    watch = MemoryWatch(quorum)
    for number in range(rounds):
        after_s = calm_s if number == rounds - 1 else 0.0
        report.absorb(_play_round(quorum, attack, seconds, seed + number, calm=calm, after_s=after_s))
        if report.wrong:
            break
    watch.stop()
    _judge_memory(report, watch)
    if restart and not report.wrong:
        _judge_restart(report, quorum)
    return report


def _play_round(
    quorum: Quorum, attack: Attack, seconds: float, seed: int, *, calm: tuple[float, float], after_s: float
) -> Report:
    report = Report(attack.name)
    facts, durable = quorum.wait_facts(), quorum.durable()
    began = time.monotonic()
    with Ground(quorum, seconds, seed) as ground:
        attack.play(ground)
        ended = time.monotonic()
    report.attack_s = ended - began
    _count(report, ground)
    _wait_well(report, quorum, ended)
    time.sleep(after_s)
    _judge_end(report, quorum, attack, facts, durable, ground)
    _judge_commits(report, attack, quorum.commits(), (began, ended), calm)
    return report


def _count(report: Report, ground: Ground) -> None:
    tally = ground.tally
    report.sent, report.taken, report.refused = tally["sent"], tally.taken, tally["refused"]
    report.opened = tally["opened"]
    report.wrong += ground.failures
    report.slow += ground.slow
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
    for node in quorum.cluster:
        report.wrong += [f"code of node {node.node_id} raised: {line}" for line in raised(node.events)]
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


def raised(events: Iterable[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The first lines of a node's log that tell of code which raised where the process goes on."""
    return [line for line in events if line.get("event") in DEFECTS][:DEFECTS_TOLD]


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
    """A node keeps the newest records of its log in memory, once; what is beyond those is what it cost."""
    growth = watch.growth
    kept = {
        node_id: min(growth[node_id], RECORDS_KEPT_BYTES, grown) for node_id, grown in watch.logged.items()
    }
    report.rss_growth = sum(growth.values())
    allowed = max(RSS_PER_BYTE * report.sent, len(growth) * RSS_NOISE_BYTES) + sum(kept.values())
    if report.rss_growth > RSS_MAX_BYTES:
        report.wrong.append(f"memory grew by {report.rss_growth:,} bytes in all: {growth}")
    elif report.rss_growth > allowed:
        report.wrong.append(
            f"memory grew by {report.rss_growth:,} bytes for {report.sent:,} hostile ones: {growth}, "
            f"of which records of the log are at most {kept}"
        )


def _judge_commits(
    report: Report,
    attack: Attack,
    commits: list[Commit],
    span: tuple[float, float],
    calm: tuple[float, float],
) -> None:
    began, ended = span
    report.before = rate(commits, *calm)
    report.during = rate(commits, began, ended)
    report.after = rate(commits, ended, time.monotonic())
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
