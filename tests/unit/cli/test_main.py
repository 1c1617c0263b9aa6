"""Every ending of `kraftctl` is a line and an exit code."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kraftd.cli.failures import ExitCode, UsageError
from kraftd.cli.main import COMMANDS
from kraftd.cli.times import parse_point, parse_time
from kraftd.metadata.config_schema import ResourceType
from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
    ResignLeaderRequest,
    ResignLeaderResponse,
)
from tests.fixtures import klog
from tests.unit.cli.kraftctl import Kraftctl
from tests.unit.cli.scripted import ScriptedQuorum
from tests.unit.logtools.logs import orders

KRAFTCTL = [sys.executable, "-m", "kraftd.cli.main"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
"""Unbuffered, Python loses the rest of a write that a pipe took in part, and never sees that it broke."""


@pytest.mark.parametrize(
    "arguments",
    [
        ["no-such-command"],
        ["--no-such-option"],
        ["status"],
        ["status", "extra"],
        ["status", "-o", "xml"],
        ["status", "--bootstrap-controller", "no-port"],
        ["status", "--bootstrap-controller", "host:0"],
        ["status", "--bootstrap-controller", "host:65536"],
        ["status", "--bootstrap-controller", "::1:9093"],
        ["status", "--bootstrap-controller", ","],
        ["resign", "--to", "x"],
        ["configs"],
        ["configs", "set", "--bootstrap-controller", "h:1", "name"],
        ["configs", "set", "--bootstrap-controller", "h:1", "=value"],
        ["configs", "set", "--bootstrap-controller", "h:1", "no.such.config=1"],
        ["configs", "set", "--bootstrap-controller", "h:1", "log.retention.ms=1", "log.retention.ms=2"],
        ["configs", "delete", "--bootstrap-controller", "h:1", "log.retenton.ms"],
        ["format"],
        ["log"],
        ["log", "dump"],
        ["log", "dump", "--type", "NoSuch", "/"],
        ["log", "dump", "--from-time", "yesterday", "/"],
        ["log", "dump", "--follow", "/a", "/b"],
        ["export", "neither", "/nowhere"],
        ["metrics"],
        ["replay", "--out", "/x"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_64_and_never_the_code_for_cannot_connect(
    kraftctl: Kraftctl, arguments: list[str]
) -> None:
    outcome = kraftctl(*arguments)
    assert outcome.code == 64
    assert outcome.out == ""
    assert outcome.err.startswith("kraftctl: ")
    assert outcome.err.count("\n") == 1


def test_without_a_command_there_is_help(kraftctl: Kraftctl) -> None:
    outcome = kraftctl()
    assert outcome.code == 64
    assert "Usage: kraftctl" in outcome.out


def test_it_tells_its_version(kraftctl: Kraftctl) -> None:
    outcome = kraftctl("--version")
    assert (outcome.code, outcome.err) == (0, "")
    assert re.fullmatch(r"kraftctl \d+\.\d+\.\d+\n", outcome.out)


def test_a_misspelt_command_is_suggested(kraftctl: Kraftctl) -> None:
    assert "Did you mean 'status'?" in kraftctl("statsu").err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(kraftctl: Kraftctl, command: str) -> None:
    outcome = kraftctl(command, "--help")
    assert outcome.code == 0
    assert f"kraftctl {command}" in outcome.out


def test_help_lists_every_command_and_the_exit_codes(kraftctl: Kraftctl) -> None:
    text = kraftctl("--help").out
    _, _, commands = text.partition("A running quorum:")
    listed = re.findall(r"^  ([a-z-]+)  ", commands, re.MULTILINE)
    assert listed == list(COMMANDS)
    assert "5 cluster not healthy" in " ".join(text.split())


def test_a_missing_file_is_an_error_with_its_name(kraftctl: Kraftctl) -> None:
    for arguments in (("log", "dump"), ("metrics",)):
        outcome = kraftctl(*arguments, "/no/such/file")
        assert outcome.code == 1
        assert outcome.err.startswith("kraftctl: /no/such/file does not exist; ")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_who_asks_for_a_format_as_elsewhere_is_told_how_it_is_written_here(
    kraftctl: Kraftctl, form: str
) -> None:
    outcome = kraftctl("topics", "list", f"--{form}")
    assert outcome.code == 64
    assert outcome.err == (
        f"kraftctl: No such option: --{form}; write -o {form}; see kraftctl topics list --help\n"
    )
    assert "write -o" not in kraftctl("topics", "list", "--jsn").err


@pytest.mark.parametrize("command", [["info"], ["log", "dump"], ["metrics"]], ids=" ".join)
def test_what_may_not_be_read_is_an_error_and_no_wrong_usage(
    kraftctl: Kraftctl, command: list[str], tmp_path: Path
) -> None:
    kraftctl(*command, tmp_path / "absent")  # whatever is imported late is imported now
    with tempfile.TemporaryDirectory() as folder:
        locked = Path(folder) / "locked"
        locked.mkdir(mode=0)
        with not_as_root():
            outcome = kraftctl(*command, locked)
    assert outcome.code == 1
    assert "Permission denied" in outcome.out + outcome.err


@contextlib.contextmanager
def not_as_root() -> Iterator[None]:
    """Root may read everything: be somebody else meanwhile."""
    user, effective, saved = os.getresuid()
    if effective == 0:
        os.setresuid(65534, 65534, 0)
    yield
    os.setresuid(user, effective, saved)


def test_nobody_listening_is_2(kraftctl: Kraftctl) -> None:
    for command in (["status"], ["replication", "--timeout-ms", 1], ["resign"], ["configs", "list"]):
        outcome = kraftctl("--bootstrap-controller", "127.0.0.1:1", *command)
        assert outcome.code == 2
        assert "connection refused" in outcome.err


def test_the_bootstrap_nodes_may_come_from_the_environment(
    kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFTD_BOOTSTRAP", "127.0.0.1:1")
    assert "127.0.0.1:1 " in kraftctl("status").out
    assert "127.0.0.1:2 " in kraftctl("status", "--bootstrap-controller", "127.0.0.1:2").out
    assert "127.0.0.1:2 " in kraftctl("--bootstrap-controller", "127.0.0.1:2", "status").out


def test_a_bug_is_one_line_too(kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch) -> None:
    import kraftd.cli.directory

    monkeypatch.setattr(kraftd.cli.directory, "draw_uuid", lambda: 1 // 0)
    outcome = kraftctl("random-uuid")
    assert outcome.code == 1
    assert outcome.err.startswith("kraftctl: this is a bug in kraftctl: ZeroDivisionError at ")
    assert outcome.err.count("\n") == 1


def test_a_reader_that_goes_away_ends_it_silently(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    log.write_text('{"event":"metrics","node":1,' + ",".join(f'"m{i}":{i}' for i in range(20_000)) + "}\n")
    arguments = [*KRAFTCTL, "metrics", str(log)]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""


def test_a_full_disk_under_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*KRAFTCTL, "random-uuid"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"kraftctl: standard output: No space left on device; the output is lost\n"


def test_what_cannot_be_said_on_standard_error_changes_no_exit_code() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*KRAFTCTL, "status", "--bootstrap-controller", "127.0.0.1:1"],
            stdout=subprocess.PIPE,
            stderr=full,
            env=ENVIRONMENT,
            timeout=30,
            check=False,
        )
    assert done.returncode == ExitCode.NOT_CONNECTED


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_characters_is_written_to(encoding: str, tmp_path: Path) -> None:
    absent = tmp_path / "é\u2013\U0001f600\ud7ff"

    def ask(*arguments: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*KRAFTCTL, *map(str, arguments)],
            capture_output=True,
            env=ENVIRONMENT | {"PYTHONIOENCODING": encoding},
            timeout=30,
            check=False,
        )

    assert ask("--help").returncode == 0
    done = ask("info", absent, "-o", "json")
    assert b"\\u2013\\ud83d\\ude00\\ud7ff" in done.stdout + done.stderr
    assert b"bug" not in done.stderr


def test_characters_that_an_encoding_lacks_are_escaped_as_in_json() -> None:
    text = "é \U0001f600 \ud800"
    written = text.encode("ascii", "kraftctl.escaped").decode("ascii")
    assert json.loads(f'"{written}"') == text
    assert os.fsdecode(b"\xff/\xfe").encode("utf-8", "kraftctl.escaped") == b"\xff/\xfe"


def in_shell(script: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", script, "sh", *KRAFTCTL, *arguments],
        capture_output=True,
        env=ENVIRONMENT,
        timeout=30,
        check=False,
    )


LOST = b"kraftctl: standard output: Bad file descriptor; the output is lost\n"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("random-uuid",), 1),
        (("--version",), 1),
        (("configs", "set", "--help"), 1),
        (("status", "--bootstrap-controller", "127.0.0.1:1"), 2),
    ],
)
def test_output_that_cannot_be_written_is_an_error(arguments: tuple[str, ...], code: int) -> None:
    done = in_shell('exec "$@" >&- <&-', *arguments)
    assert done.returncode == code
    assert done.stderr.endswith(LOST)
    assert in_shell('exec "$@" >&- 2>&-', *arguments).returncode == code


def test_what_was_changed_is_said_where_the_output_is_lost(quorum: ScriptedQuorum, tmp_path: Path) -> None:
    quorum.nodes[2].responses[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse(
        responses=(
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_message=None, resource_type=ResourceType.BROKER
            ),
        )
    )
    quorum.nodes[2].responses[ResignLeaderRequest] = lambda _: ResignLeaderResponse(epoch=7, successor=3)
    config = tmp_path / "node.properties"
    config.write_text(
        "process.roles=controller\nnode.id=4\ncontroller.quorum.voters=4@localhost:9093\n"
        "listeners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path / 'data'}\n"
    )
    source = klog("generated-kafka-4.3-dynamic-voters") / "node-2"
    said = {
        ("configs", "set", "log.retention.ms=1"): b"kraftctl: the change was made, and is committed\n",
        ("configs", "delete", "log.retention.ms"): b"kraftctl: the change was made, and is committed\n",
        ("resign", "--timeout-ms", "200"): b"kraftctl: node 2 leads no longer\n",
        ("format", "-c", str(config), "-t", "x"): f"kraftctl: {tmp_path / 'data'} is formatted\n".encode(),
        ("export", str(source), str(tmp_path / "copy")): (
            f"kraftctl: the copy is in {tmp_path / 'copy'}\n".encode()
        ),
        ("status",): b"",
    }
    for arguments, line in said.items():
        done = in_shell('exec "$@" >&-', "--bootstrap-controller", quorum.bootstrap, *arguments)
        assert (done.returncode, done.stderr) == (1, line + LOST)


def test_every_exit_code_is_listed_where_codes_are(kraftctl: Kraftctl) -> None:
    top = Path(__file__).parents[3]
    readme, operations = (top / "README.md").read_text(), (top / "docs" / "operations.md").read_text()
    told = {
        "README.md": readme.partition("exit codes are stable (")[2].partition(")")[0],
        "operations.md": operations.partition("| exit code of")[2].partition("\n\n")[0],
        "--help": kraftctl("--help").out.partition("Exit codes:")[2],
    }
    for where, text in told.items():
        listed = {int(number) for number in re.findall(r"[0-9]+", text)}
        assert {int(code) for code in ExitCode} <= listed, where


def test_health_is_5_if_nobody_answers_and_every_other_command_2(kraftctl: Kraftctl) -> None:
    codes = [kraftctl(name, "--bootstrap-controller", "127.0.0.1:1").code for name in ("health", "status")]
    assert codes == [5, 2]


def test_a_closed_standard_error_does_no_harm() -> None:
    assert in_shell('exec "$@" 2>&-', "random-uuid").returncode == 0


def test_nothing_to_write_is_nothing_lost() -> None:
    done = in_shell('exec "$@" >&-', "status", "--no-such-option")
    assert done.returncode == 64
    assert LOST not in done.stderr


@pytest.mark.parametrize("arguments", [("random-uuid",), ("--help",)])
def test_a_pipe_that_nobody_reads_loses_the_output(arguments: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [*KRAFTCTL, *arguments],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            timeout=30,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"kraftctl: standard output: Broken pipe; the output is lost\n"


def test_an_interrupt_ends_it_silently(tmp_path: Path) -> None:
    segment = tmp_path / "00000000000000000000.log"
    segment.touch()
    process = subprocess.Popen(
        [*KRAFTCTL, "log", "dump", "--follow", str(segment)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert process.stdout.readline().startswith(b"Dumping")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(shell: str) -> None:
    environment = {
        **os.environ,
        "_KRAFTCTL_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": "kraftctl sta",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        "COMP_WORDS": "kraftctl sta",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [*KRAFTCTL], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert "status" in done.stdout
    assert "Traceback" not in done.stderr


MANY_DIGITS = "9" * 5_000
"""More than Python turns into a number."""


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--bootstrap-controller", f"localhost:{MANY_DIGITS}"),
        ("status", "--bootstrap-controller", "localhost:\u0663"),
        ("log", "dump", ".", "--from-time", MANY_DIGITS),
        ("replication", "--timeout-ms", MANY_DIGITS),
        ("status", "-o", "\x1b[2J"),
    ],
)
def test_a_number_or_word_out_of_range_is_a_usage_error(
    kraftctl: Kraftctl, arguments: tuple[str, ...]
) -> None:
    outcome = kraftctl(*arguments)
    assert outcome.code == 64
    assert "bug" not in outcome.err
    assert len(outcome.err) < 5_000
    assert outcome.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("parse", [parse_point, parse_time])
@pytest.mark.parametrize("text", [MANY_DIGITS, "9" * 20, "\u0663", "-1", ""])
def test_a_point_out_of_range_is_a_usage_error(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


def test_a_table_names_a_path_in_the_bytes_that_it_came_in() -> None:
    done = in_shell("exec \"$@\" $'no-such-\\xff'", "info")
    assert done.returncode == 1
    assert b"no-such-\xff" in done.stdout


def test_a_path_that_is_no_utf_8_is_no_bug(kraftctl: Kraftctl) -> None:
    for output in ("json", "yaml"):
        outcome = kraftctl("info", "no-such-\udcff", "-o", output)
        assert outcome.code == 1
        assert "bug" not in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "err"),
    [
        (("shell",), 0, b""),
        (("reassign", "verify", "--bootstrap-controller", "127.0.0.1:1", "--file", "-"), 64, b"it is empty"),
    ],
    ids=["shell", "reassign"],
)
def test_a_closed_standard_input_is_an_empty_one(
    tmp_path: Path, arguments: tuple[str, ...], code: int, err: bytes
) -> None:
    home = (str(orders(tmp_path / "node").home),) if arguments == ("shell",) else ()
    for closing in ("<&-", "</dev/null"):
        done = in_shell(f'exec "$@" {closing}', *arguments, *home)
        assert (done.returncode, done.stdout) == (code, b"")
        assert err in done.stderr
        assert b"bug" not in done.stderr
