"""Two kraftd controllers side by side: another version of it, or one that loses its leader again and again.

    make conformance-kafka ARGS="--against DIR"         # the kraftd of another checkout is the first
    make conformance-kafka ARGS="--failover-every 10"   # the second is killed and started every 10 operations

What is compared, and how, is as with Kafka: numbers that have to differ are called alike. Who took over knows
less of brokers than who led before: nothing of when fenced ones were heard of, how far any has read, what one
that stops waits for. With failovers nothing is drawn that depends on it (`Drawing.has_sessions`).
"""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance_kafka.sides import CLUSTER_ID, SETTINGS, WAIT_S, Side, features_at, hash_once
from tests.process.cluster import Cluster, TimeoutWaitingError


def command_of(checkout: Path) -> Sequence[str]:
    """What starts the kraftd of a checkout: with its own packages first, and not those of this directory."""
    return "env", f"PYTHONPATH={checkout.resolve()}", sys.executable, "-P", "-m", "kraftd"


class Twins:
    """Both controllers, in the place of a `Pair`. Ends every process that it started when it is closed."""

    def __init__(self, folder: Path, level: int, against: Path | None, failover_every: int) -> None:
        command = (sys.executable, "-m", "kraftd") if against is None else command_of(against)
        self._failover_every = failover_every
        self._clusters = tuple(
            Cluster(
                folder / name,
                1,
                settings=SETTINGS,
                command=words,
                cluster_id=CLUSTER_ID,
                features=features_at(level),
                start=False,
            )
            for name, words in (("first", command), ("second", (sys.executable, "-m", "kraftd")))
        )
        self.kafka, self.kraftd = (
            Side(name, cluster[1].port)
            for name, cluster in zip(("the first", "kraftd"), self._clusters, strict=True)
        )
        self.kafka_folder = folder / "no snapshots"

    def __iter__(self) -> Iterator[Side]:
        yield self.kafka
        yield self.kraftd

    def start(self) -> None:
        """Start both."""
        for side, cluster in zip(self, self._clusters, strict=True):
            cluster[1].start()
            self._wait_ready(side)

    def close(self) -> None:
        """Kill whatever still runs."""
        for side, cluster in zip(self, self._clusters, strict=True):
            side.close()
            cluster.close()

    def before(self, index: int) -> None:
        """Let the second controller lose its leader, if it is time for that."""
        if not self._failover_every or not index or index % self._failover_every:
            return
        node = self._clusters[1][1]
        self.kraftd.appended()
        self.kraftd.close()
        node.kill()
        node.start()
        self._wait_ready(self.kraftd)

    def kraftd_hash(self, wanted: str) -> str:
        """The hash of the second one's image, once it is this one, or after a while."""
        return hash_once(self._clusters[1], wanted)

    def _wait_ready(self, side: Side) -> None:
        side.account.is_registered = False
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, TimeoutWaitingError, IndexError):
                side.appended()
                if side.account.is_registered:
                    return
            side.close()
            time.sleep(0.02)
        raise TimeoutWaitingError(f"{side.name} is not ready")
