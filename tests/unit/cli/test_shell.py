"""`kraftctl shell`: what each command answers, from `-c`, from a pipe and on a terminal."""

import io
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kraftd.cli.shell import _laid_out
from kraftd.cli.shell_commands import Session
from kraftd.logtools.finding import find_log
from kraftd.logtools.state import state_at
from kraftd.logtools.tree import root_of
from kraftd.records.frame import RawRecord
from tests.unit.cli.kraftctl import Kraftctl, Outcome
from tests.unit.logtools.logs import LogMaker, config, orders

Run = Callable[..., Outcome]


@pytest.fixture
def made(tmp_path: Path) -> LogMaker:
    return orders(tmp_path / "node")


@pytest.fixture
def run(kraftctl: Kraftctl, made: LogMaker) -> Run:
    def shell(*commands: str, options: tuple[object, ...] = ()) -> Outcome:
        words = [word for command in commands for word in ("-c", command)]
        return kraftctl("shell", made.home, *words, *options)

    return shell


def test_walking_through_folders(run: Run):
    outcome = run("ls /topics", "cd topics/orders", "pwd", "ls", "cd ..", "pwd", "cd", "pwd")
    assert outcome == (0, "orders\n/topics/orders\nid\n0\n1\n/topics\n/\n", "")


def test_files_are_shown_as_json_and_plain_values_as_they_are(run: Run):
    outcome = run("cat /configs/topic/orders/retention.ms", "cat /metadataQuorum/leader")
    assert outcome.out == '1000\n{\n  "leaderId": 2,\n  "leaderEpoch": 3\n}\n'
    several = run("cat /local/offset /local/epoch").out
    assert several == "/local/offset:\n11\n\n/local/epoch:\n3\n"


def test_a_tree_is_drawn(run: Run):
    assert run("tree /topics").out == (
        "/topics\n└── orders\n    ├── id = b3JkZXJzAQEBAQEBAQEBAQ\n    ├── 0\n    └── 1\n"
    )


def test_find_lists_paths_and_ls_several_folders(run: Run):
    assert run("find /brokers").out == "/brokers\n/brokers/1\n/brokers/2\n"
    assert run("ls /brokers /topics/orders/id /features").out == (
        "/topics/orders/id\n\n/brokers:\n1\n2\n\n/features:\nmetadata.version\n"
    )
    assert run("ls /topics/orders/0").out == "/topics/orders/0\n"


