"""A local Spark that keeps to itself: quiet, on the loopback address, without a UI, in bounded memory.

Entered by `session`, which first says in one line what is missing (the replay extra, Java). Under
`spark-submit` the session that it made is used, with the master and memory that it was given.
"""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kraftd.replay.errors import ReplayError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17
SHUFFLE_PARTITIONS = 4
"""Everything that is shuffled is small: counts by kind. Spark's own default is 200."""
DRIVER_MEMORY = "1g"


@contextmanager
def session() -> "Iterator[SparkSession]":
    """Use the running Spark, or start one and stop it afterwards.

    Raises:
        ReplayError: The replay extra or Java is missing.
    """
    require_spark()
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
        running = SparkSession.getActiveSession()
        if running is not None:
            register(running)
            yield running
            return
        with _plain_interrupts() as restore:
            spark = _start()
            restore()
            try:
                register(spark)
                yield spark
            finally:
                spark.stop()


def require_spark() -> None:
    """Make sure that Spark can start, and say what to do if not."""
    missing = [name for name in ("pyspark", "pyarrow", "numpy", "pandas") if find_spec(name) is None]
    if missing:
        raise ReplayError(
            f"replay needs {', '.join(missing)}: install the replay extra, pip install 'kraftd[replay]'"
        )
    java = _java()
    if java is None:
        raise ReplayError(f"replay needs Java {JAVA_MIN} or newer: set JAVA_HOME or put java on the PATH")
    version = _java_version(java)
    if version < JAVA_MIN:
        raise ReplayError(
            f"replay needs Java {JAVA_MIN} or newer, but {java} is Java {version}: set JAVA_HOME"
        )


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.is_file() else None
    return shutil.which("java")


def _java_version(java: str) -> int:
    """The major version that `java -version` prints; 1.8 is 8."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - the user's own java
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReplayError(f"{java} does not run: {error}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        raise ReplayError(f"{java} -version says nothing about its version: is it Java?")
    return int(found[1])


def _start() -> "SparkSession":
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName("kraftd replay")
    for key, value in _settings().items():
        builder = builder.config(key, value)
    with _standard_error_elsewhere():
        return builder.getOrCreate()


@contextmanager
def _plain_interrupts() -> "Iterator[Callable[[], None]]":
    """Let Ctrl-C end a replay as it ends any program; call what is yielded once Spark has started.

    Spark puts in a handler that calls Java from within a call to Java: tracebacks, on the root logger.
    """
    handler, root, silence = signal.getsignal(signal.SIGINT), logging.getLogger(), logging.NullHandler()

    def restore() -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)

    root.addHandler(silence)
    try:
        yield restore
    finally:
        root.removeHandler(silence)


@contextmanager
def _standard_error_elsewhere() -> Iterator[None]:
    """Let the Java process that is started inside write its chatter to nowhere.

    It greets on standard error before its logging is set up, and no setting stops that. Failures of Spark
    come back as exceptions.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _settings() -> dict[str, str]:
    """What Spark is told: under spark-submit only what a replay is about, else also where and how to run."""
    settings = {
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.enabled": "true",
    }
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit
        return settings
    log4j = files("kraftd.replay") / "log4j2.properties"
    return settings | {
        "spark.master": "local[*]",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j}",
        "spark.ui.enabled": "false",
    }


def register(spark: "SparkSession") -> None:
    """Make `spark.read.format("kraft")` known to a session, with filters pushed down to the files."""
    from kraftd.replay.data_source import KraftDataSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KraftDataSource)
