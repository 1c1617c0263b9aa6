"""The attacks that once cost too much: floods, amplification, slots, idleness (section 3)."""

import os
import time

from tests.hostile import wire
from tests.hostile.flood import flood
from tests.hostile.ground import CLIENT, IMPATIENT, OBSERVER, OBSERVER_ID, STRANGER, Ground, attack, unharmed
from tests.hostile.innocent import CONFIG

MEGABYTE = 1_000_000
RATE = 3.0 * MEGABYTE
API_VERSIONS = wire.request("ApiVersions")
IMAGE_BYTES = 9_600_000
CHUNK = 400
ENTRY_BYTES = 1_000
FIRST_BROKER = 10_000


@attack(STRANGER, "3.6")
def api_versions_before_the_handshake(ground: Ground) -> None:
    """11-byte ApiVersions before any greeting, 3 MB/s over all nodes."""
    flood(ground, API_VERSIONS, rate=RATE)


@attack(STRANGER, "3.6")
def api_versions_that_nobody_reads(ground: Ground) -> None:
    """The same without reading a response, over 60 connections."""
    flood(ground, API_VERSIONS, rate=RATE, read=False, lines=60)


@attack(STRANGER, "3.6")
def greetings_without_end(ground: Ground) -> None:
    """Greetings as nobody, each connection greeting again and again, 3 MB/s."""
    flood(ground, wire.greeting(), rate=RATE)


def _client(_: int) -> bytes:
    return wire.greeting(software="flood")


@attack(CLIENT, "3.6")
def flood_of_greeted_clients(ground: Ground) -> None:
    """ApiVersions, DescribeQuorum and DescribeNode from 12 greeted clients, 3 MB/s."""
    payload = (
        API_VERSIONS + wire.request("DescribeNode") + wire.request("DescribeQuorum", {"Topics": _QUORUM})
    )
    flood(ground, payload, rate=RATE, opening=_client)


@attack(CLIENT, "3.6")
def flood_of_descriptions(ground: Ground) -> None:
    """DescribeQuorum alone, the dearest of the small ones, 3 MB/s from 48 clients that do not read."""
    flood(
        ground,
        wire.request("DescribeQuorum", {"Topics": _QUORUM}),
        rate=RATE,
        opening=_client,
        lines=48,
        read=False,
    )


_QUORUM = [{"TopicName": wire.METADATA_TOPIC, "Partitions": [{"PartitionIndex": 0}]}]


@attack(OBSERVER, "3.6")
def flood_of_false_observers(ground: Ground) -> None:
    """The same requests from node 99, whose frames a node once heard before those of clients."""
    payload = (
        API_VERSIONS + wire.request("DescribeNode") + wire.request("DescribeQuorum", {"Topics": _QUORUM})
    )

    def opening(node_id: int) -> bytes:
        return wire.greeting(OBSERVER_ID, **ground.identity(node_id), directory_id=os.urandom(16))

    flood(ground, payload, rate=RATE, opening=opening)


@attack(CLIENT, "3.6")
def as_fast_as_it_goes(ground: Ground) -> None:
    """210 MB of ApiVersions on client connections, as fast as they are taken."""
    flood(
        ground,
        API_VERSIONS,
        rate=300 * MEGABYTE,
        opening=_client,
        lines=24,
        read=False,
        bytes_max=210 * MEGABYTE,
    )


def fill_image(ground: Ground) -> None:
    """Give the image as many configs as a large cluster has."""
    deadline = time.monotonic() + 60
    with ground.quorum.line(ground.leader_id, timeout_s=20.0) as line:
        done = 0
        while done * ENTRY_BYTES < IMAGE_BYTES and time.monotonic() < deadline:
            config = {"Name": CONFIG, "ConfigOperation": 0, "Value": "x" * ENTRY_BYTES}
            resources = [
                {"ResourceType": 4, "ResourceName": str(FIRST_BROKER + done + step), "Configs": [config]}
                for step in range(CHUNK)
            ]
            response = line.ask("IncrementalAlterConfigs", {"Resources": resources})
            if any(each["ErrorCode"] for each in response["Responses"]):
                raise AssertionError(f"the image was not filled: {response['Responses'][0]}")
            done += CHUNK


@attack(CLIENT, "3.7", prepare=fill_image)
def lists_that_nobody_reads(ground: Ground) -> None:
    """64 ListConfigs on each of some connections, against an image of 9.6 MB, and no response read."""
    for number in ground.lasting(0.1):
        if number < 6:
            with unharmed():
                line = ground.client(ground.node_ids[number % 3], buffers=4_096)
                line.send(
                    b"".join(wire.request("ListConfigs", {}, correlation_id=each) for each in range(64))
                )


@attack(CLIENT, "3.7", prepare=fill_image)
def descriptions_of_everything(ground: Ground) -> None:
    """DescribeConfigs of 9,600 brokers in one request, with documentation, 16 times, not read."""
    resources = [
        {"ResourceType": 4, "ResourceName": str(FIRST_BROKER + number), "ConfigurationKeys": None}
        for number in range(IMAGE_BYTES // ENTRY_BYTES)
    ]
    values = {"Resources": resources, "IncludeSynonyms": True, "IncludeDocumentation": True}
    frame = wire.request("DescribeConfigs", values)
    for number in ground.lasting(0.1):
        if number < 4:
            with unharmed():
                ground.client(ground.leader_id, buffers=4_096, timeout_s=0.5).send(frame * 4)


@attack(CLIENT, "3.8", prepare=fill_image, elections=0)
def a_list_longer_than_a_frame(ground: Ground) -> None:
    """No attack: `kraftctl configs list` against an image of 9.6 MB lists all of it."""
    code, text = ground.quorum.kraftctl("configs", "list", "-o", "json")
    count = text.count("x" * ENTRY_BYTES)
    if code != 0 or count < IMAGE_BYTES // ENTRY_BYTES:
        ground.fail(
            f"configs list ended with {code} and {count} of {IMAGE_BYTES // ENTRY_BYTES}: {text[:200]!r}"
        )


@attack(OBSERVER, "3.9")
def slots_full_of_idle_nodes(ground: Ground) -> None:
    """4,200 idle connections of invented nodes at the leader: a new client must still get in."""
    greeted = 0
    for number in range(4_200):
        with unharmed():
            line = ground.line(ground.leader_id, host=2 + number // 1_000, timeout_s=1.0)
            line.send(
                wire.greeting(
                    1_000 + number,
                    cluster_id=ground.known(ground.leader_id)["ClusterId"],
                    directory_id=os.urandom(16),
                )
            )
            if number % 100 == 99:
                line.receive()
                greeted += 1
    ground.note(f"{greeted} of 42 asked were let in")
    _newcomer(ground)


@attack(CLIENT, "3.9")
def slots_full_of_idle_clients(ground: Ground) -> None:
    """4,200 idle connections of clients at the leader: voters keep their places."""
    for number in range(4_200):
        with unharmed():
            ground.line(ground.leader_id, host=2 + number // 1_000, timeout_s=1.0).send(wire.greeting())
    for _ in ground.lasting(0.2):
        pass


@attack(CLIENT)
def idle_after_a_long_greeting(ground: Ground) -> None:
    """150 clients that name 12,500 APIs in their greeting, and then stay and say nothing."""
    greeting = wire.greeting(api_keys=[[1, 0, 0, {}]] * 12_500)
    greeted = 0
    for number in range(150):
        with unharmed():
            line = ground.line(ground.node_ids[number % 3])
            line.send(greeting)
            line.receive()
            greeted += 1
    ground.note(f"{greeted} of 150 were greeted")
    for _ in ground.lasting(0.1):
        pass


def _newcomer(ground: Ground) -> None:
    """A client from another address. Where the greetings before its own take longer than one may take, it is
    closed with many others, and comes again.
    """

    def is_in() -> bool:
        with unharmed(), ground.open(ground.leader_id, host=77, timeout_s=20.0) as line:
            response = line.greet()
            if response["ErrorCode"]:
                ground.fail(f"a client was refused: {response['ErrorMessage']}")
            line.ask("DescribeNode")
            return True
        return False

    ground.wait("a new client got in", is_in, promised_s=LET_IN_S)


LET_IN_S = 5.0
"""Within how long a new client gets in: a greeting may take as long."""


@attack(CLIENT, "3.9", setup=IMPATIENT, elections=0)
def idle_for_ever(ground: Ground) -> None:
    """Idle clients and observers are closed after `connections.max.idle.ms`, here two seconds."""
    lines = []
    for node_id in ground.node_ids:
        lines += [ground.client(node_id) for _ in range(20)]
        lines += [ground.observer(node_id, 100 + number) for number in range(20)]
    left = list(lines)

    def are_closed() -> bool:
        left[:] = [line for line in left if not line.is_closed()]
        return not left

    ground.wait(f"all {len(lines)} idle connections were closed", are_closed, promised_s=20.0)
