"""A run of `make chaos` that is interrupted: what must be left of it is nothing."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.chaos.run import INTERRUPTED
from tests.fixtures import ROOT


def interrupt(number: signal.Signals, folder: Path, *arguments: str, after: str) -> None:
    """Begin a run below an empty folder, send it a signal after a line that the pattern is found in, while
    something runs there, and assert that neither a process nor a mount nor a file is left.
    """
    command = [sys.executable, "-m", "tests.chaos.run", "--minutes", "1", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if re.search(after, line) and processes_that_name(folder):
                    break  # else all nodes were killed just before, and are not up again
            else:
                raise AssertionError("the run ended by itself")
            process.send_signal(number)
            assert "every process is ended" in process.stdout.read()
            assert process.wait() == INTERRUPTED
        finally:
            process.terminate()  # never SIGKILL: nobody would unmount its disks
    assert processes_that_name(folder) == []
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert list(folder.iterdir()) == []


def processes_that_name(path: Path) -> list[str]:
    """The command lines that name a folder."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = file.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue  # it ended while we looked
        if str(path) in line:
            lines.append(line)
    return lines
