"""One process of a real Kafka: its properties, its life, and what it said.

    broker = KafkaProcess(kafka, folder, node_id, properties)
    broker.start()
    broker.wait_for("Kafka Server started")
    broker.pause(); broker.resume(); broker.stop()

A line of its log is `TIME LEVEL Class: text` (`scripts/kafka-log4j2-stdout.properties`). Every wait is for a
line, has a deadline only so that nothing waits for ever, and ends early if the process does.

The same verbs as `tests.process.cluster.Node`, so that a test kills Kafka's controllers and kraftd's alike.
"""

import re
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fixtures import ROOT
from tests.interop.peer import Kafka
from tests.process.cluster import TimeoutWaitingError

WAIT_S = 180.0
"""A JVM starts in seconds, or in a minute on a machine that is full."""

LOGGING = (
    f"-Dlog4j2.configurationFile={ROOT / 'scripts' / 'kafka-log4j2-stdout.properties'}",
    f"-Dlog4j.configuration=file:{Path(__file__).parent / 'log4j.properties'}",
)
"""For releases from 4.0 on, and for those before."""

QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")
"""For processes that are over before a better compiler pays."""

_PROBLEM = re.compile(r"^\S+ (?:WARN|ERROR|FATAL) ")


class KafkaProcess:
    """A broker or a controller; it can be ended and started again on the same directories."""

    def __init__(
        self, kafka: Kafka, folder: Path, node_id: int, properties: Mapping[str, str], *, heap_mb: int = 256
    ) -> None:
        self.kafka = kafka
        self.node_id = node_id
        self.heap_mb = heap_mb
        self.config_path = folder / f"kafka-{node_id}.properties"
        self.log_path = folder / f"kafka-{node_id}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.began = 0
        """Where in the log the newest start is."""
        self._is_paused = False
        self._lines: list[str] = []
        self._heard = threading.Condition()
        self._reader: threading.Thread | None = None
        self.configure(properties)

    def configure(self, properties: Mapping[str, str]) -> None:
        """Write its properties, for the next start."""
        self.properties = dict(properties)
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.config_path.write_text(text, encoding="utf-8")

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.properties["listeners"].rpartition(":")[2])

    # The process.

    def start(self) -> "KafkaProcess":
        """Start it; does not wait for anything."""
        self.began = self.mark()
        java = ["java", f"-Xmx{self.heap_mb}m", *QUICK, *LOGGING]
        self.process = subprocess.Popen(
            [*java, "-cp", f"{self.kafka.jars}/*", "kafka.Kafka", self.config_path],
            cwd=self.config_path.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._listen, args=(self.process,), daemon=True)
        self._reader.start()
        return self

    @property
    def is_running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        """The process id."""
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait_exit()

    def stop(self) -> int:
        """SIGTERM, and wait for the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit()

    @property
    def is_up(self) -> bool:
        """Whether it lives and is not paused."""
        return self.is_running and not self._is_paused

    def pause(self) -> None:
        """SIGSTOP."""
        self._is_paused = True
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._is_paused = False
        self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        """Send any signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def wait_exit(self, timeout_s: float | None = WAIT_S) -> int:
        """Wait until the process and its last words are through; its exit code."""
        assert self.process is not None and self._reader is not None
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise TimeoutWaitingError(f"Kafka {self.node_id} does not end:\n{self.last_lines()}") from None
        self._reader.join(timeout_s)
        return code

    # What it said.

    def mark(self) -> int:
        """A place in the log, to wait for what comes after it."""
        with self._heard:
            return len(self._lines)

    def wait_for(self, pattern: str, *, since: int = 0, timeout_s: float = WAIT_S) -> str:
        """Wait for a line that the pattern is found in, at or after `since`; the line."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + timeout_s
        with self._heard:
            position = since
            while True:
                for line in self._lines[position:]:
                    if wanted.search(line):
                        return line
                position = len(self._lines)
                left = deadline - time.monotonic()
                if left <= 0 or (not self.is_running and self._is_silent()):
                    state = "running" if self.is_running else "ended"
                    raise TimeoutWaitingError(
                        f"Kafka {self.node_id} ({state}) said nothing like {pattern!r}:\n{self.last_lines()}"
                    )
                self._heard.wait(min(left, 0.5))

    def lines(self, since: int = 0) -> Sequence[str]:
        """All that it said at or after `since`."""
        with self._heard:
            return tuple(self._lines[since:])

    def problems(self, since: int = 0) -> list[str]:
        """Its warnings and errors."""
        return [line for line in self.lines(since) if _PROBLEM.match(line)]

    def last_lines(self, count: int = 25) -> str:
        """The newest lines."""
        return "\n".join(self.lines()[-count:])

    def _is_silent(self) -> bool:
        return self._reader is None or not self._reader.is_alive()

    def _listen(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        with self.log_path.open("ab") as log, process.stdout:
            for line in process.stdout:
                log.write(line)
                log.flush()
                with self._heard:
                    self._lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                    self._heard.notify_all()
