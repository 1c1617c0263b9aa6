"""A million spoilt frames for real nodes: `python -m tests.hostile.fuzz --frames 1000000 --seed 1`.

Frames come from `grammar`, in equal parts from nobody (before any greeting), a client, an observer that
greeted as node 99, and somebody who claims to be a voter; and, as many each, from `kafka_grammar`: of a
client of Kafka's, and of a broker that is registered. Each connection says its greeting, a few sound
requests, and at last a spoilt one or a nest, in one write; the connection is done when the node has closed it
or answered the ApiVersions behind the last frame. Many connections are under way at one time.

Prints frames, connections, answers and frames a second; and what is wrong: nobody may end, no decision may
raise, nothing durable may change, who led before leads after it.
"""

import random
import selectors
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import commands
from tests.hostile import wire
from tests.hostile.grammar import Facts, Grammar, nests
from tests.hostile.ground import CLAIM, CLIENT, OBSERVER, PLAIN, STRANGER, Attack, Ground
from tests.hostile.judge import play
from tests.hostile.kafka_grammar import Broker, KafkaGrammar, registration, whole
from tests.hostile.kafka_wire import ASK, registered, served
from tests.hostile.quorum import Quorum
from tests.hostile.report import Report

FRAMES = 1_000_000
AT_ONCE = 24
SOUND_MAX = 40
PATIENCE_S = 1.0
CLAIM_PATIENCE_S = 0.05
"""What an unconfirmed voter says is not answered; its connection is left after so long."""

LAST_ID = 0x7FFFFFF1
LAST = wire.request("ApiVersions", correlation_id=LAST_ID)
LAST_ANSWER = b"\x92\xce\x7f\xff\xff\xf1"
KAFKA_CLIENT, BROKER = "Kafka client", "broker"
KAFKA_LAST = wire.framed(ASK[:4] + LAST_ID.to_bytes(4, "big") + ASK[8:])
KAFKA_LAST_ANSWER = LAST_ID.to_bytes(4, "big") + b"\0\0"
WHO = (STRANGER, CLIENT, OBSERVER, CLAIM, KAFKA_CLIENT, BROKER)
BROKERS = (2_001, 2_002)
REGISTERED_EVERY = 100
"""After so many connections brokers are registered again: others unregister them, or take their place."""


class _Visit:
    """One connection of the fuzzer."""

    def __init__(self, who: str, channel: socket.socket, data: bytes, frames: int) -> None:
        self.who = who
        self.channel = channel
        self.data = memoryview(data)
        self.frames = frames
        self.tail = b""
        self.last_answer = KAFKA_LAST_ANSWER if who in (KAFKA_CLIENT, BROKER) else LAST_ANSWER
        self.gives_up_at = time.monotonic() + (CLAIM_PATIENCE_S if who == CLAIM else PATIENCE_S)


