"""`make kafka`: three kraftd controllers and a real Kafka broker on this machine, until interrupted.

    scripts/kafka.py [--brokers N]      start them: controllers at 127.0.0.1:9191 to 9193, the broker at 9092
    scripts/kafka.py kafka-topics ...   one of Kafka's own tools, by the name that Kafka's bin/ gives it

A process that ends, or is killed, is told in a line, and the others go on.
The configurations are those in config/, the directories are below build/kafka-cluster and stay there for the
next start. Kafka's jars come from Maven Central, once; Java 17 and Maven are all that is needed, and where
they are missing one line says so.
"""

import json
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

from kraftd.runtime.config import load_config

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
RELEASE = "4.3.1"
JARS = ROOT / "build" / f"kafka-{RELEASE}"
HOME = ROOT / "build" / "kafka-cluster"
CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
CONTROLLERS = (1, 2, 3)
TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
TOOLS_TEXT = "\n  ".join(
    [
        "Kafka's tools: .venv/bin/python scripts/kafka.py TOOL …, of which there are",
        *textwrap.wrap(", ".join(TOOLS), 76, break_on_hyphens=False),
    ]
)
USAGE = f"""\
make kafka [ARGS="--brokers N"]: three controllers and 1 to 3 brokers, here.
{TOOLS_TEXT}"""
STARTED = "Kafka Server started"
WAIT_S = 120.0
STOP_S = 20.0


class NotThereError(Exception):
    """Something is missing; the text is one line that says what."""


def main() -> int:
    """Start the cluster, or run a tool; the exit code."""
    words = sys.argv[1:]
    try:
        if words and words[0] in TOOLS:
            command = [*java(256, logging_to("stderr")), TOOLS[words[0]], *words[1:]]
            return subprocess.run(command, check=False).returncode
        if words == ["--help"]:
            print(USAGE)
            return 0
        return up(_brokers_of(words))
    except NotThereError as error:
        print(f"kafka: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def up(brokers: int) -> int:
    """Start controllers and brokers, and wait for an interrupt."""
    command = java(512, logging_to("stdout"))
    HOME.mkdir(parents=True, exist_ok=True)
    running: list[tuple[str, subprocess.Popen[bytes]]] = []
    for ended_by in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ended_by, lambda *_: sys.exit(0))
    try:
        for number in CONTROLLERS:
            config = ROOT / "config" / f"local-{number}.properties"
            run(
                BIN / "kraftctl",
                "format",
                "--ignore-formatted",
                "--cluster-id",
                CLUSTER_ID,
                "--config",
                config,
            )
            name = f"controller-{number}"
            running.append((name, start(name, [BIN / "kraftd", "start", config])))
        for number in range(1, brokers + 1):
            config = ROOT / "config" / f"broker-{number}.properties"
            format_broker(command, config)
            name = f"broker-{number}"
            running.append((name, start(name, [*command, "kafka.Kafka", config])))
        for name, process in running:
            wait_started(name, process)
        print(f"three controllers at {_controllers()}; logs and data in {HOME.relative_to(ROOT)}")
        print(f"{brokers} Kafka {RELEASE} broker{'s' * (brokers > 1)}: --bootstrap-server 127.0.0.1:9092")
        print(TOOLS_TEXT, flush=True)
        watch(running)
        raise NotThereError("all processes have ended")
    finally:
        stop(running)


def watch(running: Sequence[tuple[str, subprocess.Popen[bytes]]]) -> None:
    """Tell of each process that ends, until none is left."""
    left = list(running)
    while left:
        time.sleep(0.5)
        for name, process in left[:]:
            if process.poll() is not None:
                left.remove((name, process))
                code = process.returncode
                how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
                print(f"kafka: {name} has ended, {how}; its log is {_shown(log_of(name))}", file=sys.stderr)


