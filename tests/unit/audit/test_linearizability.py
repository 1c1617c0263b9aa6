"""What one register could have answered passes, what it could not is named; a naive twin agrees on both."""

import time
from collections.abc import Hashable, Iterator
from itertools import permutations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraftd.audit.linearizability import FOREVER, Kind, Operation, Outcome, check


def write(value: Hashable, called: int, returned: int | None, outcome: Outcome = "ok") -> Operation:
    return Operation(1, "k", "write", value, called, returned, outcome)


def read(value: Hashable, called: int, returned: int | None, outcome: Outcome = "ok") -> Operation:
    return Operation(2, "k", "read", value, called, returned, outcome)


LINEARIZABLE: dict[str, list[Operation]] = {
    "nothing": [],
    "a read of a new key": [read(None, 0, 1)],
    "a read after a write": [write("a", 0, 1), read("a", 2, 3)],
    "a read beside a write sees either": [write("a", 0, 9), read(None, 1, 2), read("a", 3, 4)],
    "what touches in time is concurrent": [write("a", 0, 5), read(None, 5, 6)],
    "an unknown write that is never seen": [
        write("a", 0, 1),
        write("b", 2, None, "unknown"),
        read("a", 9, 10),
    ],
    "an unknown write that is seen late": [
        write("b", 0, None, "unknown"),
        write("a", 1, 2),
        read("a", 3, 4),
        read("b", 5, 6),
    ],
    "a refused write that is not seen": [write("a", 0, 1), write("b", 2, 3, "failed"), read("a", 4, 5)],
    "an unknown read says nothing": [write("a", 0, 1), read("z", 2, None, "unknown")],
    "two writes beside each other, in the other order": [
        write("a", 0, 9),
        write("b", 0, 9),
        read("b", 1, 2),
        read("a", 3, 9),
    ],
    "the same value twice": [write("a", 0, 1), write("b", 2, 3), write("a", 4, 5), read("a", 6, 7)],
    "an unknown write of a value that is written twice": [
        write("a", 0, 1),
        write("a", 2, None, "unknown"),
        write("b", 3, 4),
        read("b", 5, 6),
        read("a", 7, 8),
    ],
    "a key that is deleted": [write("a", 0, 1), write(None, 2, 3), read(None, 4, 5)],
}

IMPOSSIBLE: dict[str, tuple[list[Operation], str]] = {
    "a stale read": ([write("a", 0, 1), write("b", 2, 3), read("a", 4, 5)], "read of 'a'"),
    "a lost write": ([write("a", 0, 1), read(None, 2, 3)], "read of None"),
    "a value from nowhere": ([read("a", 0, 1)], "nobody wrote it"),
    "a value from the future": ([read("a", 0, 1), write("a", 2, 3)], "written later"),
    "a refused write that is seen": ([write("a", 0, 1, "failed"), read("a", 2, 3)], "its write was refused"),
    "a value that comes back": (
        [write("a", 0, 9), read("a", 1, 2), read(None, 3, 4)],
        "no place",
    ),
    "two readers who disagree": (
        [write("a", 0, 9), write("b", 0, 9), read("a", 1, 2), read("b", 3, 4), read("a", 5, 6)],
        "no place",
    ),
    "an unknown write that comes and goes": (
        [write("a", 0, 1), write("b", 2, None, "unknown"), read("b", 3, 4), read("a", 5, 6)],
        "no place",
    ),
    "an unknown write that takes effect before its call": (
        [read("b", 0, 1), write("b", 2, None, "unknown")],
        "written later",
    ),
}


@pytest.mark.parametrize("name", LINEARIZABLE)
def test_what_one_register_could_answer_passes(name: str) -> None:
    assert check(LINEARIZABLE[name]) is None


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_it_could_not_is_named(name: str) -> None:
    history, words = IMPOSSIBLE[name]
    complaint = check(history)
    assert complaint is not None
    assert complaint.startswith("key k: ")
    assert words in complaint
    assert "\n" not in complaint


def test_keys_do_not_mix() -> None:
    other = Operation(1, "other", "write", "a", 0, 1, "ok")
    assert check([other, read(None, 2, 3)]) is None
    assert check([other, read("a", 2, 3)]) is not None


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    kinds: st.SearchStrategy[Kind] = st.sampled_from(["write", "read"])
    outcomes: st.SearchStrategy[Outcome] = st.sampled_from(["ok", "ok", "ok", "unknown", "failed"])
    history = []
    for client in range(draw(st.integers(1, 6))):
        called = draw(st.integers(0, 8))
        kind, outcome = draw(kinds), draw(outcomes)
        returned = None if outcome == "unknown" else called + draw(st.integers(0, 6))
        value = draw(st.sampled_from([None, "a", "b"]))
        history.append(Operation(client, "k", kind, value, called, returned, outcome))
    return history


def brute_force(history: list[Operation]) -> bool:
    """Every order of every choice of the unknown."""
    sure = [o for o in history if o.outcome == "ok"]
    unknown = [o for o in history if o.outcome == "unknown" and o.kind == "write"]
    for chosen in range(1 << len(unknown)):
        placed = sure + [o for i, o in enumerate(unknown) if chosen >> i & 1]
        if any(_explains(order) for order in permutations(placed)):
            return True
    return False


def _explains(order: tuple[Operation, ...]) -> bool:
    value: Hashable = None
    latest_call = -1
    for operation in order:
        returned = FOREVER if operation.returned is None else operation.returned
        if returned < latest_call:
            return False
        latest_call = max(latest_call, operation.called)
        if operation.kind == "write":
            value = operation.value
        elif operation.value != value:
            return False
    return True


@settings(max_examples=600)
@given(histories())
def test_it_agrees_with_every_order_tried(history: list[Operation]) -> None:
    assert (check(history) is None) == brute_force(history)


def real_history(size: int, random: Random, clients: int = 8) -> Iterator[Operation]:
    """What a register answers to clients who wait for each response; a tenth of the writes are unknown."""
    value: Hashable = None
    free_at = [0] * clients
    spans = []
    for _ in range(size):
        client = random.randrange(clients)
        called = free_at[client] + random.randrange(20)
        at = called + random.randrange(50)
        free_at[client] = at + random.randrange(50) + 1
        spans.append((at, client, called, free_at[client]))
    for number, (_, client, called, returned) in enumerate(sorted(spans)):
        if random.random() < 0.5:
            yield Operation(client, "k", "read", value, called, returned, "ok")
        elif random.random() < 0.1:
            if random.random() < 0.5:
                value = number
            yield Operation(client, "k", "write", number, called, None, "unknown")
        else:
            value = number
            yield Operation(client, "k", "write", value, called, returned, "ok")


@pytest.mark.parametrize("seed", range(20))
def test_what_a_register_answered_passes_and_one_changed_response_does_not(seed: int) -> None:
    random = Random(seed)
    history = list(real_history(300, random))
    assert check(history) is None
    reads = [i for i, o in enumerate(history) if o.kind == "read" and i > 200]
    changed = random.choice(reads)
    old = history[changed]
    values = [o.value for o in history[:50] if o.kind == "write" and o.outcome == "ok"]
    history[changed] = Operation(old.client, "k", "read", values[0], old.called, old.returned, "ok")
    assert check(history) is not None


def test_tens_of_thousands_of_operations_on_one_key_take_seconds() -> None:
    history = list(real_history(30_000, Random(1)))
    started = time.process_time()
    assert check(history) is None
    assert time.process_time() - started < 5
