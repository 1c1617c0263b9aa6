"""What was measured by turns, and how it is shown: a table in Markdown, and notes below it."""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from alternation import ratios, spread
from load_round import Round
from peers.cluster import NODES, VALUE_BYTES
from rich.box import MARKDOWN
from rich.table import Table

COLUMNS = (
    "connections",
    "system",
    "changes/s",
    "ratio (quartiles)",
    "CPU ratio (quartiles)",
    "p50 ms",
    "p99 ms",
    "leader µs",
    "follower µs",
    "client µs",
    "turns",
    "messages",
    "syscalls",
    "fsyncs",
)
ATTACHED_COLUMNS = ("brokers µs", "snapshots")
"""Of systems with brokers: CPU of all three a change, and what was written in a round by all nodes."""
DIGITS = {"p50_ms": 2, "p99_ms": 2, "leader_us": 0, "follower_us": 0, "client_us": 1}
CLIENTS = {"c": "clients in C", "python": "one client in Python"}
WHY_EMPTY = {
    "etcd": "it has no loop whose turns, and no counter of its messages to members",
    "kafka": "it tells its counters over JMX alone, which is not on here",
}

Rounds = dict[str, dict[str, list[Round]]]
"""By load and system."""


class Measured(msgspec.Struct, frozen=True):
    """All rounds, and on what. The kernel counted in the last round of each, unless it says why not."""

    machine: str
    interpreters: dict[str, str]
    """Of those that are kraftd."""
    why_no_syscalls: str | None
    rounds: Rounds

    @property
    def counts(self) -> bool:
        """Whether the kernel counted."""
        return self.why_no_syscalls is None

    @property
    def attached(self) -> bool:
        """Whether there were brokers."""
        of_all = next(iter(self.rounds.values()))
        return any(rounds[0].snapshots is not None for rounds in of_all.values())


def table(measured: Measured, client: str) -> Table:
    """A row for each load and system."""
    title = f"{NODES} nodes each on loopback, values of {VALUE_BYTES} bytes; {CLIENTS[client]}"
    shown = Table(box=MARKDOWN, title=title)
    columns = (*COLUMNS, *ATTACHED_COLUMNS) if measured.attached else COLUMNS
    for number, name in enumerate(columns):
        shown.add_column(name, justify="left" if number < 2 else "right", no_wrap=True)
    for load, systems in measured.rounds.items():
        first = next(iter(systems))
        for name, rounds in systems.items():
            timed = rounds[:-1] if measured.counts else rounds
            compared = None if name == first else (systems[first][: len(timed)], timed)
            more = attached_cells(timed) if measured.attached else ()
            shown.add_row(load, name, *cells(timed, compared, rounds[-1]), *more)
    return shown


def cells(timed: list[Round], compared: tuple[list[Round], list[Round]] | None, last: Round) -> Iterator[str]:
    """The figures of one load on one system: medians of the timed rounds, counts of the last."""
    yield f"{middle(timed, 'changes_per_s'):,.0f}"
    yield "" if compared is None else ratio(*compared, of=lambda one: one.changes_per_s)
    yield "" if compared is None else ratio(*compared, of=lambda one: 1 / nodes_us(one))
    for name, digits in DIGITS.items():
        yield f"{middle(timed, name):,.{digits}f}"
    for name in ("turns", "messages"):
        yield "" if getattr(timed[0], name) is None else f"{middle(timed, name):.3g}"
    for name in ("syscalls", "fsyncs"):
        value = getattr(last, name)
        yield "" if value is None else f"{value:.3g}"


def attached_cells(timed: list[Round]) -> Iterator[str]:
    """Of its brokers, and how many snapshots it wrote in a round; nothing of a system without brokers."""
    yield "" if timed[0].brokers_us is None else f"{middle(timed, 'brokers_us'):,.0f}"
    yield "" if timed[0].snapshots is None else f"{middle(timed, 'snapshots'):.0f}"


def middle(rounds: Sequence[Round], name: str) -> float:
    """The median of one figure."""
    return spread([getattr(one, name) for one in rounds]).median


def nodes_us(one: Round) -> float:
    """CPU of all nodes a change."""
    return one.leader_us + (NODES - 1) * one.follower_us


def ratio(ours: list[Round], theirs: list[Round], *, of: Callable[[Round], float]) -> str:
    """Of neighbouring rounds, in something of which more is better."""
    found = ratios([of(one) for one in ours], [of(one) for one in theirs])
    return f"{found.median:.2f}x ({found.low:.2f}-{found.high:.2f})"


def notes(measured: Measured) -> Iterator[str]:
    """On what it was measured, which cells are empty, and why."""
    for name, interpreter in measured.interpreters.items():
        yield f"{name}: {interpreter}"
    yield measured.machine
    for name, rounds in next(iter(measured.rounds.values())).items():
        if rounds[0].turns is None:
            yield f"{name}, no turns and messages: {WHY_EMPTY.get(name, 'this build does not count them')}"
    if measured.why_no_syscalls:
        yield f"no syscalls: {measured.why_no_syscalls}; fsyncs are those that a system counts itself"
