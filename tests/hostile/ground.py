"""What an attack stands on: the quorum, its own counted connections, and the table of attacks.

An attack is a small function of a `Ground`; the decorator `attack` enters it into `ATTACKS` by its name. It
stops by itself, within `Ground.seconds` as far as it goes on and on. What it sees that no attacker should
see, it reports with `Ground.fail`; everything else is for the judges in `judge`.
"""

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from tests.hostile import wire
from tests.hostile.client import Line, Tally
from tests.hostile.quorum import Facts, Quorum
from tests.process.cluster import Node

STRANGER, CLIENT, OBSERVER, CLAIM = "stranger", "client", "observer", "claim"
"""Who attacks: nobody that was greeted; a greeted client; an id that is no voter's; a false voter."""

OBSERVER_ID = 99
COUNTER = (1 << 31) - 1
FAILURES_MAX = 8
WRONG_AFTER_S = 120.0
"""What has not come about after so long does not come about, on whatever machine."""

PLAIN: Mapping[str, Any] = {}
FILES: Mapping[str, Any] = {
    "nofile": 512,
    "http": True,
    "settings": {"metadata.log.segment.bytes": "65536", "metadata.log.segment.min.bytes": "1024"},
}
HTTP: Mapping[str, Any] = {"http": True}
IMPATIENT: Mapping[str, Any] = {"settings": {"connections.max.idle.ms": "2000"}}

PATIENT: Mapping[str, str] = {"controller.quorum.fetch.timeout.ms": "6000"}
"""Settings with which a loaded machine alone costs no election."""

Play = Callable[["Ground"], None]


class Attack(NamedTuple):
    """One attack: what it does, who does it, on which quorum, and what it may cost."""

    name: str
    play: Play
    who: str
    section: str
    """The section of the list of defects; `new` for attacks that were invented later."""
    setup: Mapping[str, Any]
    prepare: Play | None
    elections: int
    """Elections that it may cost; -1 if it kills or pauses nodes itself, so that only the end counts."""
    halves: bool
    """Whether half the commits must get through while it lasts: not if it kills or pauses nodes."""
    fresh: bool
    """Whether each round needs a quorum of its own: segments of a log that grew take files from the next."""

    @property
    def text(self) -> str:
        """What it does, in its first line."""
        return (self.play.__doc__ or "").strip().split("\n")[0]


ATTACKS: dict[str, Attack] = {}


def attack(
    who: str,
    section: str = "new",
    *,
    setup: Mapping[str, Any] = PLAIN,
    prepare: Play | None = None,
    elections: int | None = None,
    halves: bool = True,
    fresh: bool = False,
) -> Callable[[Play], Play]:
    """Enter a function into the table of attacks."""
    allowed = elections if elections is not None else 1 if who in (CLIENT, OBSERVER) else 0

    def enter(play: Play) -> Play:
        name = play.__name__
        ATTACKS[name] = Attack(name, play, who, section, setup, prepare, allowed, halves, fresh)
        return play

    return enter


