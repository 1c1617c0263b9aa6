"""Ctrl-C while a program is imported, before anything of its own could catch it."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kraftd.runtime import main as daemon
from tests.unit.runtime.test_imports import ROOT

INTERRUPTED = (
    "import os, signal, time\nos.kill(os.getpid(), {signal})\ntime.sleep({seconds})\nraise SystemExit(7)\n"
)


def interrupted(
    home: Path, library: str, *module: str, before: str = "", seconds: int = 20
) -> tuple[int, bytes]:
    """How a program ends that is sent SIGINT when it imports a library, and what it says."""
    (home / f"{library}.py").write_text(INTERRUPTED.format(signal=int(signal.SIGINT), seconds=seconds))
    code = f"import runpy, signal, sys; {before}sys.path.insert(0, {str(home)!r}); "
    code += (
        f"sys.argv = {list(module)!r}; runpy.run_module({module[0]!r}, run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("library", "module"),
    [("typer", ["kraftd.cli", "status"]), ("uvloop", ["kraftd", "start", "no.properties"])],
)
def test_an_interrupt_during_the_imports_ends_a_program_silently(
    library: str, module: list[str], tmp_path: Path
) -> None:
    assert interrupted(tmp_path, library, *module) == (130, b"")


def test_a_program_that_was_started_deaf_stays_deaf(tmp_path: Path) -> None:
    deaf = "signal.signal(signal.SIGINT, signal.SIG_IGN); "
    assert interrupted(tmp_path, "typer", "kraftd.cli", "status", before=deaf, seconds=0) == (7, b"")


def test_the_programs_are_whole_behind_their_imports() -> None:
    for module, code, said in (("kraftd.cli", 64, b"no-such"), ("kraftd", 64, b"usage: kraftd")):
        command = [sys.executable, "-m", module, "no-such"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60, check=False)
        assert done.returncode == code
        assert said in done.stderr


def test_an_interrupt_while_the_directory_is_opened_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[tuple[str, dict[str, object]]] = []

    class Logger:
        def warning(self, event: str, **fields: object) -> None:
            lines.append((event, fields))

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(daemon, "_allow_files", lambda: None)
    monkeypatch.setattr(daemon, "_open_directory", interrupt)
    monkeypatch.setattr(daemon.threading, "excepthook", daemon.threading.excepthook)
    assert daemon.start(None, Logger(), None) == 130  # type: ignore[arg-type]  # it goes no further
    assert lines == [("stopped_at_once", {"signal": "SIGINT"})]