def test_help_names_every_command(run: Run):
    words = [line.split()[0] for line in run("help").out.splitlines()[:-1]]
    assert words == ["ls", "cd", "cat", "tree", "find", "pwd", "help", "exit"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("cat /topic", "there is no /topic; did you mean /topics?"),
        ("cat /topics", "/topics is a folder; ls or tree shows it"),
        ("cat", "cat needs the path of a file"),
        ("cd /local/epoch", "/local/epoch is a file; cat shows it"),
        ("cd a b", "cd takes one path"),
        ("rm /topics", "there is no command rm; help lists them"),
        ("ls -l", "ls takes paths and no options"),
        ("ls 'x", "ls 'x: no closing quotation"),
        ("ls x*", "there is nothing that fits /x*"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_the_rest_goes_on(run: Run, command: str, words: str):
    outcome = run(command, "pwd")
    assert (outcome.code, outcome.out, outcome.err) == (1, "/\n", f"kraftctl: {words}\n")


def test_commands_come_from_a_pipe(kraftctl: Kraftctl, made: LogMaker, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("# a comment\n\ncd /topics\npwd\nexit\nls\n"))
    assert kraftctl("shell", made.home) == (0, "/topics\n", "")


def test_results_are_data_for_programs(run: Run):
    outcome = run("ls /brokers", "cd /topics", "pwd", "cat /local/offset", options=("-o", "json"))
    assert outcome.out == '["1","2"]\n"/topics"\n11\n'
    assert (
        run("find /features", options=("-o", "yaml")).out == "- - /features\n  - /features/metadata.version\n"
    )


def test_a_partial_state_is_marked(run: Run, made: LogMaker):
    made.batch(RawRecord(99, 0, b"x"))
    outcome = run("cat /local/isPartial /local/unknownKinds")
    assert "PARTIAL" in outcome.err
    assert "UnknownRecord99" in outcome.out


def test_at_a_point(run: Run):
    assert run("ls /topics", options=("--at", 4)).out == ""
    assert run("cat /topics/orders/0", options=("--at", 7)).code == 0


def test_a_snapshot_alone_can_be_walked_through(kraftctl: Kraftctl, made: LogMaker):
    snapshot = made.snapshot()
    assert kraftctl("shell", snapshot, "-c", "ls /topics").out == "orders\n"


def test_a_running_nodes_log_is_followed(made: LogMaker, kraftctl: Kraftctl, monkeypatch: pytest.MonkeyPatch):
    def lines() -> Iterator[str]:
        yield "cat /local/offset"
        made.batch(config("2"))
        yield "cat /local/offset /configs/topic/orders/retention.ms"

    class Input:
        def isatty(self) -> bool:
            return False

        def __iter__(self) -> Iterator[str]:
            return lines()

    monkeypatch.setattr(sys, "stdin", Input())
    outcome = kraftctl("shell", made.home)
    assert outcome.out == "11\n/local/offset:\n12\n\n/configs/topic/orders/retention.ms:\n2\n"


def test_where_one_is_stays_when_the_state_goes_on_and_leads_up_when_it_is_gone(made: LogMaker):
    log = find_log(made.home)
    session = Session(root_of(state_at(log)))
    session.run("cd /topics/orders")
    session.reload(root_of(state_at(log)))
    assert session.directory == "/topics/orders"
    session.reload(root_of(state_at(log, None), show_secrets=True))
    assert session.directory == "/topics/orders"
    empty = LogMaker(made.home.parent / "empty").lead(1, 1)
    session.reload(root_of(state_at(find_log(empty.home))))
    assert session.directory == "/topics"


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("", ["ls", "cd", "cat", "tree", "find", "pwd", "help", "exit"]),
        ("c", ["cd", "cat"]),
        ("ls /to", ["/topics/", "/topicIds/"]),
        ("ls /topics/", ["/topics/orders/"]),
        ("cat /topics/orders/", ["/topics/orders/id", "/topics/orders/0", "/topics/orders/1"]),
        ("cat brokers/", ["brokers/1", "brokers/2"]),
        ("cat /nowhere/x", []),
        ("cat /local/epoch/", []),
    ],
)
def test_commands_and_paths_are_completed(made: LogMaker, line: str, offered: list[str]):
    session = Session(root_of(state_at(find_log(made.home))))
    found = list(session.completions(line))
    assert sorted(text for text, _ in found) == sorted(offered)
    assert {start for _, start in found} <= {-len(line.rpartition(" ")[2])}


def test_names_are_laid_out_in_columns(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert _laid_out(["one", "two", "three", "four", "five"]) == "one    four\ntwo    five\nthree"
    assert _laid_out([]) == ""
    assert _laid_out(["x" * 30]) == "x" * 30


@contextmanager
def terminal(*arguments: str, state: Path) -> Iterator[int]:
    """`kraftctl` on a terminal of its own; the other end of it."""
    master, slave = os.openpty()
    environment = os.environ | {"TERM": "dumb", "XDG_STATE_HOME": str(state), "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [sys.executable, "-m", "kraftd.cli.main", *arguments]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            yield master
        finally:
            process.kill()
            os.close(master)


def read_until(master: int, words: str) -> str:
    seen = b""
    while words.encode() not in seen:
        select.select([master], [], [])
        try:
            seen += os.read(master, 65_536)
        except OSError:
            pytest.fail(f"the shell ended before it said {words!r}: {seen.decode(errors='replace')}")
    return seen.decode(errors="replace")


def test_on_a_terminal_it_asks_and_remembers(made: LogMaker, tmp_path: Path):
    with terminal("shell", str(made.home), state=tmp_path) as master:
        read_until(master, "11 />")
        os.write(master, b"cat /configs/topic/orders/retention.ms\r")
        read_until(master, "1000")
        os.write(master, b"cat /nothing\r")
        read_until(master, "kraftctl: there is no /nothing")
        os.write(master, b"cd topics\r")
        read_until(master, "11 /topics>")
        made.batch(config("2"))
        os.write(master, b"pwd\r")
        read_until(master, "12 /topics>")
        history = tmp_path / "kraftctl" / "shell_history"
        assert "+cat /nothing" in history.read_text()
        assert history.stat().st_mode & 0o077 == 0
        os.write(master, b"exit\r")