class Ground:
    """One attack's way to the nodes. Closes its connections when it is left."""

    def __init__(self, quorum: Quorum, seconds: float, seed: int = 1) -> None:
        self.quorum = quorum
        self.seconds = seconds
        self.rng = random.Random(seed)
        self.tally = Tally()
        self.failures: list[str] = []
        self.slow: list[str] = []
        self.notes: list[str] = []
        self.facts: Facts = quorum.wait_facts()
        self.restarted: set[int] = set()
        """Nodes that the attack itself restarted: the start counters of these may rise."""
        self._stack = contextlib.ExitStack()
        self._known: dict[int, dict[str, Any]] = {}
        self._began = time.monotonic()

    def __enter__(self) -> "Ground":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # Whom it attacks.

    @property
    def node_ids(self) -> list[int]:
        return [node.node_id for node in self.quorum.cluster]

    @property
    def leader_id(self) -> int:
        return self.facts.leader_id

    @property
    def leader(self) -> Node:
        return self.quorum.cluster[self.leader_id]

    @property
    def follower_ids(self) -> list[int]:
        return [node_id for node_id in self.node_ids if node_id != self.leader_id]

    def known(self, node_id: int) -> dict[str, Any]:
        """What the node tells anybody who greets as nobody: cluster, directory and, once, start ids."""
        if node_id not in self._known:
            with self.open(node_id) as line:
                response = line.greet()
            if "ErrorCode" in response and "StartId" not in response:
                response |= {"StartCounter": 0, "StartId": bytes(16)}
            self._known[node_id] = response
        return self._known[node_id]

    def start(self, node_id: int) -> None:
        """Start a node that the attack killed, and wait until it runs, which takes long on a busy machine."""
        self.restarted.add(node_id)
        node = self.quorum.cluster[node_id]
        mark = node.mark()
        node.start().wait_for("started", since=mark)

    # Connections.

    def open(self, node_id: int, *, host: int = 1, **options: Any) -> Line:
        """A counted connection; the caller closes it. `host` tells the address it comes from."""
        source = f"127.{host >> 16}.{host >> 8 & 255}.{host & 255}"
        return Line(self.quorum.cluster[node_id].port, self.tally, source=source, **options)

    def line(self, node_id: int, **options: Any) -> Line:
        """A counted connection that stays until the attack ends.

        Raises:
            OSError: The node does not take it.
        """
        return self._keep(self.open(node_id, **options))

    def client(self, node_id: int, **options: Any) -> Line:
        """A connection that greeted as nobody, which stays."""
        line = self.line(node_id, **options)
        line.greet(software="attacker")
        return line

    def observer(self, node_id: int, observer_id: int = OBSERVER_ID, **options: Any) -> Line:
        """A connection that greeted with an id that is no voter's, which stays."""
        line = self.line(node_id, **options)
        line.greet(observer_id, **self.identity(node_id), directory_id=os.urandom(16))
        return line

    def claim(self, node_id: int, voter_id: int, **words: Any) -> Line:
        """A connection on which a voter's identity is claimed, with the newest start ever; it stays."""
        line = self.line(node_id)
        line.send(self.claim_greeting(node_id, voter_id, **words))
        return line

    def claim_greeting(self, node_id: int, voter_id: int, **words: Any) -> bytes:
        """The greeting of a false voter."""
        directory_id = self.known(voter_id)["DirectoryId"] if voter_id != node_id else os.urandom(16)
        return wire.greeting(
            voter_id,
            **{
                **self.identity(node_id),
                "directory_id": directory_id,
                "start_counter": COUNTER,
                "start_id": os.urandom(16),
                "nonce": os.urandom(16),
                **words,
            },
        )

    def identity(self, node_id: int) -> dict[str, Any]:
        """The cluster id and the APIs that a greeting of a node needs."""
        keys = [[api.key, api.versions[0], api.versions[-1], {}] for api in wire.apis().values()]
        return {"cluster_id": self.known(node_id)["ClusterId"], "api_keys": keys}

    def _keep(self, line: Line) -> Line:
        self._stack.callback(line.close)
        return line

    # Time, and what it found.

    def lasting(self, pause_s: float = 0.01) -> Iterator[int]:
        """Numbers, one each `pause_s`, until the attack's time is over."""
        ends = time.monotonic() + self.seconds
        number = 0
        while time.monotonic() < ends:
            yield number
            number += 1
            time.sleep(pause_s)

    def wait(
        self, what: str, is_so: Callable[[], bool], *, promised_s: float, pause_s: float = 0.05
    ) -> float:
        """Wait until something is so. It is slow if that takes longer than promised, wrong if it never comes.

        Args:
            what: What is so then, for the report.
            is_so: Whether it is.
            promised_s: Within how long it has to be.
            pause_s: Between two looks.

        Returns:
            How long it took, in seconds.
        """
        began = time.monotonic()
        while not is_so():
            if time.monotonic() - began > WRONG_AFTER_S:
                self.fail(f"not within {WRONG_AFTER_S:.0f} s: {what}")
                return time.monotonic() - began
            time.sleep(pause_s)
        took = time.monotonic() - began
        if took > promised_s:
            self.slow.append(f"after {took:.2f} s, {promised_s:.0f} s are promised: {what}")
        return took

    def fail(self, text: str) -> None:
        """Something that no attacker should see or bring about."""
        if text not in self.failures and len(self.failures) < FAILURES_MAX:
            self.failures.append(text)

    def note(self, text: str) -> None:
        """Something worth printing."""
        self.notes.append(text)


@contextlib.contextmanager
def unharmed() -> Iterator[None]:
    """Whatever the node does to a connection is a response, too."""
    with contextlib.suppress(OSError, ValueError, IndexError, KeyError, TypeError):
        yield
