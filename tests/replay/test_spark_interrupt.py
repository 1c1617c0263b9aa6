"""Ctrl-C in the middle of a replay is an ending like any other."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures import klog


@pytest.mark.spark
def test_an_interrupt_ends_a_replay_without_a_traceback(tmp_path: Path) -> None:
    out = tmp_path / "out"
    logs = klog("generated-kafka-4.3-dynamic-voters")
    replay = subprocess.Popen(
        [sys.executable, "-m", "kraftd.cli.main", "replay", logs, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    deadline = time.monotonic() + 120
    while not (out / "records").exists() and replay.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    replay.send_signal(signal.SIGINT)
    shown, _ = replay.communicate(timeout=60)
    assert replay.returncode == 130, shown
    assert "Traceback" not in shown
    assert "ERROR" not in shown
