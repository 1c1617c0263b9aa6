"""The replay as a Spark application, with the `spark-submit` that comes with pip's pyspark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kraftd.replay
from kraftd.replay.errors import ReplayError
from kraftd.replay.session import require_spark
from kraftd.replay.submit import main
from tests.fixtures import klog

SUBMIT = Path(kraftd.replay.__file__).parent / "submit.py"
BIN = Path(sys.executable).parent


@pytest.mark.spark
def test_spark_submit_writes_tables_and_prints_the_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(BIN / "spark-submit", "--master", "local[2]", SUBMIT),
            *(klog("kafka-3.8-three-nodes-incomplete-export"), "--out", tmp_path / "out"),
        ],
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, "an incomplete copy is no success"
    assert "Traceback" not in done.stdout + done.stderr
    assert "incomplete node-1, node-2, node-3: 00000000000000000000.log: ends at offset" in done.stdout
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"records", "leader_epochs", "configs"}


def test_wrong_usage_is_64(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 64
    assert "usage: replay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["/nowhere", "--out", "out"], "replay: /nowhere: no such directory"),
        ([".", "--out", "out", "--at", "noon"], "replay: --at 'noon' is neither an offset (1234) nor a time"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert said.startswith(line)
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_java_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ReplayError, match="replay needs Java 17 or newer: set JAVA_HOME"):
        require_spark()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ReplayError, match="replay needs Java 17 or newer: set JAVA_HOME"):
        require_spark()


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ('openjdk version "11.0.2"', "is Java 11: set JAVA_HOME"),
        ('java version "1.8.0_202"', "is Java 8: set JAVA_HOME"),
        ("moo", "is it Java?"),
    ],
)
def test_an_old_java_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, printed: str, said: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{printed}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ReplayError, match=said.replace("?", r"\?")):
        require_spark()


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "kraftd.replay.session.find_spec", lambda name: None if name == "pyspark" else object()
    )
    with pytest.raises(ReplayError, match=r"replay needs pyspark: .* pip install 'kraftd\[replay\]'"):
        require_spark()
