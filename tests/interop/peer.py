"""A real Kafka to compare with: its jars by Maven, its classes by Java.

Entered through the fixture `kafka` (see `conftest`), which skips its tests, with one line, where Java or
Maven is missing or no jars can be had; what is no test asks `find_kafka`. The jars of a release are fetched
once and kept in `build/kafka-RELEASE`.

A harness is one Java file beside the tests, run from its source: it may use whatever Kafka's jars hold.
"""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.fixtures import ROOT

HERE = Path(__file__).parent
POM = HERE / "pom.xml"
RELEASE = "4.3.1"
"""The release whose bytes we write."""

_MINUTES = 60
_UTF_8 = ("-Dfile.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8", "-Dsun.stderr.encoding=UTF-8")
_SILENT = ("-Dlog4j2.level=OFF",)
"""What is logged would stand among what is printed."""
_WAY_OUT = "a real Kafka needs Java 17 with its compiler, Maven, and Maven Central"


class Kafka(NamedTuple):
    """One release of Kafka, ready to run."""

    release: str
    jars: Path

    def jar(self, name: str) -> Path:
        """One of its jars, such as `kafka-raft`."""
        return self.jars / f"{name}-{self.release}.jar"

    def run(self, *arguments: str | Path, memory_mb: int = 400) -> str:
        """Run a class or a Java file with arguments; what it printed.

        Raises:
            AssertionError: It ended with an error, or ran for too long.
        """
        done = subprocess.run(
            self.command(*arguments, memory_mb=memory_mb),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=5 * _MINUTES,
        )
        assert done.returncode == 0, f"{arguments[0]}: {done.stdout[-1000:]}{done.stderr[-2000:]}"
        return done.stdout

    def compiled(self, source: Path, folder: Path) -> tuple[str, ...]:
        """Compile a Java file that is in a package of Kafka's own, to call what is private to that; what to
        give to `run` for it.
        """
        done = subprocess.run(
            ["javac", "-nowarn", "-cp", f"{self.jars}/*", "-d", folder, source],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=5 * _MINUTES,
        )
        assert done.returncode == 0, f"{source.name}: {done.stderr[-2000:]}"
        (package,) = re.findall(r"^package (.*);$", source.read_text(encoding="utf-8"), re.MULTILINE)
        return "-cp", f"{folder}:{self.jars}/*", f"{package}.{source.stem}"

    def command(self, *arguments: str | Path, memory_mb: int = 400) -> list[str | Path]:
        """The command that runs a class or a Java file with arguments."""
        java = ["java", f"-Xmx{memory_mb}m", "-XX:+UseSerialGC", *_UTF_8, *_SILENT, "-cp", f"{self.jars}/*"]
        return [*java, *arguments]

    def dump(self, files: Sequence[Path]) -> str:
        """What Kafka's own tool prints of segments and snapshots."""
        return self.run(
            "org.apache.kafka.tools.DumpLogSegments",
            "--cluster-metadata-decoder",
            "--files",
            ",".join(map(str, files)),
        )


class NoKafkaError(Exception):
    """Java, Maven or the jars are missing; the text is one line that says which."""


def kafka_of(release: str) -> Kafka:
    """A release, its jars fetched if they are not here yet; skips the test where that cannot be."""
    try:
        return find_kafka(release)
    except NoKafkaError as error:
        pytest.skip(str(error))


def find_kafka(release: str) -> Kafka:
    """A release, its jars fetched if they are not here yet.

    Raises:
        NoKafkaError: That cannot be.
    """
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            raise NoKafkaError(f"{tool} is missing: {_WAY_OUT}")
    jars = ROOT / "build" / f"kafka-{release}"
    with _alone(jars.with_name("kafka.lock")):
        if not jars.is_dir() or jars.stat().st_mtime < POM.stat().st_mtime:
            _fetch(release, jars)
    return Kafka(release, jars)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process of all that run tests: else the second to have fetched the jars takes away what the first
    one runs from.
    """
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(release: str, jars: Path) -> None:
    unfinished = jars.with_name(f"{jars.name}.{os.getpid()}")
    done = subprocess.run(
        [
            *("mvn", "--quiet", "--batch-mode", "--strict-checksums", "--file", POM),
            *("dependency:copy-dependencies", f"-Dkafka={release}", f"-DoutputDirectory={unfinished}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * _MINUTES,
    )
    if done.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr[-300:])
        raise NoKafkaError(f"Maven cannot get Kafka {release}: {reason}; {_WAY_OUT}")
    shutil.rmtree(jars, ignore_errors=True)
    unfinished.rename(jars)
    jars.touch()
