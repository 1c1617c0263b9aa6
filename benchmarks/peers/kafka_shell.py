"""Kafka's metadata shell: when it has loaded a snapshot, at what cost, and how many partitions it shows.

Entered by `load`. Given a command, the shell looks before it has loaded; so it is asked, again and again,
until what it shows has an offset.
"""

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import msgspec
from memory import memory_mb

SHELL = "org.apache.kafka.shell.MetadataShell"
ASK_S = 0.02
PARTITION = re.compile(rb"(?:>> )*\d+\s*$")
LOADED = re.compile(rb"offset \d+, epoch \d+")
NOT_YET = re.compile(rb"offset -1, epoch -1")
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


class Loaded(msgspec.Struct):
    """What it took, from the start of the process until it showed the snapshot."""

    seconds: float
    cpu_s: float
    peak_mb: float
    partitions: int | None = None
    """None if they were not counted."""


def load(java: Sequence[str], snapshot: Path, *, count: bool = False) -> Loaded:
    """Have the shell load a snapshot, and count its partitions if wanted.

    Raises:
        RuntimeError: It ended before it had.
    """
    began = time.perf_counter()
    command = [*java, SHELL, "--snapshot", str(snapshot)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdin and process.stdout
        try:
            _ask_until_loaded(process.stdin, process.stdout)
            seconds = time.perf_counter() - began
            loaded = Loaded(seconds, *_cost(process.pid))
            if count:
                process.stdin.write(b"ls /image/topics/byId/*\n")
            process.stdin.close()
            shown = sum(PARTITION.match(line) is not None for line in process.stdout)
            loaded.partitions = shown if count else None
        finally:
            process.kill()
    return loaded


def _ask_until_loaded(questions: IO[bytes], responses: IO[bytes]) -> None:
    """Ask for what it has, until it has a snapshot."""
    for _ in _asking(questions):
        line = b""
        while not NOT_YET.search(line):
            line = responses.readline()
            if not line:
                raise RuntimeError("Kafka's shell ended before it had loaded the snapshot")
            if LOADED.search(line):
                return


def _asking(questions: IO[bytes]) -> Iterator[None]:
    while True:
        with contextlib.suppress(BrokenPipeError):  # the responses end, too
            questions.write(b"cat /image/provenance\n")
            questions.flush()
        yield
        time.sleep(ASK_S)


def _cost(pid: int) -> tuple[float, float]:
    """CPU seconds so far, and the most memory in MB."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND, memory_mb(pid)[1]
