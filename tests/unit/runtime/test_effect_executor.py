"""Effects are carried out in order, each through its port, and none is unknown."""

from typing import Any, get_args

import pytest

from kraftd.raft import effects
from kraftd.raft.effects import (
    Append,
    Flush,
    PersistElection,
    Reply,
    Send,
    Truncate,
)
from kraftd.runtime.effect_executor import EffectExecutor
from kraftd.types import Election


class Port:
    """Any port: writes down what it is asked, in one list for all ports."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self._name = name
        self._seen = seen

    def __getattr__(self, method: str) -> Any:
        return lambda *_: self._seen.append(f"{self._name}.{method}")


def executor(seen: list[str]) -> EffectExecutor:
    return EffectExecutor(
        store=Port("store", seen),
        snapshots=Port("snapshots", seen),
        network=Port("network", seen),
        listener=Port("listener", seen),
        outcomes=Port("callers", seen),
        notice_logger=Port("logger", seen),
    )


def test_every_effect_of_the_union_has_a_port() -> None:
    assert executor([])._handlers.keys() == frozenset(get_args(effects.Effect))


@pytest.mark.covers("D-02")
def test_a_list_is_carried_out_in_its_order_with_barriers_where_the_core_put_them() -> None:
    seen: list[str] = []
    executor(seen).run(
        [
            PersistElection(Election(epoch=3)),
            Reply(1, None),  # type: ignore[arg-type]
            Truncate(5, 1),
            Append(5, 6, [b""]),
            Flush(1, 6),
            Send(2, 9, None),  # type: ignore[arg-type]
        ]
    )
    assert seen == [
        "store.persist_election",
        "network.reply",
        "store.truncate",
        "store.append",
        "store.start_flush",
        "network.send",
    ]


@pytest.mark.covers("D-02")
def test_nothing_follows_a_barrier_that_failed() -> None:
    seen: list[str] = []

    class Broken(Port):
        def persist_election(self, election: Election) -> None:
            raise OSError("no space left on device")

    carrier = EffectExecutor(
        store=Broken("store", seen),
        snapshots=Port("snapshots", seen),
        network=Port("network", seen),
        listener=Port("listener", seen),
        outcomes=Port("callers", seen),
        notice_logger=Port("logger", seen),
    )
    with pytest.raises(OSError, match="no space"):
        carrier.run([PersistElection(Election(epoch=3)), Reply(1, None)])  # type: ignore[arg-type]
    assert seen == [], "a response must never overtake the promise it depends on"