def stop(running: Sequence[tuple[str, subprocess.Popen[bytes]]], deadline_s: float = STOP_S) -> None:
    """Stop all brokers at once, then the controllers, without whom a broker cannot hand over what it leads.

    A broker that was unregistered waits for an answer to its controlled shutdown for ever. Whoever is not
    done at the deadline is killed, in a line; so is everybody, by a second interrupt.
    """
    try:
        for kind in ("broker", "controller"):
            group = [(name, process) for name, process in running if name.startswith(kind)]
            for _, process in group:
                process.terminate()
            deadline = time.monotonic() + deadline_s
            for name, process in group:
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    print(f"kafka: {name} did not stop within {deadline_s:g} s: killed", file=sys.stderr)
                    process.kill()
    finally:
        for _, process in running:
            process.kill()
            process.wait()


def logging_to(stream: str) -> str:
    """The option by which a Kafka process logs there: a tool what went wrong, a broker what it does."""
    return f"-Dlog4j2.configurationFile={ROOT / 'scripts' / f'kafka-log4j2-{stream}.properties'}"


def java(heap_mb: int, logging: str) -> list[str | Path]:
    """What runs a class of Kafka's, whose jars are fetched when they are not there.

    Args:
        heap_mb: The most that its heap may take.
        logging: The option that says what is logged where.

    Raises:
        NotThereError: Java or Maven is missing, or Maven Central does not answer.
    """
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise NotThereError(
                f"{tool} is missing; on Debian: apt-get install openjdk-17-jre-headless maven"
            )
    if not list(JARS.glob("log4j-slf4j-impl-*.jar")):
        pom = ROOT / "tests" / "interop" / "pom.xml"
        copy: list[str | Path] = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies"]
        copy += [f"-Dkafka={RELEASE}", f"-DoutputDirectory={JARS}"]
        # With -B, too, Maven begins by resetting colours (ESC[0m): nothing of it is shown unless it fails.
        fetched = subprocess.run(
            copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if fetched.returncode:
            print(fetched.stdout.replace("\x1b[0m", "").strip(), file=sys.stderr)
            shutil.rmtree(JARS, ignore_errors=True)
            raise NotThereError(f"Kafka {RELEASE} cannot be fetched from Maven Central")
    quick = (f"-Xmx{heap_mb}m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    return ["java", *quick, logging, "-cp", f"{JARS}/*"]


def format_broker(command: Sequence[str | Path], config: Path) -> None:
    """Make a broker's directory ready with `kafka-storage format`, unless it is."""
    if not (HOME / "data" / config.stem / "meta.properties").exists():
        run(*command, TOOLS["kafka-storage"], "format", "--cluster-id", CLUSTER_ID, "--config", config)


def start(name: str, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
    """Start a process in HOME, its output in a file of its name. An interrupt at the terminal does not reach
    it: brokers have to stop before the controllers.
    """
    with log_of(name).open("wb") as log:
        return subprocess.Popen(
            command, cwd=HOME, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def wait_started(name: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a controller serves, or a broker may serve its clients."""
    said = STARTED if name.startswith("broker") else '"started"'
    deadline = time.monotonic() + WAIT_S
    while said not in log_of(name).read_text(errors="replace"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise NotThereError(f"{name} did not start: {_last_words(log_of(name))}")
        time.sleep(0.1)


def _last_words(log: Path) -> str:
    """What a process said last, and where the rest is."""
    lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
    try:
        last = json.loads(lines[-1])["reason"]
    except (ValueError, TypeError, KeyError):
        last = lines[-1]
    return f"{last}\n  ({_shown(log)})"


def _shown(log: Path) -> Path:
    return log.relative_to(ROOT)


def log_of(name: str) -> Path:
    """Where a process says what it does."""
    return HOME / f"{name}.log"


def run(*command: str | Path) -> None:
    """Run a command to its end, quietly if it succeeds."""
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise NotThereError(f"{Path(command[0]).name}: {last[0]}")


def _brokers_of(words: Sequence[str]) -> int:
    match words:
        case []:
            return 1
        case ["--brokers", ("1" | "2" | "3") as number]:
            return int(number)
    raise NotThereError(f"{' '.join(words)}: not understood\n{USAGE}")


def _controllers() -> str:
    configs = [load_config(ROOT / "config" / f"local-{number}.properties", {}) for number in CONTROLLERS]
    return ", ".join(f"{config.advertised.host}:{config.advertised.port}" for config in configs)


if __name__ == "__main__":
    sys.exit(main())
