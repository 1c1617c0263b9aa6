"""A slice of the fuzzer's frames, and what its grammar promises."""

import contextlib
import random

import msgpack
import pytest

from tests.hostile import fuzz, wire
from tests.hostile.grammar import DEPTHS, LIMIT, Facts, Grammar, nests
from tests.hostile.ground import PATIENT

FRAMES = 30_000
FACTS = Facts("cluster", [bytes(16)], [1, 2, 3], 5)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.xdist_group("hostile")
def test_a_slice_of_a_million_frames_is_held() -> None:
    report = fuzz.run(FRAMES, seed=1, rate=50.0, seconds=25.0, settings=PATIENT)
    print(report.row(), *report.notes, sep="\n")
    assert report.wrong == []


def test_frames_come_from_the_seed_alone() -> None:
    first, second = Grammar(7, FACTS), Grammar(7, FACTS)
    assert [first.spoilt() for _ in range(200)] == [second.spoilt() for _ in range(200)]
    assert [first.sound() for _ in range(200)] == [second.sound() for _ in range(200)]


def test_every_version_of_every_api_is_said() -> None:
    grammar = Grammar(1, FACTS)
    said = {tuple(msgpack.unpackb(grammar.sound()[4:], strict_map_key=False)[:2]) for _ in range(5_000)}
    assert said == {(api.key, version) for api in wire.apis().values() for version in api.versions}


def test_nests_are_on_both_sides_of_the_recursion_limit_at_every_api() -> None:
    assert min(DEPTHS) < LIMIT - 30 < LIMIT < LIMIT + 30 < max(DEPTHS)
    made = nests(FACTS, random.Random(1))
    frames = [next(made) for _ in range(20_000)]
    assert all(int.from_bytes(frame[:4], "big") == len(frame) - 4 for frame in frames)
    for opening in (b"\x91" * 900, b"\x81\x00" * 900, b"\x92\xc0" * 900):
        assert sum(opening in frame for frame in frames) > 1_000


def test_requests_to_hand_over_name_nobody() -> None:
    """That a client may ask a leader to resign is no defect; an election would hide those that are."""
    grammar = Grammar(3, FACTS)
    key = wire.apis()["ResignLeader"].key
    frames = [grammar.sound() for _ in range(3_000)] + [grammar.spoilt() for _ in range(10_000)]
    asked = []
    for frame in frames:
        with contextlib.suppress(ValueError, TypeError):
            asked.append(msgpack.unpackb(frame[4:], strict_map_key=False))
    bodies = [head[4] for head in asked if isinstance(head, list) and len(head) >= 5 and head[0] == key]
    targets = {body[0] for body in bodies if isinstance(body, list) and body and isinstance(body[0], int)}
    assert targets == {99, -2, 1 << 30}