class Fuzzer:
    """Visits until so many frames were said, or the time is over."""

    def __init__(self, ground: Ground, frames: int, seed: int, seconds: float = 1e9) -> None:
        self.ground = ground
        self.frames_max = frames
        self.ends_at = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.rng = random.Random(seed)
        known = [ground.known(node_id) for node_id in ground.node_ids]
        facts = Facts(
            known[0]["ClusterId"],
            [each["DirectoryId"] for each in known],
            ground.node_ids,
            ground.facts.epoch,
        )
        self.grammar = Grammar(seed, facts)
        self.nests = nests(facts, self.rng)
        brokers = [Broker(broker_id, self.rng.randbytes(16)) for broker_id in BROKERS]
        self.kafka = KafkaGrammar(seed, facts, served(ground.leader.port), brokers)
        self._selector = selectors.DefaultSelector()
        self._visits: set[_Visit] = set()
        self._number = 0

    def _register_brokers(self) -> None:
        """Have the brokers registered for whom others speak; who is already, is told the same epoch again."""
        brokers = self.kafka.brokers
        for number, broker in enumerate(brokers):
            sound = whole(registration(self.kafka.facts.cluster_id, broker, 4))
            epoch = registered(self.ground.leader.port, sound[4:])
            brokers[number] = broker._replace(epoch=epoch)
            self.counts["brokers refused"] += epoch < 0

    def run(self) -> None:
        """Say all frames."""
        with self._selector:
            while self._visits or not self._is_done():
                while len(self._visits) < AT_ONCE and not self._is_done():
                    if not self._begin():
                        break
                for key, events in self._selector.select(0.01):
                    self._go_on(key.data, events)
                now = time.monotonic()
                for visit in [each for each in self._visits if now > each.gives_up_at]:
                    self._end(visit, "left")

    def _is_done(self) -> bool:
        return self.counts["frames"] >= self.frames_max or time.monotonic() > self.ends_at

    def _begin(self) -> bool:
        if self._number % REGISTERED_EVERY == 0:
            self._register_brokers()
        self._number += 1
        who = WHO[self._number % len(WHO)]
        node_id = self.ground.node_ids[self._number // len(WHO) % 3]
        words = self._kafka_words if who in (KAFKA_CLIENT, BROKER) else self._words
        data, frames = words(who, node_id)
        channel = socket.socket()
        channel.setblocking(False)
        try:
            channel.bind((f"127.0.0.{2 + self._number % 100}", 0))
            channel.connect(("127.0.0.1", self.ground.quorum.cluster[node_id].port))
        except BlockingIOError:
            pass
        except OSError:
            channel.close()
            self.counts["unopened"] += 1
            time.sleep(0.01)
            return False
        visit = _Visit(who, channel, data, frames)
        self._visits.add(visit)
        self._selector.register(channel, selectors.EVENT_READ | selectors.EVENT_WRITE, visit)
        return True

    def _words(self, who: str, node_id: int) -> tuple[bytes, int]:
        """What a connection says, and how many fuzzed frames are in it."""
        ground = self.ground
        frames: list[bytes] = []
        greeting = b""
        if who == CLIENT:
            greeting = wire.greeting(software="fuzz")
        elif who == OBSERVER:
            greeting = wire.greeting(99, **ground.identity(node_id), directory_id=self.rng.randbytes(16))
        elif who == CLAIM:
            voter_id = self.rng.choice([each for each in ground.node_ids if each != node_id])
            greeting = ground.claim_greeting(node_id, voter_id)
        if who != STRANGER:
            frames += [self.grammar.sound() for _ in range(self.rng.randrange(SOUND_MAX))]
        frames.append(next(self.nests) if self.rng.random() < 0.3 else self.grammar.spoilt())
        return b"".join([greeting, *frames, LAST]), len(frames)

    def _kafka_words(self, who: str, _: int) -> tuple[bytes, int]:
        """The same on Kafka's wire, where asking which APIs are served stands for a greeting."""
        kafka, is_broker = self.kafka, who == BROKER
        sound = kafka.broker if is_broker else kafka.sound
        frames = [sound() for _ in range(self.rng.randrange(SOUND_MAX))]
        frames.append(kafka.spoilt(broker=is_broker))
        return b"".join([wire.framed(ASK), *frames, KAFKA_LAST]), len(frames)

    def _go_on(self, visit: _Visit, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                sent = visit.channel.send(visit.data)
                self.ground.tally["sent"] += sent
                visit.data = visit.data[sent:]
                if not visit.data:
                    self._selector.modify(visit.channel, selectors.EVENT_READ, visit)
            if events & selectors.EVENT_READ:
                data = visit.channel.recv(1 << 18)
                if not data:
                    self._end(visit, "closed")
                    return
                self.counts["answered bytes"] += len(data)
                if visit.last_answer in visit.tail + data:
                    self._end(visit, "through")
                    return
                visit.tail = (visit.tail + data)[-8:]
        except BlockingIOError:
            pass
        except OSError:
            self._end(visit, "closed")

    def _end(self, visit: _Visit, how: str) -> None:
        self._visits.discard(visit)
        self._selector.unregister(visit.channel)
        visit.channel.close()
        self.counts["connections"] += 1
        self.counts[how] += 1
        if visit.data:
            self.counts["cut short"] += 1  # the node closed before it had taken all
        self.counts["frames"] += visit.frames
        self.counts[f"frames as {visit.who}"] += visit.frames
        self.ground.tally["opened"] += 1


def fuzzing(frames: int, seed: int, seconds: float = 1e9) -> Attack:
    """An attack that says so many frames."""

    def fuzzed(ground: Ground) -> None:
        """Frames by the grammar, sound and spoilt, from everybody."""
        began = time.monotonic()
        fuzzer = Fuzzer(ground, frames, seed, seconds)
        fuzzer.run()
        took = time.monotonic() - began
        counts = fuzzer.counts
        ground.note(
            f"{counts['frames']:,} frames in {took:.0f} s, {counts['frames'] / took:,.0f} a second;"
            f" {dict(counts)}"
        )

    return Attack("fuzzed", fuzzed, CLIENT, "5", PLAIN, None, 0, halves=False, fresh=False)


def run(
    frames: int,
    seed: int,
    *,
    rate: float = 100.0,
    seconds: float = 1e9,
    restart: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Report:
    """Fuzz a fresh quorum."""
    with (
        tempfile.TemporaryDirectory(prefix="kraftd-hostile-") as folder,
        Quorum(Path(folder) / "quorum", rate=rate, settings=settings) as quorum,
    ):
        return play(quorum, fuzzing(frames, seed, seconds), seconds=seconds, restart=restart, seed=seed)


def main(words: Sequence[str] | None = None) -> int:
    parser = commands.Parser(prog="python -m tests.hostile.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--frames", type=commands.count, default=FRAMES)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    report = run(chosen.frames, chosen.seed)
    print(Report.HEADER)
    print(report.row())
    for line in [*report.wrong, *report.slow, *report.notes]:
        print(f"    {line[:1_500]}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    commands.run(main)
