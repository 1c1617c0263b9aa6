"""What is measured beside each other: processes that drive three nodes of a system or build (`side.py`)."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from side import Step

ROOT = Path(__file__).parents[1]
PATIENCE_S = 30


class Who(msgspec.Struct, frozen=True):
    """A system, and of kraftd the folder and the interpreter of one build."""

    name: str
    system: str = "kraftd"
    root: Path = ROOT
    python: str = sys.executable
    brokers: bool = False
    """Whether Kafka's are attached."""


class Contender:
    """The process that drives one of them; it does one step at a time."""

    def __init__(self, who: Who, directory: Path) -> None:
        self.name = who.name
        self.is_python = who.system == "kraftd"
        compile_modules(who)
        command = [who.python, str(Path(__file__).with_name("side.py")), str(directory), who.system]
        command += ["--brokers"] if who.brokers else []
        self._process = subprocess.Popen(
            command,
            env=environment(who.root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if sys.stderr.isatty() else None,
        )
        hello = self._answer()
        self.interpreter = str(hello["interpreter"])
        package = Path(str(hello["kraftd"]))
        if package != (who.root / "kraftd").resolve():
            raise SystemExit(f"{who.root} was to be measured, but Python finds kraftd in {package}")

    def do(self, step: Step) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and its answer says why
            self._process.stdin.write(msgspec.json.encode(step) + b"\n")
            self._process.stdin.flush()
        return self._answer()

    def stop(self) -> None:
        """End its daemons, and it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:  # it has not started yet, and reads nothing
            self._process.terminate()
            self._process.wait(PATIENCE_S)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name}: the measuring process ended early; its words are above")
        answer = msgspec.json.decode(line, type=dict[str, Any])
        if "missing" in answer:
            raise SystemExit(answer["missing"])
        return answer


@contextmanager
def contenders(all_of_them: Sequence[Who], scratch: Path) -> Iterator[list[Contender]]:
    """All of them with their nodes up, and none left behind."""
    found: list[Contender] = []
    try:
        for number, who in enumerate(all_of_them):
            found.append(Contender(who, scratch / f"nodes-{number}"))
        yield found
    finally:
        for contender in found:
            contender.stop()


def compile_modules(who: Who) -> None:
    """All builds with compiled modules, or the first to have run here would start sooner."""
    subprocess.run(
        [who.python, "-m", "compileall", "-q", "kraftd"],
        cwd=who.root,
        env=environment(who.root),
        check=True,
    )


def environment(root: Path) -> dict[str, str]:
    """In which a build's daemons run: its own package, compiled once."""
    without = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**without, "PYTHONPATH": str(root)}


def unpacked(other: str, scratch: Path) -> Path:
    """The folder of the other build: as named, or the revision of that name."""
    if (Path(other) / "kraftd").is_dir():
        return Path(other).resolve()
    folder = scratch / "other"
    folder.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", other, "kraftd"], capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"{other} is neither a folder with kraftd in it nor a revision of {ROOT}")
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder
