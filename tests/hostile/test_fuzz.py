"""A slice of the fuzzer's frames, and what its grammars promise."""

import contextlib
import random
from collections import Counter

import msgpack
import pytest

from kraftd.errors import MalformedError
from kraftd.protocol import messages as m
from kraftd.protocol.codec import UnsupportedVersion
from kraftd.protocol.kafka_codec import KAFKA
from tests.hostile import fuzz, wire
from tests.hostile.grammar import DEPTHS, LIMIT, Facts, Grammar, nests
from tests.hostile.ground import PATIENT
from tests.hostile.kafka_grammar import ENVELOPE, FORWARDED, Broker, KafkaGrammar
from tests.kafka_frames import kafka_requests

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


SERVED = frozenset(message.key for message, _ in kafka_requests() if message.key not in (52, 53, 54))
BROKERS = [Broker(2_001, bytes(15) + b"\1", 7), Broker(2_002, bytes(15) + b"\2", 9)]


def kafka(seed: int) -> KafkaGrammar:
    return KafkaGrammar(seed, FACTS, SERVED, BROKERS)


def test_frames_of_kafkas_wire_come_from_the_seed_alone() -> None:
    first, second = kafka(7), kafka(7)
    for say in (KafkaGrammar.sound, KafkaGrammar.broker, KafkaGrammar.spoilt):
        assert [say(first) for _ in range(200)] == [say(second) for _ in range(200)]


def test_every_version_of_every_served_api_of_kafkas_is_said_and_can_be_read() -> None:
    grammar, said = kafka(1), set()
    for _ in range(10_000):
        request = KAFKA.decode_request(grammar.sound()[4:])
        said.add((request.api_key, request.api_version))
    wanted = {(message.key, version) for message, version in kafka_requests() if message.key in KAFKA.apis}
    assert said == {shape for shape in wanted if shape[0] in SERVED}


def test_brokers_speak_for_themselves_and_forward_what_clients_ask() -> None:
    grammar = kafka(1)
    frames = [grammar.broker() for _ in range(3_000)]
    requests = [KAFKA.decode_request(frame[4:]) for frame in frames]
    inside = {KAFKA.peek_api_key(r.message.request_data) for r in requests if r.api_key == ENVELOPE}
    assert inside == set(FORWARDED) & SERVED
    beats = [request.message for request in requests if request.api_key == m.BrokerHeartbeatRequest.API_KEY]
    assert {(beat.broker_id, beat.broker_epoch) for beat in beats} > {(b.broker_id, b.epoch) for b in BROKERS}


def test_spoilt_frames_of_kafkas_wire_are_of_all_kinds() -> None:
    """Most cannot be read, in bodies and in heads; some can, and say something else."""
    grammar, became = kafka(3), Counter[str]()
    for number in range(4_000):
        frame = grammar.spoilt(broker=number % 2 == 0)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        try:
            KAFKA.decode_request(frame[4:])
        except (MalformedError, UnsupportedVersion) as error:
            became[type(error).__name__] += 1
        else:
            became["read"] += 1
    assert min(became["MalformedRequestError"], became["UnsupportedVersion"], became["read"]) > 200


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
