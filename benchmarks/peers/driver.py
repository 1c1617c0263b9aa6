"""The load client in C, `benchmarks/load.c`: built on first use into `.benchmarks`, fed and read here."""

import asyncio
import hashlib
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import msgspec

from peers.cluster import Load, NotThereError

SOURCE = Path(__file__).parents[1] / "load.c"
BUILT = Path(__file__).parents[2] / ".benchmarks"
EVERY_BIT = 0xFF


class Told(msgspec.Struct, frozen=True):
    """What it writes to its standard output, as JSON; `answered` counts those of the warm-up, too."""

    answered: int
    measured: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_s: float


def driver(source: Path = SOURCE, built: Path = BUILT) -> Path:
    """The program, built anew when its source is another.

    Raises:
        NotThereError: There is no C compiler, or it cannot compile this.
    """
    program = built / f"load-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"
    if program.exists():
        return program
    compiler = shutil.which("cc")
    if compiler is None:
        raise NotThereError(
            "the load client: no C compiler (cc) is here; on Debian: apt-get install gcc libc6-dev"
        )
    built.mkdir(exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(unfinished), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotThereError(f"the load client: cc failed: {' '.join(done.stderr.split())}")
    unfinished.replace(program)
    return program


def work(hello: bytes | None, good: bytes, free: range, requests: Iterable[bytes]) -> bytes:
    """What the program reads: blobs with their lengths; the bytes of `good` in `free` may be anything."""
    mask = bytes(0 if at in free else EVERY_BIT for at in range(len(good)))
    return b"".join(struct.pack(">I", len(blob)) + blob for blob in (hello or b"", good, mask, *requests))


async def drive(
    port: int, connections: int, seconds: float, *, warm_up_s: float, changes: int, given: bytes
) -> Load:
    """Run it; raises RuntimeError with its words if a response was not the good one, or for other trouble."""
    process = await asyncio.create_subprocess_exec(
        str(driver()),
        *(str(word) for word in (port, connections, warm_up_s, seconds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, words = await process.communicate(given)
    if process.returncode:
        raise RuntimeError(words.decode(errors="replace").strip() or f"load ended with {process.returncode}")
    told = msgspec.json.decode(output, type=Told)
    return Load(
        changes=told.answered * changes,
        changes_per_s=told.measured * changes / told.seconds,
        p50_ms=told.p50_ms,
        p99_ms=told.p99_ms,
        max_ms=told.max_ms,
        client_us=1e6 * told.cpu_s / (told.measured * changes),
    )
