"""What processes have done so far: CPU, what they count themselves, and what the kernel counts for them."""

import asyncio
import contextlib
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

SYSCALLS = "raw_syscalls:sys_enter"
FSYNCS = ("syscalls:sys_enter_fsync", "syscalls:sys_enter_fdatasync")
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})? (\S+)", re.MULTILINE)


def cpu_s(pid: int) -> float:
    """CPU seconds of all threads that a process has now, to the nanosecond."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread that has just ended
            total_ns += int((task / "schedstat").read_text().split()[0])
    return total_ns / 1e9


async def scraped(port: int | None) -> dict[str, float]:
    """The page `/metrics` on a port; nothing if there is none."""
    if port is None:
        return {}
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            page = await reader.read()
            writer.close()
    except (OSError, TimeoutError):
        return {}
    return samples(page.decode())


def samples(page: str) -> dict[str, float]:
    """The numbers of a Prometheus page by name, summed over their labels."""
    found: dict[str, float] = {}
    for name, value in SAMPLE.findall(page):
        with contextlib.suppress(ValueError):
            found[name] = found.get(name, 0.0) + float(value)
    return found


def why_not_counted() -> str | None:
    """Why system calls cannot be counted here; None if they can."""
    if shutil.which("perf") is None:
        return "perf is missing; on Debian: apt-get install linux-perf"
    command = ["perf", "stat", "-x", ",", "-e", ",".join((SYSCALLS, *FSYNCS)), "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or set(events(done.stderr)) != {SYSCALLS, *FSYNCS}:
        return "perf may not count system calls here (root, and a mounted tracefs, are needed)"
    return None


@contextlib.asynccontextmanager
async def kernel_counts(pids: Sequence[int]) -> AsyncIterator[dict[str, float]]:
    """Count what these processes ask of the kernel meanwhile; after it the dictionary is filled."""
    counted: dict[str, float] = {}
    command = ["perf", "stat", "-x", ",", "-e", ",".join((SYSCALLS, *FSYNCS))]
    process = await asyncio.create_subprocess_exec(
        *command, "-p", ",".join(map(str, pids)), stderr=asyncio.subprocess.PIPE
    )
    try:
        await asyncio.sleep(0.2)  # until it has attached itself
        yield counted
    finally:
        process.send_signal(signal.SIGINT)
        _, words = await process.communicate()
        found = events(words.decode())
        if SYSCALLS in found:
            counted["syscalls"] = found[SYSCALLS]
            counted["fsyncs"] = sum(found.get(name, 0.0) for name in FSYNCS)


def events(words: str) -> dict[str, float]:
    """What `perf stat -x ,` says: the count of each event that it could count."""
    found = {}
    for line in words.splitlines():
        value, _, rest = line.partition(",")
        name = rest.partition(",")[2].partition(",")[0]
        if name and value.isdigit():
            found[name] = float(value)
    return found


def grown(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    """By how much a counter grew; None if it is not there."""
    return after[name] - before.get(name, 0.0) if name in after else None
