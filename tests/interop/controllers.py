"""Real Kafka controllers, and a broker if wanted, on directories that somebody else may have written.

    with Controllers(kafka, folder, directories) as controllers:
        controllers.wait_leader()
        controllers.set_configs({"log.retention.ms": "1000"})
    # stopped by SIGTERM, each by its id

Everything is asked and changed with Kafka's own commands, as an operator would. Controllers answer those from
metadata.version 3.7 on; before, and for topics, a broker is needed. Ports are those that the kernel
had free; what a process said is in `FOLDER/NAME.out`.

Not a `tests.process.cluster.Cluster`: that one formats its directories, and reads kraftd's log lines and
protocol; nothing of it is true of a Kafka.
"""

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.interop.peer import Kafka
from tests.process.cluster import free_ports

WAIT_S = 300.0
"""Only so that nothing waits for ever: a JVM starts in a second, or in a minute on a machine that is full."""
BROKER = 100
_QUICK = "-XX:TieredStopAtLevel=1"
"""For processes that are over before a better compiler pays."""
_DEFAULT = ("--entity-type", "brokers", "--entity-default")
_SETTING = re.compile(r"^ {2}([\w.]+)=(.*?) sensitive=(?:true|false) ", re.MULTILINE)


class Controllers:
    """Controllers 1..N, each in a directory of its own, and perhaps a broker."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        directories: Mapping[int, Path],
        *,
        settings: Mapping[str, str] | None = None,
        broker: Path | None = None,
    ) -> None:
        self.kafka = kafka
        self.folder = folder
        self.folder.mkdir(parents=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = free_ports(len(directories) + 1)
        self.ports = dict(zip([*directories, BROKER], ports, strict=True))
        self._settings = {
            "controller.quorum.voters": ",".join(f"{node}@{self._at(node)}" for node in directories),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "offsets.topic.replication.factor": "1",
            **(settings or {}),
        }
        self._directories = {**directories, **({BROKER: broker} if broker else {})}
        for node, directory in self._directories.items():
            self._configure(node, directory)

    def __enter__(self) -> "Controllers":
        self.start()
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        self.stop(kill=failed is not None)

    # The processes.

    def format(self, cluster_id: str, nodes: Sequence[int]) -> None:
        """Make directories ready with `kafka-storage format`."""
        for node in nodes:
            self._run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", self.config(node))

    def start(self) -> None:
        """Start them all; does not wait for anything."""
        for node in self._directories:
            with (self.folder / f"{node}.out").open("wb") as out:
                self._processes[f"{node}"] = subprocess.Popen(
                    [
                        "java",
                        "-Xmx300m",
                        "-XX:+UseSerialGC",
                        _QUICK,
                        "-cp",
                        f"{self.kafka.jars}/*",
                        "kafka.Kafka",
                        self.config(node),
                    ],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                )

    def stop(self, *, kill: bool = False) -> None:
        """SIGTERM for the broker first, then for the controllers; SIGKILL if it has to be or is asked for."""
        brokers = [name for name in self._processes if name == f"{BROKER}"]
        for group in (brokers, [name for name in self._processes if name not in brokers]):
            for name in group:
                self._processes[name].send_signal(signal.SIGKILL if kill else signal.SIGTERM)
            for name in group:
                process = self._processes.pop(name)
                try:
                    process.wait(WAIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    raise AssertionError(f"Kafka {name} did not stop:\n{self.said(name)}") from None

    def said(self, name: str) -> str:
        """The last words of a process."""
        return (self.folder / f"{name}.out").read_text(errors="replace")[-2000:]

    # What an operator asks and does.

    def wait_leader(self) -> tuple[int, int]:
        """Wait until a leader is there and has committed in its epoch; its id and the high watermark."""
        deadline = time.monotonic() + WAIT_S
        while True:
            self._check_alive()
            with contextlib.suppress(AssertionError):
                status = self.quorum_status()
                if int(status["LeaderId"]) >= 0 and int(status["HighWatermark"]) > 0:
                    return int(status["LeaderId"]), int(status["HighWatermark"])
            assert time.monotonic() < deadline, "Kafka's controllers elect nobody"

    def quorum_status(self) -> dict[str, str]:
        """`kafka-metadata-quorum describe --status`, by label."""
        printed = self._run(
            "org.apache.kafka.tools.MetadataQuorumCommand", *self._at_quorum(), "describe", "--status"
        )
        return {
            label: value.strip() for label, _, value in (line.partition(":") for line in printed.splitlines())
        }

    def configs(self) -> dict[str, str]:
        """The cluster-wide defaults of brokers, as `kafka-configs` shows them."""
        printed = self._run("kafka.admin.ConfigCommand", *self._at_quorum(), "--describe", *_DEFAULT)
        return dict(_SETTING.findall(printed))

    def set_configs(self, values: Mapping[str, str]) -> None:
        """Change some of them, committed on return."""
        added = ",".join(f"{name}={value}" for name, value in values.items())
        self._run(
            "kafka.admin.ConfigCommand", *self._at_quorum(), "--alter", *_DEFAULT, "--add-config", added
        )

    def create_topic(self, name: str) -> None:
        """A topic of three partitions; needs the broker."""
        self._run(
            *(
                "org.apache.kafka.tools.TopicCommand" if self._is_new else "kafka.admin.TopicCommand",
                "--create",
            ),
            *("--bootstrap-server", self._at(BROKER), "--topic", name, "--partitions", "3"),
        )

    # How they are reached.

    @property
    def _is_new(self) -> bool:
        return tuple(map(int, self.kafka.release.split(".")))[:2] >= (3, 7)

    def _at_quorum(self) -> tuple[str, str]:
        if BROKER in self._directories:
            return "--bootstrap-server", self._at(BROKER)
        return "--bootstrap-controller", ",".join(map(self._at, self._directories))

    def _at(self, node: int) -> str:
        return f"127.0.0.1:{self.ports[node]}"

    def config(self, node: int) -> Path:
        """The properties file of a node."""
        return self.folder / f"{node}.properties"

    def _configure(self, node: int, directory: Path) -> None:
        role, listener = ("broker", "PLAINTEXT") if node == BROKER else ("controller", "CONTROLLER")
        values = {
            "process.roles": role,
            "node.id": str(node),
            "listeners": f"{listener}://{self._at(node)}",
            "log.dirs": str(directory),
            **self._settings,
        }
        self.config(node).write_text("".join(f"{key}={value}\n" for key, value in values.items()))

    def _run(self, *arguments: str | Path) -> str:
        return self.kafka.run(_QUICK, *arguments)

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            assert process.poll() is None, f"Kafka {name} ended:\n{self.said(name)}"
